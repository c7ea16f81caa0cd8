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


def lacking(arrays: Iterable[Array], noted: Iterable[LedgerArray]) -> bool:
    """Say whether root's ledger has an array of a campaign that the state file does not have."""
    there = {one.number for one in arrays}
    return any(one.number not in there for one in noted)


def adopt(
    campaign: int,
    kept: StoredCampaign,
    noted: Iterable[LedgerArray],
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
    ledger = {one.number: one for one in noted}
    undone = [one for one in kept.arrays if _differs(one, kept, ledger)]
    is_new = refused and refused.number not in {one.number for one in undone}
    undone += [refused] if refused and is_new else []
    there = {one.number for one in kept.arrays} - {one.number for one in undone}
    lost = [ledger[number] for number in sorted(ledger.keys() - there, reverse=True)]
    first = _first_alive(ledger.values())
    lost_first = _alive(lost, first).keys()
    gone = [_undone(one, kept) for one in sorted(undone, key=lambda one: one.number)]
    waiting = sorted((*kept.waiting, *(each for one in gone for each in one.waiting)), key=_first)
    before = defaultdict[int, list[Attempt]](list)
    for each in kept.attempts:
        before[each.task] += [each] if each.array in there else []
    known = [
        RecoveryStep(
            campaign=campaign,
            arrays=tuple(_array(campaign, one, at, first) for one in some),
            attempts=tuple(each for one in some for each in _attempts(campaign, one, first)),
            superseded=tuple(_superseded(before, alive)),
            no_longer=no_longer,
            waiting=parts,
            again=tuple(_again(some, first)),
        )
        for some in _in_groups(lost, most)
        for alive in [_alive(some, first)]
        for copied in [_copied(some, first) - lost_first]
        for no_longer, parts in [_taken(waiting, alive.keys() | copied)]
    ]
    return (*gone, *known)


def _undone(array: Array, kept: StoredCampaign) -> RecoveryStep:
    """Return how an array that never was submitted is undone: its tasks wait as before."""
    of_array = [one for one in kept.attempts if one.array == array.number]
    back = [one for one in of_array if not array.is_of_copies and not is_step(one.task)]
    waiting = tuple(_waiting(back, kept))
    return RecoveryStep(campaign=array.campaign, undone=(array.number,), waiting=waiting)


def _in_groups(lost: Iterable[LedgerArray], most: int) -> Iterator[list[LedgerArray]]:
    """Yield arrays in groups of so many tasks, or of one array that has more."""
    some: list[LedgerArray] = []
    tasks = 0
    for one in lost:
        if some and tasks + len(one.tasks) > most:
            yield some
            some, tasks = [], 0
        some.append(one)
        tasks += len(one.tasks)
    if some:
        yield some


def _alive(arrays: Iterable[LedgerArray], first: Mapping[int, int]) -> dict[int, int]:
    """Return the tasks of arrays, no copies, that wait no more, with their attempts there."""
    return {
        task: attempt
        for one in arrays
        if not one.is_of_copies
        for task, attempt in one.tasks
        if attempt == first[task]
    }


def _is_given_up(one: LedgerArray, first: Mapping[int, int]) -> bool:
    """Say whether an array is of no use any more: of what was never released some was sent since.

    So is one of which all was.
    """
    old = [attempt < first.get(task, 0) for task, attempt in one.tasks]
    return all(old) or (not one.job_id and any(old))


def _again(arrays: Iterable[LedgerArray], first: Mapping[int, int]) -> Iterator[WaitingTasks]:
    """Yield the tasks that go on after arrays which are given up."""
    for one in arrays:
        if one.is_of_copies or not _is_given_up(one, first):
            continue
        for task, attempt in one.tasks:
            if attempt == first[task] and not is_step(task):
                yield WaitingTasks(first=task, last=task, attempt=attempt + 1)


def _copied(arrays: Iterable[LedgerArray], first: Mapping[int, int]) -> Set[int]:
    """Return the tasks of which arrays have copies after the attempt that is no copy."""
    return {
        task
        for one in arrays
        if one.is_of_copies and not _is_given_up(one, first)
        for task, attempt in one.tasks
        if attempt >= first.get(task, 0)
    }


def _superseded(before: Mapping[int, list[Attempt]], alive: Mapping[int, int]) -> Iterator[Attempt]:
    """Yield the attempts that were waited for until later ones were known again."""
    for task, attempt in alive.items():
        for one in before.get(task, ()):
            if one.attempt < attempt:
                yield replace(one, outcome=TaskOutcome.SITE_FAULT)


def _taken(
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
        tuple(one for one in before if one not in stays),
        tuple(one for one in after if one not in stays),
    )


def _first(one: WaitingTasks) -> int:
    return one.first


def _waiting(back: Iterable[Attempt], kept: StoredCampaign) -> Iterable[WaitingTasks]:
    """Yield tasks as they waited before these attempts, which never were."""
    tried = defaultdict[int, list[AttemptOutcome]](list)
    for each in sorted(kept.earlier, key=lambda each: each.attempt):
        tried[each.task].append(each)
    for one in back:
        of_task = tried[one.task]
        yield WaitingTasks(
            first=one.task,
            last=one.task,
            attempt=one.attempt,
            avoid=avoided(of_task[-1], of_task[:-1], kept.clusters) if of_task else (),
            never=never(of_task, kept.clusters),
        )


def _first_alive(lost: Iterable[LedgerArray]) -> dict[int, int]:
    """Return the last attempt of each task that was no copy; copies may run beside it."""
    return {task: attempt for one in lost if not one.is_of_copies for task, attempt in one.tasks}


def without(waiting: Iterable[WaitingTasks], tasks: Set[int]) -> tuple[WaitingTasks, ...]:
    """Return what waits without some tasks."""
    these = sorted(tasks)
    return tuple(
        replace(one, first=part[0], last=part[-1])
        for one in waiting
        for part in _parts(one, these[bisect_left(these, one.first) :])
    )


def _parts(one: WaitingTasks, tasks: list[int]) -> Iterable[range]:
    begin = one.first
    for task in tasks:
        if begin <= task <= one.last:
            if begin < task:
                yield range(begin, task)
            begin = task + 1
    if begin <= one.last:
        yield range(begin, one.last + 1)


def _differs(array: Array, kept: StoredCampaign, ledger: "dict[int, LedgerArray]") -> bool:
    """Say whether an array that was begun is another one in the ledger, or not there at all."""
    if array.state is not ArrayState.INTENDED:
        return False
    there = ledger.get(array.number)
    ours = tuple((one.task, one.attempt) for one in kept.attempts if one.array == array.number)
    return not there or (array.cluster, ours) != (there.cluster, there.tasks)


def _array(campaign: int, noted: LedgerArray, at: datetime, first: Mapping[int, int]) -> Array:
    """Return an array as it is from then on; one that is given up is looked for, and deleted."""
    is_given_up = _is_given_up(noted, first)
    sent = ArrayState.SUBMITTED if noted.job_id else ArrayState.INTENDED
    return Array(
        campaign=campaign,
        number=noted.number,
        cluster=noted.cluster,
        state=ArrayState.RELEASED if is_given_up else sent,
        size=len(noted.tasks),
        job_id=noted.job_id,
        intended_at=at,
        is_repeated=is_given_up,
        copies_beyond_s=0 if noted.is_of_copies else None,
    )


def _attempts(campaign: int, noted: LedgerArray, first: "dict[int, int]") -> Iterable[Attempt]:
    is_given_up = _is_given_up(noted, first)
    for place, (task, attempt) in enumerate(noted.tasks, start=1):
        is_alive = attempt >= first.get(task, 0) and not is_given_up
        yield Attempt(
            campaign=campaign,
            task=task,
            attempt=attempt,
            array=noted.number,
            place=place,
            outcome=TaskOutcome.PENDING if is_alive else TaskOutcome.SITE_FAULT,
        )
