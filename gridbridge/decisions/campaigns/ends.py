"""Which attempts have ended: those that their cluster lists no more, and tells the end of.

Unknown never means gone. A task that somebody deleted before it started leaves no record, so one
that is neither listed nor accounted for has ended once it was missed for long enough.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gridbridge.decisions.campaigns.outcomes import outcome_of, outcome_of_wiped
from gridbridge.decisions.wrapper import true_status
from gridbridge.model.campaigns.campaign import Attempt
from gridbridge.model.campaigns.wiping import Mark
from gridbridge.model.job import JobEnd, KilledFor

NO_MARKS: Mapping[int, Mark] = {}
FORGOTTEN = JobEnd(killed_for=KilledFor.DELETION, is_unstarted=True)


def ended(
    missing: Mapping[Attempt, float],
    ends: Mapping[int, JobEnd],
    walltime_s: int,
    forgotten_s: float,
    marks: Mapping[int, Mark] = NO_MARKS,
) -> tuple[Attempt, ...]:
    """Return attempts with their outcomes; `missing` says for how long each was not listed.

    They are of one array, and `ends` and `marks` are by its places.
    """
    return tuple(
        _with(one, end, walltime_s, marks.get(one.place))
        for one, missed_s in missing.items()
        if (end := ends.get(one.place, FORGOTTEN if missed_s > forgotten_s else None))
    )


def not_listed(pending: Iterable[Attempt], listed: Iterable[range]) -> tuple[Attempt, ...]:
    """Return the attempts whose places no row of the cluster's list has."""
    places = tuple(listed)
    return tuple(one for one in pending if not any(one.place in some for some in places))


def _with(attempt: Attempt, end: JobEnd, walltime_s: int, mark: Mark | None) -> Attempt:
    outcome = outcome_of(end, walltime_s)
    return replace(
        attempt,
        outcome=outcome_of_wiped(end, outcome, mark.wiped_for) if mark else outcome,
        exit_status=true_status(end),
        wallclock_s=None if end.wallclock_s is None else round(end.wallclock_s),
    )
