"""Restore campaign arrays from root's ledger of submitted tasks, which an old state file lacks."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.campaigns.campaign_cycle_planning import ENDS_PER_TRANSACTION
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import (
    choose_clusters_retry_avoids,
    list_walltime_overrun_clusters,
)
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    AttemptOutcomeAtCluster,
    CampaignArray,
    LedgerRecoveryStep,
    RecordedCampaignTasks,
    RootLedgerArray,
    TaskAttempt,
    TaskAttemptOutcome,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task


def is_ledger_ahead_of_state_file(arrays: Iterable[CampaignArray], ledger: Iterable[RootLedgerArray]) -> bool:
    """Say whether root's ledger has an array, or further tasks of an array's jobs, that the state file lacks."""
    added = {array.number: array.added_tasks for array in arrays}
    return any(_count_added_tasks(array) > added.get(array.number, -1) for array in ledger)


def _count_added_tasks(array: RootLedgerArray) -> int:
    return sum(len(tasks) for _, tasks in array.added)


def plan_recovery_from_root_ledger(
    campaign: int,
    stored: RecordedCampaignTasks,
    entries: Iterable[RootLedgerArray],
    at: datetime,
    *,
    refused: CampaignArray | None = None,
    most: int = ENDS_PER_TRANSACTION,
) -> tuple[LedgerRecoveryStep, ...]:
    """Return the steps that restore a campaign's lost arrays in the state file, one step per transaction.

    The newest arrays come first, and root refuses tasks that are in the ledger, so the recovery may stop after any
    step. The end of a task's last lost attempt, and of later copies, is awaited; all other lost attempts get an unknown
    end. A waiting task with a copy in the ledger is not sent again. An array without a job id was never released; it is
    given up if some of its tasks were sent again. `refused` is an array that root refused.
    """
    ledger = {array.number: array for array in entries}
    undone = [array for array in stored.arrays if _does_array_differ_from_root_ledger(array, stored, ledger)]
    is_new = refused and refused.number not in {array.number for array in undone}
    undone += [refused] if refused and is_new else []
    intact = {array.number for array in stored.arrays} - {array.number for array in undone}
    grown = {
        array.number: replace(array, added_tasks=_count_added_tasks(ledger[array.number]))
        for array in stored.arrays
        if array.number in intact & ledger.keys() and _count_added_tasks(ledger[array.number]) > array.added_tasks
    }
    lost = [
        _without_stored_tasks(ledger[number], stored) if number in grown else ledger[number]
        for number in sorted(ledger.keys() - (intact - grown.keys()), reverse=True)
    ]
    first = {task: attempt for array in ledger.values() if not array.is_of_copies for task, attempt in array.all_tasks}
    lost_first = _last_attempts_of_arrays(lost, first).keys()
    undone_steps = [_undo_unsubmitted_array(array, stored) for array in sorted(undone, key=lambda array: array.number)]
    waiting = sorted(
        (*stored.waiting, *(span for step in undone_steps for span in step.waiting)), key=_first_task_of_waiting_range
    )
    before = defaultdict[int, list[TaskAttempt]](list)
    for attempt in stored.attempts:
        before[attempt.task] += [attempt] if attempt.array in intact else []
    steps = [
        LedgerRecoveryStep(
            campaign=campaign,
            arrays=tuple(
                _array_of_ledger_entry(campaign, entry, at, first) for entry in group if entry.number not in grown
            ),
            grown=tuple(grown[entry.number] for entry in group if entry.number in grown),
            attempts=tuple(attempt for entry in group for attempt in _attempts_of_ledger_entry(campaign, entry, first)),
            superseded=tuple(
                replace(previous, outcome=TaskAttemptOutcome.SITE_FAULT)
                for task, attempt in alive.items()
                for previous in before.get(task, ())
                if previous.attempt < attempt
            ),
            no_longer=no_longer,
            waiting=parts,
            again=tuple(_tasks_of_arrays_given_up(group, first)),
        )
        for group in _group_arrays_by_transaction(lost, most)
        for alive in [_last_attempts_of_arrays(group, first)]
        for copied in [_tasks_with_live_speculative_attempts(group, first) - lost_first]
        for no_longer, parts in [_replace_waiting_task_ranges(waiting, alive.keys() | copied)]
    ]
    return (*undone_steps, *steps)


def _without_stored_tasks(array: RootLedgerArray, stored: RecordedCampaignTasks) -> RootLedgerArray:
    """Return only those further tasks of an array's jobs that still wait in the state file."""
    waiting = {span.first: span for span in stored.waiting if span.attempt == 1}
    begins = sorted(waiting)

    def still_waits(task: int) -> bool:
        at = bisect_right(begins, task)
        return bool(at) and task <= waiting[begins[at - 1]].last

    added = ((index, tuple(pair for pair in tasks if still_waits(pair[0]))) for index, tasks in array.added)
    return replace(array, tasks=(), added=tuple(added))


def _undo_unsubmitted_array(array: CampaignArray, stored: RecordedCampaignTasks) -> LedgerRecoveryStep:
    of_array = () if array.is_of_copies else (attempt for attempt in stored.attempts if attempt.array == array.number)
    returning = (attempt for attempt in of_array if not is_prologue_or_epilogue_task(attempt.task))
    waiting = tuple(_make_attempts_wait_again(returning, stored))
    return LedgerRecoveryStep(campaign=array.campaign, undone=(array.number,), waiting=waiting)


def _group_arrays_by_transaction(lost_arrays: Iterable[RootLedgerArray], most: int) -> Iterator[list[RootLedgerArray]]:
    group: list[RootLedgerArray] = []
    tasks = 0
    for array in lost_arrays:
        if group and tasks + len(array.all_tasks) > most:
            yield group
            group, tasks = [], 0
        group.append(array)
        tasks += len(array.all_tasks)
    if group:
        yield group


def _last_attempts_of_arrays(arrays: Iterable[RootLedgerArray], first: Mapping[int, int]) -> dict[int, int]:
    return {
        task: attempt
        for array in arrays
        if not array.is_of_copies
        for task, attempt in array.all_tasks
        if attempt == first[task]
    }


def _is_array_given_up(array: RootLedgerArray, first: Mapping[int, int]) -> bool:
    """Say whether an array's tasks were sent again: all, or some if the array has no job id."""
    old = [attempt < first.get(task, 0) for task, attempt in array.all_tasks]
    return all(old) or (not array.job_id and any(old))


def _tasks_of_arrays_given_up(
    arrays: Iterable[RootLedgerArray], first: Mapping[int, int]
) -> Iterator[WaitingTaskRange]:
    for task, attempt in _last_attempts_of_arrays(
        (array for array in arrays if _is_array_given_up(array, first)), first
    ).items():
        if not is_prologue_or_epilogue_task(task):
            yield WaitingTaskRange(first=task, last=task, attempt=attempt + 1)


def _tasks_with_live_speculative_attempts(arrays: Iterable[RootLedgerArray], first: Mapping[int, int]) -> Set[int]:
    return {
        task
        for array in arrays
        if array.is_of_copies and not _is_array_given_up(array, first)
        for task, attempt in array.tasks
        if attempt >= first.get(task, 0)
    }


def _replace_waiting_task_ranges(
    waiting: list[WaitingTaskRange], tasks: Iterable[int]
) -> tuple[tuple[WaitingTaskRange, ...], tuple[WaitingTaskRange, ...]]:
    these = sorted(task for task in tasks if not is_prologue_or_epilogue_task(task))
    if not these:
        return (), ()
    begin = max(0, bisect_right(waiting, these[0], key=_first_task_of_waiting_range) - 1)
    end = bisect_right(waiting, these[-1], key=_first_task_of_waiting_range)
    before, after = waiting[begin:end], subtract_from_waiting_ranges(waiting[begin:end], {*these})
    waiting[begin:end] = after
    stays = {*before} & {*after}
    return (tuple(span for span in before if span not in stays), tuple(span for span in after if span not in stays))


def _first_task_of_waiting_range(span: WaitingTaskRange) -> int:
    return span.first


def _make_attempts_wait_again(
    attempts: Iterable[TaskAttempt], stored: RecordedCampaignTasks
) -> Iterable[WaitingTaskRange]:
    tried = defaultdict[int, list[AttemptOutcomeAtCluster]](list)
    for earlier in sorted(stored.earlier, key=lambda earlier: earlier.attempt):
        tried[earlier.task].append(earlier)
    for attempt in attempts:
        task, of_task = attempt.task, tried[attempt.task]
        avoid = choose_clusters_retry_avoids(of_task[-1], of_task[:-1], stored.clusters) if of_task else ()
        never = list_walltime_overrun_clusters(of_task, stored.clusters)
        yield WaitingTaskRange(first=task, last=task, attempt=attempt.attempt, avoid=avoid, never=never)


def subtract_from_waiting_ranges(waiting: Iterable[WaitingTaskRange], tasks: Set[int]) -> tuple[WaitingTaskRange, ...]:
    """Return ranges of waiting tasks without some tasks; a range may be split into several."""
    these = sorted(tasks)
    return tuple(
        replace(span, first=part[0], last=part[-1])
        for span in waiting
        for part in _split_waiting_range_at_tasks(span, these[bisect_left(these, span.first) :])
    )


def _split_waiting_range_at_tasks(span: WaitingTaskRange, tasks: list[int]) -> Iterable[range]:
    begin = span.first
    for task in tasks:
        if begin <= task <= span.last:
            if begin < task:
                yield range(begin, task)
            begin = task + 1
    if begin <= span.last:
        yield range(begin, span.last + 1)


def _does_array_differ_from_root_ledger(
    array: CampaignArray, stored: RecordedCampaignTasks, ledger: "dict[int, RootLedgerArray]"
) -> bool:
    if array.state is not ArraySubmissionState.INTENDED:
        return False
    entry = ledger.get(array.number)
    ours = tuple((attempt.task, attempt.attempt) for attempt in stored.attempts if attempt.array == array.number)
    return not entry or (array.cluster, ours) != (entry.cluster, entry.tasks)


def _array_of_ledger_entry(
    campaign: int, entry: RootLedgerArray, at: datetime, first: Mapping[int, int]
) -> CampaignArray:
    """Return the array to store; a given-up array gets state RELEASED, so that its job is deleted."""
    is_given_up = _is_array_given_up(entry, first)
    sent = ArraySubmissionState.SUBMITTED if entry.job_id else ArraySubmissionState.INTENDED
    return CampaignArray(
        campaign=campaign,
        number=entry.number,
        cluster=entry.cluster,
        state=ArraySubmissionState.RELEASED if is_given_up else sent,
        size=-(-len(entry.tasks) // entry.group.tasks),
        group_tasks=entry.group.tasks,
        group_s=entry.group.begin_s,
        group_wait_s=entry.group.wait_s,
        added_tasks=_count_added_tasks(entry),
        job_id=entry.job_id,
        intended_at=at,
        is_repeated=is_given_up,
        copies_beyond_s=0 if entry.is_of_copies else None,
        is_ordinary=entry.is_ordinary,
        checkpoint_s=entry.checkpoint_s,
    )


def _attempts_of_ledger_entry(campaign: int, entry: RootLedgerArray, first: "dict[int, int]") -> Iterable[TaskAttempt]:
    is_given_up = _is_array_given_up(entry, first)
    submitted = [(index // entry.group.tasks + 1, *pair) for index, pair in enumerate(entry.tasks)]
    added = [(index, *pair) for index, tasks in entry.added for pair in tasks]
    for index, task, attempt in submitted + added:
        is_alive = attempt >= first.get(task, 0) and not is_given_up
        yield TaskAttempt(
            campaign=campaign,
            task=task,
            attempt=attempt,
            array=entry.number,
            place=index,
            outcome=TaskAttemptOutcome.PENDING if is_alive else TaskAttemptOutcome.SITE_FAULT,
        )
