"""Which queues of another cluster would send a job on, and how a job is kept from them.

A job that is sent there and finds the cluster full would be dispatched to a queue that leads back.
"""

from collections.abc import Container, Iterable

from gridbridge.model.snapshot import QueueStatus
from gridbridge.model.vocabulary import LocalQueues


def local_queues(
    queues: Iterable[QueueStatus], transfer_queues: Container[str] = ()
) -> LocalQueues | None:
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
    return LocalQueues(
        queues=names, all_say="yes" if all(queue.says_stay for queue in local) else ""
    )
