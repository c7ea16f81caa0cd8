"""When what waits would be done without new nodes: here, or at another cluster."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from gridbridge.decisions.elastic.demand.claims import Claim


def backlog_s(
    claims: Iterable[Claim], runtimes: Mapping[tuple[str, str], float], slots: int
) -> float | None:
    """Return how long so many slots take for what waits; None where a run time is not known.

    A run time is what jobs of that owner and name usually take.
    """
    total = 0.0
    for claim in claims:
        each = claim.need.slots * claim.need.pieces
        for owner, name, tasks in claim.kinds or (("", "", claim.tasks),):
            if (owner, name) not in runtimes:
                return None
            total += tasks * each * runtimes[owner, name]
    return total / slots if slots else None


class Elsewhere:
    """Transfer queues, how soon each starts a task, and how many slots it can fill."""

    def __init__(self, waits_s: Mapping[str, float], free: Mapping[str, int]) -> None:
        self._waits_s = waits_s
        self._free = dict(free)  # of those that tell

    def sooner(self, claim: Claim, boot_s: float) -> tuple[str, float] | None:
        """Return the queue that starts a task the soonest, if sooner than a new node would."""
        each = _slots(claim)
        open_to = {
            name: wait_s
            for name, wait_s in self._waits_s.items()
            if _is_asked(claim, name) and self._free.get(name, each) >= each
        }
        if not open_to:
            return None
        name = min(open_to, key=lambda one: (open_to[one], one))
        return (name, open_to[name]) if open_to[name] < boot_s else None

    def take(self, queue: str, claim: Claim, tasks: int) -> int:
        """Return how many of these tasks a queue can start, and count their slots as taken."""
        if queue not in self._free:
            return tasks
        taken = min(tasks, self._free[queue] // _slots(claim))
        self._free[queue] -= taken * _slots(claim)
        return taken


def _slots(claim: Claim) -> int:
    return max(1, claim.need.slots * claim.need.pieces)


def _is_asked(claim: Claim, queue: str) -> bool:
    asked: Sequence[str] = claim.need.queues
    return not asked or any(fnmatchcase(queue, one.partition("@")[0]) for one in asked)
