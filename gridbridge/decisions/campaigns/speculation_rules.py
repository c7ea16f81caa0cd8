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
    found: dict[Task, list[CompetingAttempt]] = defaultdict(list)
    for one in rivals:
        found[one.campaign, one.task].append(one)
    return found


def settled(ended: Sequence[Attempt], rivals: ByTask) -> tuple[Attempt, ...]:
    """Return what ended; an attempt that decides nothing has come to a copy.

    Whether it overran its walltime is kept: the task would do so there again.
    Of two that succeeded in one look the lower one counts: nobody knows which was first.
    """
    now: dict[Task, list[Attempt]] = defaultdict(list)
    for one in ended:
        now[one.campaign, one.task].append(one)
    decides = {
        task: _deciding(some, rivals[task]) for task, some in now.items() if rivals.get(task)
    }
    return tuple(
        replace(one, outcome=TaskOutcome.COPY, is_overrun=one.outcome is TaskOutcome.WALLTIME)
        if decides.get((one.campaign, one.task), one.attempt) != one.attempt
        else one
        for one in ended
    )


def _deciding(ended: Iterable[Attempt], rivals: Iterable[CompetingAttempt]) -> int:
    """Return which of a task's attempts decides; 0 while another lives, or when one had won."""
    outcomes = {one.attempt: one.outcome for one in rivals}
    if TaskOutcome.SUCCESS in outcomes.values():
        return 0
    now = {one.attempt: one.outcome for one in ended}
    if good := [attempt for attempt, outcome in now.items() if outcome is TaskOutcome.SUCCESS]:
        return min(good)
    pending = {attempt for attempt, outcome in outcomes.items() if outcome is TaskOutcome.PENDING}
    return 0 if pending - now.keys() else max(now)


def last_ends(ended: Iterable[Attempt], again: Iterable[Retry]) -> tuple[Attempt, ...]:
    """Return the ends with which tasks are over: of no copy, and none that runs again."""
    runs = {(one.campaign, one.task) for one in again}
    return tuple(
        one
        for one in ended
        if one.outcome is not TaskOutcome.COPY and (one.campaign, one.task) not in runs
    )


def numbered(again: Iterable[Retry], rivals: ByTask) -> tuple[Retry, ...]:
    """Return which tasks run again, after the last of their attempts: a copy may be a later one."""
    return tuple(
        replace(one, attempt=max(one.attempt, *(each.attempt for each in of_task)))
        if (of_task := rivals.get((one.campaign, one.task)))
        else one
        for one in again
    )


def losers(
    ended: Iterable[Attempt], rivals: ByTask, arrays: Iterable[Array]
) -> tuple[SupersededAttempts, ...]:
    """Return the attempts to be ended, by their arrays: those whose tasks have succeeded.

    They are named again in each cycle until they have ended. Of an array that was not released yet
    nothing is ended as long as another task of it is wanted.
    """
    known = {(one.campaign, one.number): one for one in arrays}
    now = {(one.campaign, one.task, one.attempt): one.outcome for one in ended}
    live: dict[Task, list[CompetingAttempt]] = defaultdict(list)  # by campaign and array
    lost: dict[Task, list[int]] = defaultdict(list)
    for task, of_task in rivals.items():
        has_won = _has_won(task, of_task, now)
        for one in of_task:
            if one.outcome is TaskOutcome.PENDING and (*task, one.attempt) not in now:
                live[one.campaign, one.array].append(one)
                if has_won:
                    lost[one.campaign, one.array].append(one.place)
    found = (
        SupersededAttempts(
            array=known[key],
            places=_ranges(places),
            is_whole=known[key].is_of_copies and len(places) == len(live[key]),
        )
        for key, places in sorted(lost.items())
        if key in known
    )
    return tuple(one for one in found if one.is_whole or one.array.state is ArrayState.RELEASED)


def is_dropped(one: SupersededAttempts) -> bool:
    """Say whether an array never starts: it was not released, and nothing of it is wanted."""
    return one.is_whole and one.array.state is not ArrayState.RELEASED


def _has_won(
    task: Task, of_task: Iterable[CompetingAttempt], now: Mapping[tuple[int, int, int], TaskOutcome]
) -> bool:
    outcomes = (now.get((*task, one.attempt), one.outcome) for one in of_task)
    return TaskOutcome.SUCCESS in outcomes


def _ranges(places: Iterable[int]) -> tuple[range, ...]:
    found: list[range] = []
    for place in sorted(places):
        if found and found[-1].stop == place:
            found[-1] = range(found[-1].start, place + 1)
        else:
            found.append(range(place, place + 1))
    return tuple(found)
