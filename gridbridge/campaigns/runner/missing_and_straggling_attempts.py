"""Tracks attempts that job lists lack, and finds long-running attempts of campaigns near their end."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence, Set
from datetime import datetime
from heapq import nlargest
from typing import TypeVar

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import Place, TaskMissingAtClusterRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns.speculative_attempt_planning import is_campaign_near_end
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    AttemptsByTask,
    group_attempts_by_task,
    map_tasks_to_failed_clusters,
)
from gridbridge.errors import ParseError, StateError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    Campaign,
    CampaignArray,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_configuration_sections import LateSpeculationSection
from gridbridge.model.campaigns.speculative_attempts import (
    CompetingAttempt,
    RunningTaskAttempt,
    TasksRunningNearCampaignEnd,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import TaskMissingSince
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    format_array_index_ranges,
    group_into_ranges,
    is_prologue_or_epilogue_task,
    parse_array_index_ranges,
)
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import RUNNER_RAN
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock

MAX_BYTES = 64 << 20

Key = tuple[int, int]  # campaign number and array number

Kept = TypeVar("Kept")
_log = logging.getLogger(__name__)


class MissingAttemptTracker:
    """Tracks attempts that the cluster's job list lacks and whose ends are unknown."""

    def __init__(
        self, missing_tasks: TaskMissingAtClusterRows, clock: Clock, path: str = RUNNER_RAN, *, is_dry: bool = False
    ) -> None:
        """Load the missing attempts from the state file, and the started tasks from the file `path`."""
        self._is_dry = is_dry
        self._kept = missing_tasks
        self._path = path
        self._clock = clock
        self._known = missing_tasks.missing_tasks()
        self._of: dict[Key, set[Place]] = {}  # {array: tasks that the state file records as missing}
        self._since_s: dict[Key, dict[Place, float]] = {}  # {array: {task: when it was first missing}}
        # {array: indices of tasks that had started when the cluster last listed them}
        self._ran: dict[Key, Set[int]] = _read_file_of_started_tasks(path)
        self._saved_ran = b""  # last written content of the file of started tasks
        self.changed: list[TaskMissingSince] = []  # tasks that became missing or were listed again in this cycle

    def load_missing_tasks(self) -> None:
        """Start a cycle: read the missing tasks from the state file."""
        self._known, self.changed, self._of = self._kept.missing_tasks(), [], {}
        for position in self._known:
            self._of.setdefault(position[:2], set()).add(position)

    def record_listed_tasks(self, array: CampaignArray, listed: Set[int], running: Set[int]) -> None:
        of = array.campaign_and_array_number
        _set_or_delete_key(self._ran, of, (self._ran.get(of, frozenset()) - listed) | running)
        if since_s := self._since_s.get(of):
            since_s = {position: at for position, at in since_s.items() if position[2] not in listed}
            _set_or_delete_key(self._since_s, of, since_s)
        for position in self._of.get(of, ()):
            if position[2] in listed:
                self._record_missing_or_found_task(position, is_missing=False)

    def indices_of_started_tasks(self, array: CampaignArray) -> Set[int]:
        """Return the array indices of tasks that had started when the job list last showed them."""
        return self._ran.get(array.campaign_and_array_number, frozenset())

    def save_started_tasks(self, arrays: Iterable[CampaignArray]) -> None:
        """Save which tasks of arrays had started, for the next process of the runner."""
        if self._is_dry:
            return
        of = {array.campaign_and_array_number for array in arrays}
        self._ran = {key: indices for key, indices in self._ran.items() if key in of}
        ran = {
            f"{campaign}.{array}": format_array_index_ranges(group_into_ranges(indices))
            for (campaign, array), indices in self._ran.items()
        }
        raw = json.dumps(ran).encode()
        try:
            if raw != self._saved_ran:
                safe_files.replace_file_atomically(self._path, raw)
                self._saved_ran = raw
        except StateError as error:
            _log.warning("event=not_kept why=%r", str(error))

    def missing_seconds_by_attempt(self, missing: Iterable[TaskAttempt]) -> dict[TaskAttempt, float]:
        now, now_s = self._clock.now(), self._clock.steady_s()
        durations_s = {}
        for attempt in missing:
            position = _position_of_attempt(attempt)
            before_s = max(0.0, (now - self._known.get(position, now)).total_seconds())
            since_s = self._since_s.setdefault(position[:2], {}).setdefault(position, now_s - before_s)
            durations_s[attempt] = now_s - since_s
        return durations_s

    def update_missing_tasks(self, missing: Iterable[TaskAttempt], ended_attempts: Iterable[TaskAttempt]) -> None:
        over = {_position_of_attempt(attempt) for attempt in ended_attempts}
        for of in {position[:2] for position in over}:
            since_s = {position: at for position, at in self._since_s.get(of, {}).items() if position not in over}
            _set_or_delete_key(self._since_s, of, since_s)
            _set_or_delete_key(self._ran, of, self._ran.get(of, frozenset()) - {position[2] for position in over})
        for position in dict.fromkeys(map(_position_of_attempt, missing)):
            if position not in over and position not in self._known:
                self._record_missing_or_found_task(position, is_missing=True)

    def _record_missing_or_found_task(self, position: Place, *, is_missing: bool) -> None:
        campaign, array, index = position
        since = self._clock.now() if is_missing else None
        self.changed.append(TaskMissingSince(campaign=campaign, array=array, place=index, since=since))


def _set_or_delete_key(table: MutableMapping[Key, Kept], key: Key, value: Kept) -> None:
    if value:
        table[key] = value
    else:
        table.pop(key, None)


def _position_of_attempt(attempt: TaskAttempt) -> Place:
    return attempt.campaign, attempt.array, attempt.place


def _read_file_of_started_tasks(path: str) -> dict[Key, Set[int]]:
    try:
        ran: dict[Key, Set[int]] = {}
        for of, text in json.loads(safe_files.read_file_only_owner_writes(path, MAX_BYTES)[0]).items():
            campaign, _, number = of.partition(".")
            ranges = parse_array_index_ranges(str(text))
            ran[int(campaign), int(number)] = frozenset(index for indices in ranges for index in indices)
        return ran
    except (OSError, StateError, ParseError, ValueError, AttributeError):
        return {}


MOST = 1000  # only this many attempts of a campaign are considered: the longest running attempts

Answers = Mapping[str, ClusterSnapshot]


class CampaignStragglerFinder:
    def __init__(self, campaigns: CampaignRows, limits: LateSpeculationSection) -> None:
        self._campaigns = campaigns
        self._tries = TaskAttemptRows(campaigns.database, campaigns)
        self._limits = limits

    def find_long_running_attempts(
        self,
        campaigns: Iterable[Campaign],
        unsent_tasks: Mapping[int, int],
        arrays: Sequence[CampaignArray],
        answers: Answers,
        rivals: AttemptsByTask,
        now: datetime,
    ) -> tuple[TasksRunningNearCampaignEnd, ...]:
        going = (campaign for campaign in campaigns if campaign.state is CampaignState.IN_TREATMENT)
        able = [campaign for campaign in going if self._limits.copies and campaign.jdl.allows_speculative_attempts]
        of: dict[int, list[CampaignArray]] = {campaign.number: [] for campaign in able}
        for array in arrays:
            # job lists don't show how long each task of a job has run
            if array.campaign in of and array.group_tasks == 1:
                of[array.campaign].append(array)
        tails = []
        for campaign in able:
            ours, unsent = of[campaign.number], unsent_tasks.get(campaign.number, 0)
            left = campaign.tasks - campaign.ended
            snapshots = [answers[name] for name in campaign.jdl.clusters if name in answers]
            free = sum(max(snapshot.free_slots, snapshot.besteffort_slots or 0) for snapshot in snapshots)
            if ours and is_campaign_near_end(left, unsent, free, _seconds_since_last_array(ours, now), self._limits):
                tails.append(self._long_running_attempts_of_campaign(campaign, ours, answers, rivals, now))
        return tuple(tail for tail in tails if tail.live)

    def _long_running_attempts_of_campaign(
        self,
        campaign: Campaign,
        arrays: Iterable[CampaignArray],
        answers: Answers,
        rivals: AttemptsByTask,
        now: datetime,
    ) -> TasksRunningNearCampaignEnd:
        durations = self._campaigns.run_times_by_cluster(campaign.number).values()
        by_number = {array.number: array for array in arrays}
        late: dict[int, tuple[RunningTaskAttempt, ...]] = {}
        attempts: list[TaskAttempt] = []
        for array, indices in self._longest_running_tasks(by_number.values(), answers, now):
            for attempt in self._tries.unfinished_attempts_at(array, indices):
                of_task = rivals.get((campaign.number, attempt.task), ())
                if not is_prologue_or_epilogue_task(attempt.task) and not _has_successful_attempt(of_task):
                    pending = [rival for rival in of_task if rival.outcome is TaskAttemptOutcome.PENDING]
                    candidates: Sequence[TaskAttempt | CompetingAttempt] = pending or [attempt]
                    attempts.append(attempt)
                    late[attempt.task] = tuple(
                        _running_task_attempt(live, by_number[live.array], answers, now)
                        for live in candidates
                        if live.array in by_number
                    )
        all_late = [live for live in late.values() if _least_elapsed_seconds_of_attempts(live) >= self._limits.least_s]
        all_late.sort(key=lambda live: -_least_elapsed_seconds_of_attempts(live))
        return TasksRunningNearCampaignEnd(
            campaign=campaign.number,
            sent_s=_seconds_since_last_array(arrays, now),
            durations_s=tuple(duration_s for cluster_durations in durations for duration_s in cluster_durations),
            live=tuple(attempt for live in all_late for attempt in live),
            failed_at=map_tasks_to_failed_clusters(self._tries.earlier_outcomes(attempts, rivals)),
        )

    def _longest_running_tasks(
        self, arrays: Iterable[CampaignArray], answers: Answers, now: datetime
    ) -> Iterator[tuple[CampaignArray, frozenset[int]]]:
        longest = nlargest(
            MOST,
            (
                (elapsed_s, array.number, index, array)
                for array in arrays
                for index, elapsed_s in _elapsed_seconds_of_array(array, answers, now)
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


def _seconds_since_last_array(arrays: Iterable[CampaignArray], now: datetime) -> float:
    sent = (array.intended_at for array in arrays if not array.is_of_copies)
    return (now - max(sent, default=now)).total_seconds()


def _elapsed_seconds_of_array(array: CampaignArray, answers: Answers, now: datetime) -> Iterator[tuple[int, float]]:
    """Yield (index, elapsed seconds) of running tasks; at a silent cluster all tasks count as running."""
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


def _elapsed_seconds_of_task(array: CampaignArray, index: int, answers: Answers, now: datetime) -> float:
    snapshot = answers.get(array.cluster)
    if array.state is not ArraySubmissionState.RELEASED or not snapshot:
        return next((elapsed_s for at, elapsed_s in _elapsed_seconds_of_array(array, answers, now) if at == index), 0.0)
    row = snapshot.find_job_list_row(array.job_id, index)
    is_running = row is not None and row.state.has_begun and not row.state.is_deleting
    return (snapshot.taken_at - row.since).total_seconds() if row and row.since and is_running else 0.0


def _running_task_attempt(
    attempt: TaskAttempt | CompetingAttempt, array: CampaignArray, answers: Answers, now: datetime
) -> RunningTaskAttempt:
    elapsed_s = max(0.0, _elapsed_seconds_of_task(array, attempt.place, answers, now))
    return RunningTaskAttempt(task=attempt.task, attempt=attempt.attempt, cluster=array.cluster, elapsed_s=elapsed_s)


def _least_elapsed_seconds_of_attempts(attempts: Iterable[RunningTaskAttempt]) -> float:
    return min((attempt.elapsed_s for attempt in attempts), default=0.0)


def _has_successful_attempt(rivals: Iterable[CompetingAttempt]) -> bool:
    return any(rival.outcome is TaskAttemptOutcome.SUCCESS for rival in rivals)


def earlier_live_attempt_positions(rivals: Iterable[CompetingAttempt]) -> frozenset[tuple[int, int, int]]:
    """Return (campaign, array, index) of all but the last unfinished attempt of each task."""
    positions: set[tuple[int, int, int]] = set()
    for task_rivals in group_attempts_by_task(rivals).values():
        live = [rival for rival in task_rivals if rival.outcome is TaskAttemptOutcome.PENDING]
        last = 0 if _has_successful_attempt(task_rivals) else max((rival.attempt for rival in live), default=0)
        positions |= {(rival.campaign, rival.array, rival.place) for rival in live if rival.attempt != last}
    return frozenset(positions)
