"""Which attempts have ended: those that their cluster lists no more, and tells the end of.

Unknown never means gone. A task that somebody deleted before it started leaves no record, so one
that is neither listed nor accounted for has ended once it was missed for long enough. One that was
held before it was deleted never began: it has ended as soon as it is not listed. One that ran
leaves a record, so that without one its cluster has lost it, and it may run on.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from math import inf

from gridbridge.decisions.campaigns.ending.outcome_classifier import (
    OF_DELETION,
    outcome_of,
    outcome_of_wiped,
)
from gridbridge.decisions.campaigns.failures.conflicting_ends import given_up
from gridbridge.decisions.wrapper_end import job_exit_status
from gridbridge.model.campaigns.campaign import Array, Attempt, Campaign, CampaignState, TaskOutcome
from gridbridge.model.campaigns.campaign_events import CampaignEvent
from gridbridge.model.campaigns.cancellation import HELD, CancellationMark, WipedFor
from gridbridge.model.campaigns.prologues import is_step
from gridbridge.model.job import FutureJobEnd, JobEnd, KillReason

Told = JobEnd | FutureJobEnd | None  # None: what is told contradicts itself
Ends = Mapping[int, Told]  # by place
NO_MARKS: Mapping[int, CancellationMark] = {}
UNSEEN = JobEnd()
FORGOTTEN = JobEnd(killed_for=KillReason.DELETION, is_unstarted=True)
FUTURE_S = 600.0  # so long after it was listed last a task's end in the future counts
LEAST_S = 60.0  # that a task may have run, however short ago it was sent


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingArray:
    """What is known of an array of which some is missing."""

    is_listed: bool  # some of it
    lives: frozenset[int] | None  # which places surely live; None: its cluster knows no such array
    ran: Set[int] = frozenset()  # which ran when they were listed last
    sent_s: float = inf  # since it was sent


class MissingAttemptJudge:
    """What is made of what clusters tell of missing attempts in one cycle."""

    def __init__(
        self,
        campaigns: Iterable[Campaign],
        events: Iterable[CampaignEvent],
        marks: Mapping[tuple[int, int], Mapping[int, CancellationMark]],
        forgotten_s: float,
    ) -> None:
        """Know the campaigns, the open events, and what nikita has marked by array and place."""
        self._campaigns = {campaign.number: campaign for campaign in campaigns}
        self._given_up = given_up(events)
        self._marks = marks
        self._forgotten_s = forgotten_s

    def left(self, array: Array) -> frozenset[int]:
        """Return the places of tasks that were deleted before they began: no record tells that."""
        marks = self._marks.get((array.campaign, array.number), NO_MARKS)
        return frozenset(index for index, mark in marks.items() if mark.wiped_for in HELD)

    def believed(self, array: Array, missing: Mapping[Attempt, float], ends: Ends) -> Ends:
        """Return the ends that count: nobody waits for more of a cancelled campaign's.

        Where the owner has given disputed ones up, they count as seen by nobody. A record of a task
        that never began would be forged.
        """
        ends = overdue(missing, ends)
        ends = {**ends, **dict.fromkeys(self.left(array), FORGOTTEN)}
        if self._is_cancelled(array):
            ends = {index: end for index, end in ends.items() if end}
        if (array.campaign, array.cluster) in self._given_up:
            ends = {index: end or UNSEEN for index, end in ends.items()}
        return ends

    def late(self, missing: Mapping[Attempt, float], ends: Ends) -> tuple[Attempt, ...]:
        """Return the attempts of which nothing was told for too long."""
        return forgotten(missing, ends, self._forgotten_s)

    def ended(
        self,
        array: Array,
        missing: Mapping[Attempt, float],
        ends: Ends,
        missing_array: MissingArray,
    ) -> tuple[Attempt, ...]:
        """Return the attempts of an array that have ended, with their outcomes."""
        campaign = self._campaigns.get(array.campaign)
        request = campaign.jdl.clusters.get(array.cluster) if campaign else None
        late = self.late(missing, ends)
        listed = still_known(late, missing_array.lives, missing_array.is_listed)
        unlisted = {
            attempt: missed_s for attempt, missed_s in missing.items() if attempt not in listed
        }
        marks = self._marks.get((array.campaign, array.number), NO_MARKS)
        is_cancelled = self._is_cancelled(array)
        lost = frozenset() if is_cancelled else lost_places(late, ends, missing_array.ran)
        ends = {**ends, **dict.fromkeys(lost, UNSEEN)}
        attempts = ended(
            unlisted, ends, request.walltime_s if request else 0, self._forgotten_s, marks
        )
        attempts = tuple(
            lost_in(attempt, array.job_id) if attempt.place in lost else attempt
            for attempt in attempts
        )
        attempts = tuple(within(attempt, missing_array.sent_s) for attempt in attempts)
        return tuple(map(cancelled, attempts)) if is_cancelled else attempts

    def doubts(self, array: Array, attempts: Iterable[Attempt]) -> bool:
        """Say whether attempts may have been ended by us, though no mark tells of it.

        A state file that was restored lacks the marks of what was moved or wiped since.
        """
        is_killed = any(attempt.outcome in OF_DELETION for attempt in attempts)
        return is_killed and not self._is_cancelled(array)

    def _is_cancelled(self, array: Array) -> bool:
        campaign = self._campaigns.get(array.campaign)
        return campaign is not None and campaign.state is CampaignState.CANCELLED


def cancelled(attempt: Attempt) -> Attempt:
    """Return an attempt of a cancelled campaign: the signal that ended it is its cancellation.

    OAR tells that somebody deleted a job, Grid Engine the signal alone.
    """
    is_killed = attempt.outcome is TaskOutcome.SIGNAL
    return replace(attempt, outcome=TaskOutcome.CANCELLED) if is_killed else attempt


def within(attempt: Attempt, sent_s: float) -> Attempt:
    """Return an attempt that has run for no longer than since its array was sent.

    Others may write what a record says of that, and it counts against the owner's share. A minute
    is never too long: a clock that was set back makes no sink of a cluster.
    """
    most_s = max(LEAST_S, sent_s)
    if attempt.wallclock_s is None or attempt.wallclock_s <= most_s:
        return attempt
    return replace(attempt, wallclock_s=round(most_s))


def without_end(
    attempts: Iterable[Attempt], outcome: TaskOutcome, marks: Mapping[int, CancellationMark]
) -> tuple[Attempt, ...]:
    """Return attempts of an array whose ends no cluster tells, with what they come to.

    Those that their owner cancelled come to that, so that they don't run again; `marks` are by its
    places.
    """
    unwanted = {index for index, mark in marks.items() if mark.wiped_for is WipedFor.UNWANTED}
    return tuple(
        replace(attempt, outcome=TaskOutcome.UNWANTED if attempt.place in unwanted else outcome)
        for attempt in attempts
    )


def lost_places(late: Iterable[Attempt], ends: Ends, ran: Set[int]) -> frozenset[int]:
    """Return the places of tasks that ran, and of which their cluster knows nothing any more.

    A prologue or epilogue that it lost counts as deleted, which fails it: it may run on, too.
    """
    untold = (
        attempt for attempt in late if attempt.place not in ends and not is_step(attempt.task)
    )
    return frozenset(attempt.place for attempt in untold if attempt.place in ran)


def lost_in(attempt: Attempt, job_id: int) -> Attempt:
    """Return an attempt with the job of which its cluster knows nothing, unless nikita ended it."""
    is_lost = attempt.outcome is TaskOutcome.SITE_FAULT
    return replace(attempt, forgotten_job=job_id) if is_lost else attempt


def overdue(missing: Mapping[Attempt, float], ends: Ends) -> Ends:
    """Return ends of which one that contradicts another is disputed, though its time is to come.

    A forged record of the year 9999 would keep a task from its end without a word.
    """
    late = {attempt.place for attempt, missed_s in missing.items() if missed_s > FUTURE_S}
    return {
        index: end if index not in late or not isinstance(end, FutureJobEnd) or end.end else None
        for index, end in ends.items()
    }


def future_of(ends: Ends) -> tuple[FutureJobEnd, ...]:
    """Return the ends that are told for a time to come."""
    return tuple(end for end in ends.values() if isinstance(end, FutureJobEnd))


def disputed_of(missing: Iterable[Attempt], ends: Ends) -> tuple[Attempt, ...]:
    """Return the attempts of which what is told contradicts itself."""
    return tuple(attempt for attempt in missing if ends.get(attempt.place, UNSEEN) is None)


def ended(
    missing: Mapping[Attempt, float],
    ends: Ends,
    walltime_s: int,
    forgotten_s: float,
    marks: Mapping[int, CancellationMark] = NO_MARKS,
) -> tuple[Attempt, ...]:
    """Return attempts with their outcomes; `missing` says for how long each was not listed.

    They are of one array, and `ends` and `marks` are by its places. What is told of an end and
    contradicts itself (None), or is to come, is no end, and does not make it forgotten either.
    """
    judged = (
        (
            attempt,
            _now(ends.get(attempt.place, FORGOTTEN if missed_s > forgotten_s else None), missed_s),
        )
        for attempt, missed_s in missing.items()
    )
    return tuple(
        _with(attempt, end, walltime_s, marks.get(attempt.place)) for attempt, end in judged if end
    )


def forgotten(
    missing: Mapping[Attempt, float], ends: Ends, forgotten_s: float
) -> tuple[Attempt, ...]:
    """Return the attempts of which nothing was told for too long, or an end that is to come."""
    untold = {
        attempt: missed_s for attempt, missed_s in missing.items() if attempt.place not in ends
    }
    late = [attempt for attempt, missed_s in untold.items() if missed_s > forgotten_s]
    future = {index for index, end in ends.items() if isinstance(end, FutureJobEnd)}
    late += [
        attempt for attempt in missing if attempt.place in future and missing[attempt] > FUTURE_S
    ]
    return tuple(late)


def still_known(
    late: Iterable[Attempt], lives: frozenset[int] | None, is_listed: bool
) -> frozenset[Attempt]:
    """Return those of which a question about their array alone tells otherwise than the list.

    A list may be cut short. An array that lives (`lives` has what of it has begun) and of which
    the list has nothing is not known; else what has not begun has been deleted.
    """
    if lives is None:
        return frozenset()
    return frozenset(attempt for attempt in late if not is_listed or attempt.place in lives)


def _now(end: Told, missed_s: float) -> JobEnd | None:
    if isinstance(end, FutureJobEnd):
        return end.end if missed_s > FUTURE_S else None
    return end


def _with(attempt: Attempt, end: JobEnd, walltime_s: int, mark: CancellationMark | None) -> Attempt:
    outcome = outcome_of(end, walltime_s)
    return replace(
        attempt,
        outcome=outcome_of_wiped(end, outcome, mark.wiped_for) if mark else outcome,
        exit_status=job_exit_status(end),
        wallclock_s=None if end.wallclock_s is None else round(end.wallclock_s),
        host=end.host,
    )
