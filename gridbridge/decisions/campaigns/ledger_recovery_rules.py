"""What the state file takes over from root's ledger, where it is older than that.

Somebody restored it. The ledger knows what was submitted since: those arrays are known again, their
tasks do not wait any more, and what was begun in their place is undone.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.campaigns.ending.write_batches import PORTION
from gridbridge.decisions.campaigns.failures.retries import avoided, never
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    LedgerArray,
    TaskOutcome,
    WaitingTasks,
)
from gridbridge.model.campaigns.cycle_plan import AttemptOutcome
from gridbridge.model.campaigns.ledger_recovery import RecoveryStep, StoredCampaign
from gridbridge.model.campaigns.prologues import is_step


def lacking(arrays: Iterable[Array], ledger: Iterable[LedgerArray]) -> bool:
    """Say whether root's ledger has an array of a campaign that the state file does not have."""
    numbers = {array.number for array in arrays}
    return any(array.number not in numbers for array in ledger)


def adopt(
    campaign: int,
    stored: StoredCampaign,
    entries: Iterable[LedgerArray],
    at: datetime,
    *,
    refused: Array | None = None,
    most: int = PORTION,
) -> tuple[RecoveryStep, ...]:
    """Return what becomes of a campaign of which the ledger knows more, in portions.

    It may have refused an array for that. The portions are kept one after the other. After each the
    state file is as one that was restored from a later moment: what is still lost waits, and the
    ledger refuses it once more. So the last attempts of tasks come first.

    Of a task's attempts that were lost the last one is waited for, and the copies after it; nobody
    saw how others ended. A task that waits though a copy of it was sent does so by the end of the
    attempt that was copied, which decides nothing: the copy does.

    An array whose id the ledger does not have was never released. Where some of its tasks were sent
    by others since, it can't be sent as the ledger has it: what is left of it waits for another.
    """
    ledger = {array.number: array for array in entries}
    undone = [array for array in stored.arrays if _differs(array, stored, ledger)]
    is_new = refused and refused.number not in {array.number for array in undone}
    undone += [refused] if refused and is_new else []
    intact = {array.number for array in stored.arrays} - {array.number for array in undone}
    lost = [ledger[number] for number in sorted(ledger.keys() - intact, reverse=True)]
    first = _first_alive(ledger.values())
    lost_first = _alive(lost, first).keys()
    undone_steps = [
        _undone(array, stored) for array in sorted(undone, key=lambda array: array.number)
    ]
    waiting = sorted(
        (*stored.waiting, *(span for step in undone_steps for span in step.waiting)), key=_first
    )
    before = defaultdict[int, list[Attempt]](list)
    for attempt in stored.attempts:
        before[attempt.task] += [attempt] if attempt.array in intact else []
    steps = [
        RecoveryStep(
            campaign=campaign,
            arrays=tuple(_array(campaign, entry, at, first) for entry in group),
            attempts=tuple(
                attempt for entry in group for attempt in _attempts(campaign, entry, first)
            ),
            superseded=tuple(_superseded(before, alive)),
            no_longer=no_longer,
            waiting=parts,
            again=tuple(_again(group, first)),
        )
        for group in _in_groups(lost, most)
        for alive in [_alive(group, first)]
        for copied in [_copied(group, first) - lost_first]
        for no_longer, parts in [_without_tasks(waiting, alive.keys() | copied)]
    ]
    return (*undone_steps, *steps)


def _undone(array: Array, stored: StoredCampaign) -> RecoveryStep:
    """Return how an array that never was submitted is undone: its tasks wait as before."""
    of_array = [attempt for attempt in stored.attempts if attempt.array == array.number]
    returning = [
        attempt for attempt in of_array if not array.is_of_copies and not is_step(attempt.task)
    ]
    waiting = tuple(_waiting(returning, stored))
    return RecoveryStep(campaign=array.campaign, undone=(array.number,), waiting=waiting)


def _in_groups(lost: Iterable[LedgerArray], most: int) -> Iterator[list[LedgerArray]]:
    """Yield arrays in groups of so many tasks, or of one array that has more."""
    group: list[LedgerArray] = []
    tasks = 0
    for array in lost:
        if group and tasks + len(array.tasks) > most:
            yield group
            group, tasks = [], 0
        group.append(array)
        tasks += len(array.tasks)
    if group:
        yield group


def _alive(arrays: Iterable[LedgerArray], first: Mapping[int, int]) -> dict[int, int]:
    """Return the tasks of arrays, no copies, that wait no more, with their attempts there."""
    return {
        task: attempt
        for array in arrays
        if not array.is_of_copies
        for task, attempt in array.tasks
        if attempt == first[task]
    }


def _is_given_up(array: LedgerArray, first: Mapping[int, int]) -> bool:
    """Say whether an array is of no use any more: of what was never released some was sent since.

    So is one of which all was.
    """
    old = [attempt < first.get(task, 0) for task, attempt in array.tasks]
    return all(old) or (not array.job_id and any(old))


def _again(arrays: Iterable[LedgerArray], first: Mapping[int, int]) -> Iterator[WaitingTasks]:
    """Yield the tasks that go on after arrays which are given up."""
    for array in arrays:
        if array.is_of_copies or not _is_given_up(array, first):
            continue
        for task, attempt in array.tasks:
            if attempt == first[task] and not is_step(task):
                yield WaitingTasks(first=task, last=task, attempt=attempt + 1)


def _copied(arrays: Iterable[LedgerArray], first: Mapping[int, int]) -> Set[int]:
    """Return the tasks of which arrays have copies after the attempt that is no copy."""
    return {
        task
        for array in arrays
        if array.is_of_copies and not _is_given_up(array, first)
        for task, attempt in array.tasks
        if attempt >= first.get(task, 0)
    }


def _superseded(before: Mapping[int, list[Attempt]], alive: Mapping[int, int]) -> Iterator[Attempt]:
    """Yield the attempts that were waited for until later ones were known again."""
    for task, attempt in alive.items():
        for previous in before.get(task, ()):
            if previous.attempt < attempt:
                yield replace(previous, outcome=TaskOutcome.SITE_FAULT)


def _without_tasks(
    waiting: list[WaitingTasks], tasks: Iterable[int]
) -> tuple[tuple[WaitingTasks, ...], tuple[WaitingTasks, ...]]:
    """Take tasks out of what waits, by its first tasks; return what was there, and is instead."""
    these = sorted(task for task in tasks if not is_step(task))
    if not these:
        return (), ()
    begin = max(0, bisect_right(waiting, these[0], key=_first) - 1)
    end = bisect_right(waiting, these[-1], key=_first)
    before, after = waiting[begin:end], without(waiting[begin:end], {*these})
    waiting[begin:end] = after
    stays = {*before} & {*after}
    return (
        tuple(span for span in before if span not in stays),
        tuple(span for span in after if span not in stays),
    )


def _first(span: WaitingTasks) -> int:
    return span.first


def _waiting(attempts: Iterable[Attempt], stored: StoredCampaign) -> Iterable[WaitingTasks]:
    """Yield tasks as they waited before these attempts, which never were."""
    tried = defaultdict[int, list[AttemptOutcome]](list)
    for earlier in sorted(stored.earlier, key=lambda earlier: earlier.attempt):
        tried[earlier.task].append(earlier)
    for attempt in attempts:
        of_task = tried[attempt.task]
        yield WaitingTasks(
            first=attempt.task,
            last=attempt.task,
            attempt=attempt.attempt,
            avoid=avoided(of_task[-1], of_task[:-1], stored.clusters) if of_task else (),
            never=never(of_task, stored.clusters),
        )


def _first_alive(lost: Iterable[LedgerArray]) -> dict[int, int]:
    """Return the last attempt of each task that was no copy; copies may run beside it."""
    return {
        task: attempt for array in lost if not array.is_of_copies for task, attempt in array.tasks
    }


def without(waiting: Iterable[WaitingTasks], tasks: Set[int]) -> tuple[WaitingTasks, ...]:
    """Return what waits without some tasks."""
    these = sorted(tasks)
    return tuple(
        replace(span, first=part[0], last=part[-1])
        for span in waiting
        for part in _parts(span, these[bisect_left(these, span.first) :])
    )


def _parts(span: WaitingTasks, tasks: list[int]) -> Iterable[range]:
    begin = span.first
    for task in tasks:
        if begin <= task <= span.last:
            if begin < task:
                yield range(begin, task)
            begin = task + 1
    if begin <= span.last:
        yield range(begin, span.last + 1)


def _differs(array: Array, stored: StoredCampaign, ledger: "dict[int, LedgerArray]") -> bool:
    """Say whether an array that was begun is another one in the ledger, or not there at all."""
    if array.state is not ArrayState.INTENDED:
        return False
    entry = ledger.get(array.number)
    ours = tuple(
        (attempt.task, attempt.attempt)
        for attempt in stored.attempts
        if attempt.array == array.number
    )
    return not entry or (array.cluster, ours) != (entry.cluster, entry.tasks)


def _array(campaign: int, entry: LedgerArray, at: datetime, first: Mapping[int, int]) -> Array:
    """Return an array as it is from then on; one that is given up is looked for, and deleted."""
    is_given_up = _is_given_up(entry, first)
    sent = ArrayState.SUBMITTED if entry.job_id else ArrayState.INTENDED
    return Array(
        campaign=campaign,
        number=entry.number,
        cluster=entry.cluster,
        state=ArrayState.RELEASED if is_given_up else sent,
        size=len(entry.tasks),
        job_id=entry.job_id,
        intended_at=at,
        is_repeated=is_given_up,
        copies_beyond_s=0 if entry.is_of_copies else None,
    )


def _attempts(campaign: int, entry: LedgerArray, first: "dict[int, int]") -> Iterable[Attempt]:
    is_given_up = _is_given_up(entry, first)
    for index, (task, attempt) in enumerate(entry.tasks, start=1):
        is_alive = attempt >= first.get(task, 0) and not is_given_up
        yield Attempt(
            campaign=campaign,
            task=task,
            attempt=attempt,
            array=entry.number,
            place=index,
            outcome=TaskOutcome.PENDING if is_alive else TaskOutcome.SITE_FAULT,
        )
