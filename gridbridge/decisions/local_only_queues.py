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
    shown = tuple(each for each in queues if not each.is_besteffort)
    onward = {each.queue for each in shown if each.sends_away or each.queue in transfer_queues}
    others = [each for each in shown if each.queue not in onward]
    if not onward or not others:
        return None
    names = ",".join(sorted({each.queue for each in others}))
    return LocalQueues(
        queues=names, all_say="yes" if all(each.says_stay for each in others) else ""
    )
