"""Which campaigns are near their ends, and for how long the last of their tasks have run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest

from gridbridge.campaigns.store.campaign_attempts import CampaignTries
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.decisions.campaigns.failures.retries import failed_at
from gridbridge.decisions.campaigns.schedulers.speculative import is_at_end
from gridbridge.decisions.campaigns.speculation_rules import ByTask, by_task
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    Campaign,
    CampaignState,
    TaskOutcome,
)
from gridbridge.model.campaigns.campaign_sections import Finalize
from gridbridge.model.campaigns.prologues import is_step
from gridbridge.model.campaigns.speculation import CompetingAttempt, LiveAttempt, StragglerTail
from gridbridge.model.snapshot import ClusterSnapshot

MOST = 1000  # attempts of a campaign that are looked at, those that have run longest

Answers = Mapping[str, ClusterSnapshot]


class Stragglers:
    """What is gathered about campaigns whose tasks may be copied."""

    def __init__(self, campaigns: CampaignRows, limits: Finalize) -> None:
        self._campaigns = campaigns
        self._tries = CampaignTries(campaigns.database, campaigns)
        self._limits = limits

    def look(
        self,
        campaigns: Iterable[Campaign],
        arrays: Sequence[Array],
        answers: Answers,
        rivals: ByTask,
        now: datetime,
    ) -> tuple[StragglerTail, ...]:
        """Return what is known of each campaign near its end."""
        able = [one for one in campaigns if self._may_copy(one)]
        waiting = self._campaigns.waiting() if able else {}
        of: dict[int, list[Array]] = {one.number: [] for one in able}
        for each in arrays:
            if each.campaign in of:
                of[each.campaign].append(each)
        found = (
            self._tail(one, of[one.number], answers, rivals, now)
            for one in able
            if of[one.number] and self._is_near(one, waiting, of[one.number], answers, now)
        )
        return tuple(one for one in found if one.live)

    def _may_copy(self, one: Campaign) -> bool:
        is_going = one.state is CampaignState.IN_TREATMENT
        return bool(self._limits.copies) and is_going and one.jdl.may_be_copied

    def _is_near(
        self,
        one: Campaign,
        waiting: Mapping[int, int],
        arrays: Iterable[Array],
        answers: Answers,
        now: datetime,
    ) -> bool:
        """Say whether it may be at its end: the decision knows what others get."""
        free = sum(_free(answers[name]) for name in one.jdl.clusters if name in answers)
        unsent, sent_s = waiting.get(one.number, 0), _sent_s(arrays, now)
        return is_at_end(one.tasks - one.ended, unsent, free, sent_s, self._limits)

    def _tail(
        self,
        one: Campaign,
        arrays: Iterable[Array],
        answers: Answers,
        rivals: ByTask,
        now: datetime,
    ) -> StragglerTail:
        durations = self._campaigns.durations(one.number).values()
        known = {each.number: each for each in arrays}
        late: dict[int, tuple[LiveAttempt, ...]] = {}
        attempts: list[Attempt] = []
        for array, places in self._late_places(known.values(), answers, now):
            for attempt in self._tries.pending_at(array, places):
                of_task = rivals.get((one.number, attempt.task), ())
                if not is_step(attempt.task) and not _has_won(of_task):
                    every = _attempts(of_task) or ((attempt.attempt, array.number, attempt.place),)
                    attempts.append(attempt)
                    late[attempt.task] = tuple(
                        _live(attempt.task, number, known[at], place, answers, now)
                        for number, at, place in every
                        if at in known
                    )
        all_late = [some for some in late.values() if _least_s(some) >= self._limits.least_s]
        all_late.sort(key=lambda some: -_least_s(some))
        return StragglerTail(
            campaign=one.number,
            sent_s=_sent_s(arrays, now),
            durations_s=tuple(each for some in durations for each in some),
            live=tuple(each for some in all_late for each in some),
            failed_at=failed_at(self._tries.earlier(attempts, rivals)),
        )

    def _late_places(
        self, arrays: Iterable[Array], answers: Answers, now: datetime
    ) -> Iterator[tuple[Array, frozenset[int]]]:
        """Give the places at which attempts have run longest, by array; no others are read."""
        longest = nlargest(
            MOST,
            (
                (elapsed_s, array.number, place, array)
                for array in arrays
                for place, elapsed_s in _elapsed_of(array, answers, now)
                if elapsed_s >= self._limits.least_s
            ),
            key=lambda each: each[:3],
        )
        by_array: dict[int, set[int]] = {}
        known = {array.number: array for *_, array in longest}
        for _, number, place, _ in longest:
            by_array.setdefault(number, set()).add(place)
        for number, places in by_array.items():
            yield known[number], frozenset(places)


def _free(seen: ClusterSnapshot) -> int:
    return max(seen.free_slots, seen.besteffort_slots or 0)


def _sent_s(arrays: Iterable[Array], now: datetime) -> float:
    """Return how long ago the last tasks were sent that are no copies."""
    sent = (one.intended_at for one in arrays if not one.is_of_copies)
    return (now - max(sent, default=now)).total_seconds()


def _elapsed_of(array: Array, answers: Answers, now: datetime) -> Iterator[tuple[int, float]]:
    """Give the places of an array with how long each has run, but for those that don't run.

    Where its cluster does not answer they are taken to run: nobody knows whether they ever end.
    """
    if array.state is not ArrayState.RELEASED:
        return
    if array.cluster not in answers:
        sent_s = (now - array.intended_at).total_seconds()
        yield from ((place, sent_s) for place in range(1, array.size + 1))
        return
    seen = answers[array.cluster]
    for row in seen.jobs.get(array.job_id, ()):
        if row.since and row.state.has_begun and not row.state.is_deleting:
            elapsed_s = (seen.taken_at - row.since).total_seconds()
            yield from ((place, elapsed_s) for some in row.tasks for place in some)


def _elapsed_s(array: Array, place: int, answers: Answers, now: datetime) -> float:
    """Return how long one has run; 0 for one that does not run, or may have ended."""
    seen = answers.get(array.cluster)
    if array.state is not ArrayState.RELEASED or not seen:
        return next((each for at, each in _elapsed_of(array, answers, now) if at == place), 0.0)
    row = seen.find(array.job_id, place)
    is_running = row is not None and row.state.has_begun and not row.state.is_deleting
    return (seen.taken_at - row.since).total_seconds() if row and row.since and is_running else 0.0


def _live(
    task: int, attempt: int, array: Array, place: int, answers: Answers, now: datetime
) -> LiveAttempt:
    elapsed_s = max(0.0, _elapsed_s(array, place, answers, now))
    return LiveAttempt(task=task, attempt=attempt, cluster=array.cluster, elapsed_s=elapsed_s)


def _least_s(attempts: Iterable[LiveAttempt]) -> float:
    return min((each.elapsed_s for each in attempts), default=0.0)


def _attempts(rivals: Iterable[CompetingAttempt]) -> tuple[tuple[int, int, int], ...]:
    """Return the live attempts of a task that had copies, with their arrays and places."""
    live = (one for one in rivals if one.outcome is TaskOutcome.PENDING)
    return tuple((one.attempt, one.array, one.place) for one in live)


def _has_won(rivals: Iterable[CompetingAttempt]) -> bool:
    return any(one.outcome is TaskOutcome.SUCCESS for one in rivals)


def besides(rivals: Iterable[CompetingAttempt]) -> frozenset[tuple[int, int, int]]:
    """Return the campaigns, arrays and places of attempts that are not a task's last live one.

    A task that runs several times ends once: as likely as its last copy does.
    """
    found: set[tuple[int, int, int]] = set()
    for some in by_task(rivals).values():
        live = [one for one in some if one.outcome is TaskOutcome.PENDING]
        last = 0 if _has_won(some) else max((one.attempt for one in live), default=0)
        found |= {(one.campaign, one.array, one.place) for one in live if one.attempt != last}
    return frozenset(found)
