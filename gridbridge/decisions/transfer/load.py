"""The load values of a remote cluster, by which the scheduler at home opens and closes queues."""

from datetime import datetime, timedelta

from gridbridge.model.snapshot import ClusterSnapshot


def load_values(
    remote: ClusterSnapshot | None, cluster: str, now: datetime, stale: timedelta
) -> dict[str, str]:
    """Return what the sensor reports about a remote cluster; an unknown one is never idle."""
    prefix = f"gb_{cluster.replace('-', '_')}"
    if remote is None or now - remote.taken_at > stale:
        return {f"{prefix}_up": "0"}
    return {
        f"{prefix}_up": "1",
        f"{prefix}_pending": str(remote.pending),
        f"{prefix}_free": str(remote.free_slots),
    }
