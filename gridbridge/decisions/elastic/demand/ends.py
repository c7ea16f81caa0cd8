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


def sooner(claim: Claim, elsewhere: Mapping[str, float], boot_s: float) -> tuple[str, float] | None:
    """Return the transfer queue that starts a task the soonest, if sooner than a new node would."""
    open_to = {name: wait_s for name, wait_s in elsewhere.items() if _is_asked(claim, name)}
    if not open_to:
        return None
    name = min(open_to, key=lambda one: (open_to[one], one))
    return (name, open_to[name]) if open_to[name] < boot_s else None


def _is_asked(claim: Claim, queue: str) -> bool:
    asked: Sequence[str] = claim.need.queues
    return not asked or any(fnmatchcase(queue, one.partition("@")[0]) for one in asked)
