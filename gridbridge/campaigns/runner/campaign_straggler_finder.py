"""Find campaigns near their end and their longest-running tasks, for speculative attempts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import nlargest

from gridbridge.campaigns.store.campaign_attempts import TaskAttemptRows
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.decisions.campaigns.competing_attempts import AttemptsByTask, group_attempts_by_task
from gridbridge.decisions.campaigns.schedulers.speculative import is_campaign_near_end
from gridbridge.decisions.campaigns.task_retries import map_tasks_to_failed_clusters
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_sections import FinalizeSpeculationSection
from gridbridge.model.campaigns.speculation import CampaignStragglers, CompetingAttempt, LiveAttempt
from gridbridge.model.campaigns.task_attempt_ranges import is_prologue_or_epilogue_task
from gridbridge.model.cluster_snapshot import ClusterSnapshot

MOST = 1000  # most attempts of a campaign that are considered, longest-running first

Answers = Mapping[str, ClusterSnapshot]


class CampaignStragglerFinder:
    """Gathers the straggler tails of campaigns that allow speculative attempts."""

    def __init__(self, campaigns: CampaignRows, limits: FinalizeSpeculationSection) -> None:
        self._campaigns = campaigns
        self._tries = TaskAttemptRows(campaigns.database, campaigns)
        self._limits = limits

    def look(
        self,
        campaigns: Iterable[Campaign],
        arrays: Sequence[CampaignArray],
        answers: Answers,
        rivals: AttemptsByTask,
        now: datetime,
    ) -> tuple[CampaignStragglers, ...]:
        """Return the straggler tail of each campaign near its end."""
        able = [campaign for campaign in campaigns if self._may_copy(campaign)]
        waiting = self._campaigns.waiting() if able else {}
        of: dict[int, list[CampaignArray]] = {campaign.number: [] for campaign in able}
        for array in arrays:
            if array.campaign in of:
                of[array.campaign].append(array)
        tails = (
            self._tail(campaign, of[campaign.number], answers, rivals, now)
            for campaign in able
            if of[campaign.number] and self._is_near(campaign, waiting, of[campaign.number], answers, now)
        )
        return tuple(tail for tail in tails if tail.live)

    def _may_copy(self, campaign: Campaign) -> bool:
        is_going = campaign.state is CampaignState.IN_TREATMENT
        return bool(self._limits.copies) and is_going and campaign.jdl.may_be_copied

    def _is_near(
        self,
        campaign: Campaign,
        waiting: Mapping[int, int],
        arrays: Iterable[CampaignArray],
        answers: Answers,
        now: datetime,
    ) -> bool:
        """Return whether a campaign may be near its end, if it got all free slots."""
        free = sum(_free(answers[name]) for name in campaign.jdl.clusters if name in answers)
        unsent, sent_s = waiting.get(campaign.number, 0), _sent_s(arrays, now)
        return is_campaign_near_end(campaign.tasks - campaign.ended, unsent, free, sent_s, self._limits)

    def _tail(
        self,
        campaign: Campaign,
        arrays: Iterable[CampaignArray],
        answers: Answers,
        rivals: AttemptsByTask,
        now: datetime,
    ) -> CampaignStragglers:
        durations = self._campaigns.durations(campaign.number).values()
        by_number = {array.number: array for array in arrays}
        late: dict[int, tuple[LiveAttempt, ...]] = {}
        attempts: list[TaskAttempt] = []
        for array, indices in self._late_places(by_number.values(), answers, now):
            for attempt in self._tries.pending_at(array, indices):
                of_task = rivals.get((campaign.number, attempt.task), ())
                if not is_prologue_or_epilogue_task(attempt.task) and not _has_won(of_task):
                    candidates = _attempts(of_task) or ((attempt.attempt, array.number, attempt.place),)
                    attempts.append(attempt)
                    late[attempt.task] = tuple(
                        _live(attempt.task, number, by_number[at], index, answers, now)
                        for number, at, index in candidates
                        if at in by_number
                    )
        all_late = [live for live in late.values() if _least_s(live) >= self._limits.least_s]
        all_late.sort(key=lambda live: -_least_s(live))
        return CampaignStragglers(
            campaign=campaign.number,
            sent_s=_sent_s(arrays, now),
            durations_s=tuple(duration_s for cluster_durations in durations for duration_s in cluster_durations),
            live=tuple(attempt for live in all_late for attempt in live),
            failed_at=map_tasks_to_failed_clusters(self._tries.earlier(attempts, rivals)),
        )

    def _late_places(
        self, arrays: Iterable[CampaignArray], answers: Answers, now: datetime
    ) -> Iterator[tuple[CampaignArray, frozenset[int]]]:
        """Yield the indices of the longest-running attempts, by array."""
        longest = nlargest(
            MOST,
            (
                (elapsed_s, array.number, index, array)
                for array in arrays
                for index, elapsed_s in _elapsed_of(array, answers, now)
                if elapsed_s >= self._limits.least_s
            ),
            key=lambda row: row[:3],
        )
        by_array: dict[int, set[int]] = {}
        by_number = {array.number: array for *_, array in longest}
        for _, number, index, _ in longest:
            by_array.setdefault(number, set()).add(index)
        for number, indices in by_array.items():
            yield by_number[number], frozenset(indices)


def _free(snapshot: ClusterSnapshot) -> int:
    return max(snapshot.free_slots, snapshot.besteffort_slots or 0)


def _sent_s(arrays: Iterable[CampaignArray], now: datetime) -> float:
    """Return how long ago the last array without speculative attempts was submitted."""
    sent = (array.intended_at for array in arrays if not array.is_of_copies)
    return (now - max(sent, default=now)).total_seconds()


def _elapsed_of(array: CampaignArray, answers: Answers, now: datetime) -> Iterator[tuple[int, float]]:
    """Yield the indices of an array's running tasks with their elapsed seconds.

    All tasks count as running if the cluster does not answer: their ends are unknown.
    """
    if array.state is not ArraySubmissionState.RELEASED:
        return
    if array.cluster not in answers:
        sent_s = (now - array.intended_at).total_seconds()
        yield from ((index, sent_s) for index in range(1, array.size + 1))
        return
    snapshot = answers[array.cluster]
    for row in snapshot.jobs.get(array.job_id, ()):
        if row.since and row.state.has_begun and not row.state.is_deleting:
            elapsed_s = (snapshot.taken_at - row.since).total_seconds()
            yield from ((index, elapsed_s) for indices in row.tasks for index in indices)


def _elapsed_s(array: CampaignArray, index: int, answers: Answers, now: datetime) -> float:
    """Return an attempt's elapsed seconds; 0 if it does not run or may have ended."""
    snapshot = answers.get(array.cluster)
    if array.state is not ArraySubmissionState.RELEASED or not snapshot:
        return next((elapsed_s for at, elapsed_s in _elapsed_of(array, answers, now) if at == index), 0.0)
    row = snapshot.find(array.job_id, index)
    is_running = row is not None and row.state.has_begun and not row.state.is_deleting
    return (snapshot.taken_at - row.since).total_seconds() if row and row.since and is_running else 0.0


def _live(task: int, attempt: int, array: CampaignArray, index: int, answers: Answers, now: datetime) -> LiveAttempt:
    elapsed_s = max(0.0, _elapsed_s(array, index, answers, now))
    return LiveAttempt(task=task, attempt=attempt, cluster=array.cluster, elapsed_s=elapsed_s)


def _least_s(attempts: Iterable[LiveAttempt]) -> float:
    return min((attempt.elapsed_s for attempt in attempts), default=0.0)


def _attempts(rivals: Iterable[CompetingAttempt]) -> tuple[tuple[int, int, int], ...]:
    """Return a task's live competing attempts with their arrays and indices."""
    live = (rival for rival in rivals if rival.outcome is TaskAttemptOutcome.PENDING)
    return tuple((rival.attempt, rival.array, rival.place) for rival in live)


def _has_won(rivals: Iterable[CompetingAttempt]) -> bool:
    return any(rival.outcome is TaskAttemptOutcome.SUCCESS for rival in rivals)


def earlier_live_attempt_positions(rivals: Iterable[CompetingAttempt]) -> frozenset[tuple[int, int, int]]:
    """Return the positions of live attempts other than the last one of each task.

    A position is campaign, array and index. Forecasts count a task once, by its last attempt.
    """
    positions: set[tuple[int, int, int]] = set()
    for task_rivals in group_attempts_by_task(rivals).values():
        live = [rival for rival in task_rivals if rival.outcome is TaskAttemptOutcome.PENDING]
        last = 0 if _has_won(task_rivals) else max((rival.attempt for rival in live), default=0)
        positions |= {(rival.campaign, rival.array, rival.place) for rival in live if rival.attempt != last}
    return frozenset(positions)
