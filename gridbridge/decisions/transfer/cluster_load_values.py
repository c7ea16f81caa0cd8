"""The load values of a remote cluster, by which the scheduler at home opens and closes queues."""

from collections.abc import Container, Iterable
from datetime import datetime, timedelta

from gridbridge.model.snapshot import ClusterSnapshot, QueueStatus
from gridbridge.model.transfer.load_values import CLOSED, FREE, PENDING, UP, load_value_complex
from gridbridge.model.vocabulary import LocalOnlyQueues


def cluster_load_values(
    remote: ClusterSnapshot | None, cluster: str, now: datetime, stale: timedelta
) -> dict[str, str]:
    """Return what the sensor reports about a remote cluster; an unknown one is never idle.

    All names are always there (model.transfer.load).
    """
    values = CLOSED
    if remote is not None and now - remote.taken_at <= stale:
        values = {UP: "1", PENDING: str(remote.pending), FREE: str(remote.free_slots)}
    return {load_value_complex(cluster, key): value for key, value in values.items()}


def find_local_only_queues(
    queues: Iterable[QueueStatus], transfer_queues: Container[str] = ()
) -> LocalOnlyQueues | None:
    """Return which queues keep a job there; None where no queue, or every one, sends jobs on.

    A queue that sends jobs on from one of its hosts counts as one that does, and so does each of
    our own `transfer_queues`. Best-effort queues take no job that did not ask for them.
    """
    shown = tuple(queue for queue in queues if not queue.is_besteffort)
    onward = {queue.queue for queue in shown if queue.sends_away or queue.queue in transfer_queues}
    local = [queue for queue in shown if queue.queue not in onward]
    if not onward or not local:
        return None
    names = ",".join(sorted({queue.queue for queue in local}))
    return LocalOnlyQueues(
        queues=names, all_say="yes" if all(queue.says_stay for queue in local) else ""
    )
