"""Decide which attempt of a task counts: the first success, else the last end.

Several attempts run at once when a task got a speculative attempt. An attempt that does not count
gets outcome COPY: neither success nor failure, and no retry. When a task has succeeded, its other
attempts are deleted (CiGri scheduler specification, finalize scheduling).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.cycle_plan import TaskRetry
from gridbridge.model.campaigns.speculation import CompetingAttempt, SupersededAttempts

CampaignTask = tuple[int, int]  # campaign number, task number
AttemptsByTask = Mapping[CampaignTask, Sequence[CompetingAttempt]]


def group_attempts_by_task(rivals: Iterable[CompetingAttempt]) -> AttemptsByTask:
    """Group the competing attempts by task."""
    attempts: dict[CampaignTask, list[CompetingAttempt]] = defaultdict(list)
    for attempt in rivals:
        attempts[attempt.campaign, attempt.task].append(attempt)
    return attempts


def mark_ended_attempts_as_copies(ended: Sequence[TaskAttempt], rivals: AttemptsByTask) -> tuple[TaskAttempt, ...]:
    """Return ended attempts, with outcome COPY if another attempt of the task counts.

    `is_overrun` records an overrun walltime in a COPY, so that the task avoids that cluster. Of two
    successes in one cycle the smaller attempt number wins, since their order is unknown.
    """
    now: dict[CampaignTask, list[TaskAttempt]] = defaultdict(list)
    for attempt in ended:
        now[attempt.campaign, attempt.task].append(attempt)
    decides = {task: _deciding(of_task, rivals[task]) for task, of_task in now.items() if rivals.get(task)}
    return tuple(
        replace(attempt, outcome=TaskAttemptOutcome.COPY, is_overrun=attempt.outcome is TaskAttemptOutcome.WALLTIME)
        if decides.get((attempt.campaign, attempt.task), attempt.attempt) != attempt.attempt
        else attempt
        for attempt in ended
    )


def _deciding(ended: Iterable[TaskAttempt], rivals: Iterable[CompetingAttempt]) -> int:
    """Return the attempt that counts; 0 while another attempt lives or has succeeded."""
    outcomes = {rival.attempt: rival.outcome for rival in rivals}
    if TaskAttemptOutcome.SUCCESS in outcomes.values():
        return 0
    now = {attempt.attempt: attempt.outcome for attempt in ended}
    if good := [attempt for attempt, outcome in now.items() if outcome is TaskAttemptOutcome.SUCCESS]:
        return min(good)
    pending = {attempt for attempt, outcome in outcomes.items() if outcome is TaskAttemptOutcome.PENDING}
    return 0 if pending - now.keys() else max(now)


def select_final_task_ends(ended: Iterable[TaskAttempt], again: Iterable[TaskRetry]) -> tuple[TaskAttempt, ...]:
    """Return the final ends of tasks: attempts without outcome COPY or retry."""
    runs = {(retry.campaign, retry.task) for retry in again}
    return tuple(
        attempt
        for attempt in ended
        if attempt.outcome is not TaskAttemptOutcome.COPY and (attempt.campaign, attempt.task) not in runs
    )


def number_retries_after_copies(again: Iterable[TaskRetry], rivals: AttemptsByTask) -> tuple[TaskRetry, ...]:
    """Return retries with numbers above all attempts of their tasks, copies included."""
    return tuple(
        replace(retry, attempt=max(retry.attempt, *(rival.attempt for rival in of_task)))
        if (of_task := rivals.get((retry.campaign, retry.task)))
        else retry
        for retry in again
    )


def find_superseded_attempts(
    ended: Iterable[TaskAttempt], rivals: AttemptsByTask, arrays: Iterable[CampaignArray]
) -> tuple[SupersededAttempts, ...]:
    """Return the live attempts, by array, whose tasks have succeeded.

    Each cycle returns these attempts until they have ended. An unreleased array is left out while
    another task of the array is needed.
    """
    by_number = {(array.campaign, array.number): array for array in arrays}
    now = {(attempt.campaign, attempt.task, attempt.attempt): attempt.outcome for attempt in ended}
    # live attempts by campaign and array
    live: dict[CampaignTask, list[CompetingAttempt]] = defaultdict(list)
    lost: dict[CampaignTask, list[int]] = defaultdict(list)
    for task, of_task in rivals.items():
        has_won = _has_won(task, of_task, now)
        for rival in of_task:
            if rival.outcome is TaskAttemptOutcome.PENDING and (*task, rival.attempt) not in now:
                live[rival.campaign, rival.array].append(rival)
                if has_won:
                    lost[rival.campaign, rival.array].append(rival.place)
    superseded = (
        SupersededAttempts(
            array=by_number[key],
            places=_ranges(indices),
            is_whole=by_number[key].is_of_copies and len(indices) == len(live[key]),
        )
        for key, indices in sorted(lost.items())
        if key in by_number
    )
    return tuple(loser for loser in superseded if loser.is_whole or loser.array.state is ArraySubmissionState.RELEASED)


def is_unreleased_array_unwanted(loser: SupersededAttempts) -> bool:
    """Say whether an array is unreleased and has no task that is still needed."""
    return loser.is_whole and loser.array.state is not ArraySubmissionState.RELEASED


def _has_won(
    task: CampaignTask, of_task: Iterable[CompetingAttempt], now: Mapping[tuple[int, int, int], TaskAttemptOutcome]
) -> bool:
    outcomes = (now.get((*task, rival.attempt), rival.outcome) for rival in of_task)
    return TaskAttemptOutcome.SUCCESS in outcomes


def _ranges(indices: Iterable[int]) -> tuple[range, ...]:
    ranges: list[range] = []
    for index in sorted(indices):
        if ranges and ranges[-1].stop == index:
            ranges[-1] = range(ranges[-1].start, index + 1)
        else:
            ranges.append(range(index, index + 1))
    return tuple(ranges)
