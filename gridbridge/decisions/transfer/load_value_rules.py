"""The load values of a remote cluster, by which the scheduler at home opens and closes queues."""

from datetime import datetime, timedelta

from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.model.transfer.load_values import CLOSED, FREE, PENDING, UP, name_of


def load_values(
    remote: ClusterSnapshot | None, cluster: str, now: datetime, stale: timedelta
) -> dict[str, str]:
    """Return what the sensor reports about a remote cluster; an unknown one is never idle.

    All names are always there (model.transfer.load).
    """
    values = CLOSED
    if remote is not None and now - remote.taken_at <= stale:
        values = {UP: "1", PENDING: str(remote.pending), FREE: str(remote.free_slots)}
    return {name_of(cluster, key): value for key, value in values.items()}
