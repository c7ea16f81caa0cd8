"""How a job that a remote cluster refused is kept from the transfer queues.

`remote=false` is best, because it holds for later queues too. Where the queues here have no value
of `remote`, the job's list of queues is changed (queue expressions: sge_types(1)).
"""

from collections.abc import Collection, Iterator

from gridbridge.model.transfer.guard import ANY, OPERATORS, Pairs, at_home, leaves


class RefusalMark:
    """Lists that replace a job's own; None leaves the list as it is."""

    __slots__ = ("hard", "queues")

    def __init__(self, *, hard: Pairs | None = None, queues: str | None = None) -> None:
        self.hard = hard  # resources
        self.queues = queues

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RefusalMark):
            return False
        return (self.hard, self.queues) == (other.hard, other.queues)

    def __hash__(self) -> int:
        return hash((self.hard, self.queues))

    def __repr__(self) -> str:
        return f"Mark(hard={self.hard!r}, queues={self.queues!r})"


def marks(hard: Pairs, queues: str, transfer_queues: Collection[str]) -> tuple[RefusalMark, ...]:
    """Return the ways to keep a job at home, best first; none for a job that asks to go away.

    `queues` is the job's list as it asked for it, empty for any.
    """
    if leaves(hard):
        return ()
    kept = kept_queues(queues, transfer_queues)
    by_queue = (RefusalMark(queues=kept),) if kept else ()
    return (RefusalMark(hard=at_home(hard)), *by_queue)


def kept_queues(queues: str, transfer_queues: Collection[str]) -> str:
    """Return a list of queues without the transfer queues, empty when nothing is left of it."""
    without = "&".join(f"!{queue}" for queue in sorted(transfer_queues))
    wanted = queues.split(",") if queues else [""]
    return ",".join(each for one in wanted for each in _kept(one, transfer_queues, without))


def _kept(one: str, transfer_queues: Collection[str], without: str) -> Iterator[str]:
    queue, at, host = one.partition("@")
    if queue in transfer_queues:
        return
    if queue in ANY:
        yield f"{without}{at}{host}"
    elif OPERATORS.isdisjoint(queue):
        yield one
    else:
        yield f"({queue})&{without}{at}{host}"
