"""Which campaigns are near their ends, and for how long the last of their tasks have run."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from gridbridge.decisions.campaigns.copies import ByTask, by_task
from gridbridge.decisions.campaigns.schedulers.finalize import is_at_end
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    Campaign,
    CampaignState,
    Outcome,
)
from gridbridge.model.campaigns.copies import Live, Rival, Tail
from gridbridge.model.campaigns.sections import Finalize
from gridbridge.model.campaigns.steps import is_step
from gridbridge.model.snapshot import ClusterSnapshot
from gridbridge.state.database.campaigns import Campaigns

MOST = 1000  # tasks of a campaign that are looked at, those that have run longest

Answers = Mapping[str, ClusterSnapshot]


class Tails:
    """What is gathered about campaigns whose tasks may be copied."""

    def __init__(self, campaigns: Campaigns, limits: Finalize) -> None:
        self._campaigns = campaigns
        self._limits = limits

    def look(
        self,
        campaigns: Iterable[Campaign],
        arrays: Sequence[Array],
        answers: Answers,
        rivals: ByTask,
        now: datetime,
    ) -> tuple[Tail, ...]:
        """Return what is known of each campaign near its end."""
        able = [one for one in campaigns if self._may_copy(one)]
        waiting = self._campaigns.waiting() if able else {}
        of = {one.number: [each for each in arrays if each.campaign == one.number] for one in able}
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
    ) -> Tail:
        durations = self._campaigns.durations(one.number).values()
        live: dict[int, list[Live]] = {}
        for array in arrays:
            for attempt in self._campaigns.pending(array):
                if is_step(attempt.task):
                    continue
                elapsed_s = _elapsed_s(array, attempt, answers, now)
                live.setdefault(attempt.task, []).append(_live(array, attempt, elapsed_s))
        late = [
            some
            for task, some in live.items()
            if min(each.elapsed_s for each in some) >= self._limits.least_s
            and not _has_won(rivals.get((one.number, task), ()))
        ]
        late.sort(key=lambda some: -min(each.elapsed_s for each in some))
        return Tail(
            campaign=one.number,
            sent_s=_sent_s(arrays, now),
            durations_s=tuple(each for some in durations for each in some),
            live=tuple(each for some in late[:MOST] for each in some),
        )


def _free(seen: ClusterSnapshot) -> int:
    return max(seen.free_slots, seen.besteffort_slots or 0)


def _sent_s(arrays: Iterable[Array], now: datetime) -> float:
    """Return how long ago the last tasks were sent that are no copies."""
    sent = (one.intended_at for one in arrays if not one.is_of_copies)
    return (now - max(sent, default=now)).total_seconds()


def _elapsed_s(array: Array, attempt: Attempt, answers: Answers, now: datetime) -> float:
    """Return for how long an attempt has run; 0 for one that does not run, or may have ended.

    Where its cluster does not answer it is taken to run: then nobody knows whether it ever ends.
    """
    if array.state is not ArrayState.RELEASED:
        return 0.0
    if array.cluster not in answers:
        return (now - array.intended_at).total_seconds()
    seen = answers[array.cluster]
    row = seen.find(array.job_id, attempt.place)
    is_running = row is not None and row.state.has_begun and not row.state.is_deleting
    return (seen.taken_at - row.since).total_seconds() if row and row.since and is_running else 0.0


def _live(array: Array, attempt: Attempt, elapsed_s: float) -> Live:
    number = attempt.attempt
    return Live(
        task=attempt.task, attempt=number, cluster=array.cluster, elapsed_s=max(0.0, elapsed_s)
    )


def _has_won(rivals: Iterable[Rival]) -> bool:
    return any(one.outcome is Outcome.SUCCESS for one in rivals)


def besides(rivals: Iterable[Rival]) -> frozenset[tuple[int, int, int]]:
    """Return the campaigns, arrays and places of attempts that are not a task's last live one.

    A task that runs several times ends once: as likely as its last copy does.
    """
    found: set[tuple[int, int, int]] = set()
    for some in by_task(rivals).values():
        live = [one for one in some if one.outcome is Outcome.PENDING]
        last = 0 if _has_won(some) else max((one.attempt for one in live), default=0)
        found |= {(one.campaign, one.array, one.place) for one in live if one.attempt != last}
    return frozenset(found)
