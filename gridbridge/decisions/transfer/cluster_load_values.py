"""Compute load values by which the home scheduler opens and closes queues."""

from collections.abc import Container, Iterable
from datetime import datetime, timedelta

from gridbridge.model.cluster_snapshot import ClusterSnapshot, QueueInstanceStatus
from gridbridge.model.names_offered_by_cluster import NonForwardingQueues
from gridbridge.model.transfer.load_values import CLOSED, FREE, PENDING, UP, load_value_complex_attribute


def remote_cluster_load_values(
    remote: ClusterSnapshot | None, cluster: str, now: datetime, stale: timedelta
) -> dict[str, str]:
    """Return the load values that the sensor reports about a remote cluster.

    All names are present (model.transfer.load_values). A stale snapshot closes the queues.
    """
    values = CLOSED
    if remote is not None and now - remote.taken_at <= stale:
        values = {UP: "1", PENDING: str(remote.pending), FREE: str(remote.free_slots)}
    return {load_value_complex_attribute(cluster, key): value for key, value in values.items()}


def find_local_only_queues(
    queues: Iterable[QueueInstanceStatus], transfer_queues: Container[str] = ()
) -> NonForwardingQueues | None:
    """Return a cluster's queues that send no jobs on; None if no queue sends, or all.

    A queue that sends jobs on from a single host counts as sending, as does each of our own
    `transfer_queues`. Best-effort queues are ignored: only jobs that request these queues enter.
    """
    shown = tuple(queue for queue in queues if not queue.is_besteffort)
    onward = {queue.queue for queue in shown if queue.sends_away or queue.queue in transfer_queues}
    local = [queue for queue in shown if queue.queue not in onward]
    if not onward or not local:
        return None
    names = ",".join(sorted({queue.queue for queue in local}))
    return NonForwardingQueues(queues=names, all_say="yes" if all(queue.says_stay for queue in local) else "")
