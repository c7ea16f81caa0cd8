"""Which of several attempts of a task decides: the first success, else the last that ends.

Several run at the same time when a task got a copy (schedulers/finalize). An attempt that decides
nothing ends as a copy: neither success nor failure, and no reason to run the task again. Those
that are left of a task that has succeeded are ended (CiGri scheduler specification, finalize
scheduling: once a job has finished successfully, its replicas are aborted).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gridbridge.model.campaigns.campaign import Array, ArrayState, Attempt, TaskOutcome
from gridbridge.model.campaigns.cycle_plan import Retry
from gridbridge.model.campaigns.speculation import CompetingAttempt, SupersededAttempts

Task = tuple[int, int]  # of a campaign
ByTask = Mapping[Task, Sequence[CompetingAttempt]]


def by_task(rivals: Iterable[CompetingAttempt]) -> ByTask:
    """Return the attempts of each task that had a copy."""
    attempts: dict[Task, list[CompetingAttempt]] = defaultdict(list)
    for attempt in rivals:
        attempts[attempt.campaign, attempt.task].append(attempt)
    return attempts


def settled(ended: Sequence[Attempt], rivals: ByTask) -> tuple[Attempt, ...]:
    """Return what ended; an attempt that decides nothing has come to a copy.

    Whether it overran its walltime is kept: the task would do so there again.
    Of two that succeeded in one look the lower one counts: nobody knows which was first.
    """
    now: dict[Task, list[Attempt]] = defaultdict(list)
    for attempt in ended:
        now[attempt.campaign, attempt.task].append(attempt)
    decides = {
        task: _deciding(of_task, rivals[task]) for task, of_task in now.items() if rivals.get(task)
    }
    return tuple(
        replace(
            attempt, outcome=TaskOutcome.COPY, is_overrun=attempt.outcome is TaskOutcome.WALLTIME
        )
        if decides.get((attempt.campaign, attempt.task), attempt.attempt) != attempt.attempt
        else attempt
        for attempt in ended
    )


def _deciding(ended: Iterable[Attempt], rivals: Iterable[CompetingAttempt]) -> int:
    """Return which of a task's attempts decides; 0 while another lives, or when one had won."""
    outcomes = {rival.attempt: rival.outcome for rival in rivals}
    if TaskOutcome.SUCCESS in outcomes.values():
        return 0
    now = {attempt.attempt: attempt.outcome for attempt in ended}
    if good := [attempt for attempt, outcome in now.items() if outcome is TaskOutcome.SUCCESS]:
        return min(good)
    pending = {attempt for attempt, outcome in outcomes.items() if outcome is TaskOutcome.PENDING}
    return 0 if pending - now.keys() else max(now)


def last_ends(ended: Iterable[Attempt], again: Iterable[Retry]) -> tuple[Attempt, ...]:
    """Return the ends with which tasks are over: of no copy, and none that runs again."""
    runs = {(retry.campaign, retry.task) for retry in again}
    return tuple(
        attempt
        for attempt in ended
        if attempt.outcome is not TaskOutcome.COPY and (attempt.campaign, attempt.task) not in runs
    )


def numbered(again: Iterable[Retry], rivals: ByTask) -> tuple[Retry, ...]:
    """Return which tasks run again, after the last of their attempts: a copy may be a later one."""
    return tuple(
        replace(retry, attempt=max(retry.attempt, *(rival.attempt for rival in of_task)))
        if (of_task := rivals.get((retry.campaign, retry.task)))
        else retry
        for retry in again
    )


def losers(
    ended: Iterable[Attempt], rivals: ByTask, arrays: Iterable[Array]
) -> tuple[SupersededAttempts, ...]:
    """Return the attempts to be ended, by their arrays: those whose tasks have succeeded.

    They are named again in each cycle until they have ended. Of an array that was not released yet
    nothing is ended as long as another task of it is wanted.
    """
    by_number = {(array.campaign, array.number): array for array in arrays}
    now = {(attempt.campaign, attempt.task, attempt.attempt): attempt.outcome for attempt in ended}
    live: dict[Task, list[CompetingAttempt]] = defaultdict(list)  # by campaign and array
    lost: dict[Task, list[int]] = defaultdict(list)
    for task, of_task in rivals.items():
        has_won = _has_won(task, of_task, now)
        for rival in of_task:
            if rival.outcome is TaskOutcome.PENDING and (*task, rival.attempt) not in now:
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
    return tuple(
        loser for loser in superseded if loser.is_whole or loser.array.state is ArrayState.RELEASED
    )


def is_dropped(loser: SupersededAttempts) -> bool:
    """Say whether an array never starts: it was not released, and nothing of it is wanted."""
    return loser.is_whole and loser.array.state is not ArrayState.RELEASED


def _has_won(
    task: Task, of_task: Iterable[CompetingAttempt], now: Mapping[tuple[int, int, int], TaskOutcome]
) -> bool:
    outcomes = (now.get((*task, rival.attempt), rival.outcome) for rival in of_task)
    return TaskOutcome.SUCCESS in outcomes


def _ranges(indices: Iterable[int]) -> tuple[range, ...]:
    ranges: list[range] = []
    for index in sorted(indices):
        if ranges and ranges[-1].stop == index:
            ranges[-1] = range(ranges[-1].start, index + 1)
        else:
            ranges.append(range(index, index + 1))
    return tuple(ranges)
