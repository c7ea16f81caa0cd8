"""The transfer queues among which home's scheduler chooses, and in which order it tries them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOffer:
    """A transfer queue, with what its cluster last said of itself."""

    queue: str
    cluster: str
    seq_no: int | None  # of the queue now; None: it has several, for some hosts
    is_heard: bool = True  # the cluster has answered lately
    pending: int = 0  # tasks that wait there
    free_slots: int = 0
    slots: int = 0
    cost: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenumberedQueue:
    """A queue that gets another number, and why."""

    queue: str
    before: int
    after: int
    why: str
