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

    def __eq__(self, mark: object) -> bool:
        if not isinstance(mark, RefusalMark):
            return False
        return (self.hard, self.queues) == (mark.hard, mark.queues)

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
    queues_kept = kept_queues(queues, transfer_queues)
    by_queue = (RefusalMark(queues=queues_kept),) if queues_kept else ()
    return (RefusalMark(hard=at_home(hard)), *by_queue)


def kept_queues(queues: str, transfer_queues: Collection[str]) -> str:
    """Return a list of queues without the transfer queues, empty when nothing is left of it."""
    without = "&".join(f"!{queue}" for queue in sorted(transfer_queues))
    words = queues.split(",") if queues else [""]
    return ",".join(
        word for queue_word in words for word in _home_queues(queue_word, transfer_queues, without)
    )


def _home_queues(word: str, transfer_queues: Collection[str], without: str) -> Iterator[str]:
    queue, at, host = word.partition("@")
    if queue in transfer_queues:
        return
    if queue in ANY:
        yield f"{without}{at}{host}"
    elif OPERATORS.isdisjoint(queue):
        yield word
    else:
        yield f"({queue})&{without}{at}{host}"
