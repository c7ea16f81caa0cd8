"""The one rule for when a transfer queue is closed, for the load sensor, setup, status and check.

Grid Engine closes a queue whose load value reaches a load threshold (queue_conf(5)). The poller says by load values
whether a remote cluster answers, and how many jobs wait there. The load sensor, a hot program, loads this module.
"""

from gridbridge.model.transfer.load_values import CLOSED, FREE, PENDING, UP, load_value_complex_attribute

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from gridbridge.model.cluster_snapshot import ClusterSnapshot

AHEAD_S = 1  # how far the poller's clock may be ahead of the reader's


def are_load_values_fresh(age_s: float, stale_s: float) -> bool:
    """Say whether load values are neither too old nor, after a change of the clock, from the future."""
    return -AHEAD_S <= age_s <= stale_s


def remote_cluster_load_values(
    remote: "ClusterSnapshot | None", cluster: str, now: "datetime", stale: "timedelta"
) -> dict[str, str]:
    """Return the load values of a remote cluster; None or a stale snapshot closes its queues.

    The poller passes None for a drained cluster, a cluster whose breaker is open, and while a disk is full.
    """
    values = CLOSED
    if remote is not None and now - remote.taken_at <= stale:
        values = {UP: "1", PENDING: str(remote.pending), FREE: str(remote.free_slots)}
    return {load_value_complex_attribute(cluster, key): value for key, value in values.items()}


def transfer_queue_load_thresholds(cluster: str, pending_limit: int) -> str:
    """Return a queue's load_thresholds without np_load_avg: transferred jobs use no CPU here.

    A limit of 0 waiting jobs means no limit.
    """
    pending = f",{load_value_complex_attribute(cluster, PENDING)}={pending_limit}" if pending_limit else ""
    return f"{load_value_complex_attribute(cluster, UP)}=false{pending}"


def closing_load_value(values: "Mapping[str, str]", cluster: str, pending_limit: int) -> str:
    """Return the load value (UP or PENDING) that closes a queue with these thresholds; '' for an open queue.

    Missing values close the queue, as a threshold without its load value does.
    """
    if values.get(load_value_complex_attribute(cluster, UP)) != "1":
        return UP
    pending = int(values.get(load_value_complex_attribute(cluster, PENDING), CLOSED[PENDING]))
    return PENDING if 0 < pending_limit <= pending else ""
