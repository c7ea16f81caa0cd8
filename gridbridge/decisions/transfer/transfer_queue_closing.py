"""Decide when a transfer queue is closed, by load values and load thresholds (queue_conf(5)).

Keep imports few: the load sensor loads this module.
"""

from gridbridge.model.transfer.transfer_queue_load_values import CLOSED, FREE, PENDING, UP, load_value_complex_attribute

TYPE_CHECKING = False  # saves the import of typing, which is slow
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from gridbridge.model.cluster_snapshot import ClusterSnapshot

AHEAD_S = 1  # the poller's clock may run ahead by this many seconds


def are_load_values_fresh(age_s: float, stale_s: float) -> bool:
    """Say whether load values are recent; values from the future, after a clock change, are stale."""
    return -AHEAD_S <= age_s <= stale_s


def remote_cluster_load_values(
    remote: "ClusterSnapshot | None", cluster: str, now: "datetime", stale: "timedelta"
) -> dict[str, str]:
    """Return a cluster's load values; without a fresh job list (`remote`), the values close the cluster's queues."""
    values = CLOSED
    if remote is not None and now - remote.taken_at <= stale:
        values = {UP: "1", PENDING: str(remote.pending), FREE: str(remote.free_slots)}
    return {load_value_complex_attribute(cluster, key): value for key, value in values.items()}


def transfer_queue_load_thresholds(cluster: str, pending_limit: int) -> str:
    """Return a transfer queue's load_thresholds without np_load_avg; `pending_limit` 0 means no limit."""
    pending = f",{load_value_complex_attribute(cluster, PENDING)}={pending_limit}" if pending_limit else ""
    return f"{load_value_complex_attribute(cluster, UP)}=false{pending}"


def load_value_closing_queue(values: "Mapping[str, str]", cluster: str, pending_limit: int) -> str:
    """Return the load value (UP or PENDING) whose amount or absence closes a queue; '' for an open queue."""
    if values.get(load_value_complex_attribute(cluster, UP)) != "1":
        return UP
    pending = int(values.get(load_value_complex_attribute(cluster, PENDING), CLOSED[PENDING]))
    return PENDING if 0 < pending_limit <= pending else ""
