"""Which attempts have ended: those that their cluster lists no more, and tells the end of.

Unknown never means gone. A task that somebody deleted before it started leaves no record, so one
that is neither listed nor accounted for has ended once it was missed for long enough.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from gridbridge.decisions.campaigns.outcomes import outcome_of, outcome_of_wiped
from gridbridge.decisions.wrapper import true_status
from gridbridge.model.campaigns.campaign import Attempt
from gridbridge.model.campaigns.plan import Plan
from gridbridge.model.campaigns.wiping import Mark
from gridbridge.model.job import JobEnd, KilledFor

PORTION = 5000  # ends that are noted at once: a tenth of a second
NO_MARKS: Mapping[int, Mark] = {}
FORGOTTEN = JobEnd(killed_for=KilledFor.DELETION, is_unstarted=True)


def ended(
    missing: Mapping[Attempt, float],
    ends: Mapping[int, JobEnd | None],
    walltime_s: int,
    forgotten_s: float,
    marks: Mapping[int, Mark] = NO_MARKS,
) -> tuple[Attempt, ...]:
    """Return attempts with their outcomes; `missing` says for how long each was not listed.

    They are of one array, and `ends` and `marks` are by its places. What is told of an end and
    contradicts itself (None) is no end, and does not make it forgotten either.
    """
    return tuple(
        _with(one, end, walltime_s, marks.get(one.place))
        for one, missed_s in missing.items()
        if (end := ends.get(one.place, FORGOTTEN if missed_s > forgotten_s else None))
    )


def forgotten(
    missing: Mapping[Attempt, float], ends: Mapping[int, JobEnd | None], forgotten_s: float
) -> tuple[Attempt, ...]:
    """Return the attempts of which nothing was told for too long."""
    late = (one for one, missed_s in missing.items() if missed_s > forgotten_s)
    return tuple(one for one in late if one.place not in ends)


def still_known(
    late: Iterable[Attempt], lives: frozenset[int] | None, is_listed: bool
) -> frozenset[Attempt]:
    """Return those of which a question about their array alone tells otherwise than the list.

    A list may be cut short. An array that lives (`lives` has what of it has begun) and of which
    the list has nothing is not known; else what has not begun has been deleted.
    """
    if lives is None:
        return frozenset()
    return frozenset(one for one in late if not is_listed or one.place in lives)


def portions(plan: Plan, most: int = PORTION) -> tuple[Plan, ...]:
    """Return what is noted of a plan one after the other; all but ends is in the last portion.

    The attempts of a task stay together, and with them whether it runs again.
    """
    again = {(one.campaign, one.task): one for one in plan.again}
    *first, last = _in_groups(plan.ended, most)
    runs = [
        tuple(again[task] for task in dict.fromkeys(map(_task_of, some)) if task in again)
        for some in (*first, last)
    ]
    earlier = (Plan(ended=some, again=these) for some, these in zip(first, runs, strict=False))
    return (*earlier, replace(plan, ended=last, again=runs[-1]))


def _in_groups(attempts: Iterable[Attempt], most: int) -> Iterator[tuple[Attempt, ...]]:
    """Yield attempts in groups of so many, or a task's more; the last group may be empty."""
    some: list[Attempt] = []
    for _, of_task in groupby(sorted(attempts, key=_task_of), key=_task_of):
        if len(some) >= most:
            yield tuple(some)
            some = []
        some += of_task
    yield tuple(some)


def _task_of(one: Attempt) -> tuple[int, int]:
    return one.campaign, one.task


def _with(attempt: Attempt, end: JobEnd, walltime_s: int, mark: Mark | None) -> Attempt:
    outcome = outcome_of(end, walltime_s)
    return replace(
        attempt,
        outcome=outcome_of_wiped(end, outcome, mark.wiped_for) if mark else outcome,
        exit_status=true_status(end),
        wallclock_s=None if end.wallclock_s is None else round(end.wallclock_s),
        host=end.host,
    )
