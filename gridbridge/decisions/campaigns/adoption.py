"""What the state file takes over from root's ledger, where it is older than that.

Somebody restored it. The ledger knows what was submitted since: those arrays are known again, their
tasks do not wait any more, and what was begun in their place is undone.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.campaigns.failures.retries import avoided, never
from gridbridge.model.campaigns.adoption import Adoption, Kept
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    Noted,
    Outcome,
    Waiting,
)
from gridbridge.model.campaigns.plan import Tried
from gridbridge.model.campaigns.steps import is_step


def adopt(kept: Kept, noted: Iterable[Noted], refused: Array, at: datetime) -> Adoption:
    """Return what becomes of a campaign after the ledger refused an array of it.

    Of a task's attempts that were lost the last one is waited for, and the copies after it; nobody
    saw how others ended.
    """
    ledger = {one.number: one for one in noted}
    undone = {one.number for one in kept.arrays if _differs(one, kept, ledger)} | {refused.number}
    of_copies = {one.number for one in (*kept.arrays, refused) if one.is_of_copies}
    lost = [
        one
        for one in ledger.values()
        if one.number in undone or one.number not in {each.number for each in kept.arrays}
    ]
    first = _first_alive(lost)
    sent = {task for one in lost for task, _ in one.tasks}
    back = [
        one
        for one in kept.attempts
        if one.array in undone - of_copies and one.task not in sent and not is_step(one.task)
    ]
    return Adoption(
        campaign=refused.campaign,
        undone=tuple(sorted(undone)),
        arrays=tuple(_array(refused.campaign, one, at) for one in lost),
        attempts=tuple(each for one in lost for each in _attempts(refused.campaign, one, first)),
        superseded=tuple(
            replace(one, outcome=Outcome.SITE_FAULT)
            for one in kept.attempts
            if one.array not in undone and one.attempt < first.get(one.task, 0)
        ),
        waiting=(
            *without(kept.waiting, sent),
            *_waiting(back, kept),
        ),
    )


def _waiting(back: Iterable[Attempt], kept: Kept) -> Iterable[Waiting]:
    """Yield tasks as they waited before these attempts, which never were."""
    tried = defaultdict[int, list[Tried]](list)
    for each in sorted(kept.earlier, key=lambda each: each.attempt):
        tried[each.task].append(each)
    for one in back:
        of_task = tried[one.task]
        yield Waiting(
            first=one.task,
            last=one.task,
            attempt=one.attempt,
            avoid=avoided(of_task[-1], of_task[:-1], kept.clusters) if of_task else (),
            never=never(of_task, kept.clusters),
        )


def _first_alive(lost: Iterable[Noted]) -> dict[int, int]:
    """Return the last attempt of each task that was no copy; copies may run beside it."""
    return {task: attempt for one in lost if not one.is_of_copies for task, attempt in one.tasks}


def without(waiting: Iterable[Waiting], tasks: Set[int]) -> tuple[Waiting, ...]:
    """Return what waits without some tasks."""
    these = sorted(tasks)
    return tuple(
        replace(one, first=part[0], last=part[-1])
        for one in waiting
        for part in _parts(one, these[bisect_left(these, one.first) :])
    )


def _parts(one: Waiting, tasks: list[int]) -> Iterable[range]:
    begin = one.first
    for task in tasks:
        if begin <= task <= one.last:
            if begin < task:
                yield range(begin, task)
            begin = task + 1
    if begin <= one.last:
        yield range(begin, one.last + 1)


def _differs(array: Array, kept: Kept, ledger: "dict[int, Noted]") -> bool:
    """Say whether an array that was begun is another one in the ledger, or not there at all."""
    if array.state is not ArrayState.INTENDED:
        return False
    there = ledger.get(array.number)
    ours = tuple((one.task, one.attempt) for one in kept.attempts if one.array == array.number)
    return not there or (array.cluster, ours) != (there.cluster, there.tasks)


def _array(campaign: int, noted: Noted, at: datetime) -> Array:
    return Array(
        campaign=campaign,
        number=noted.number,
        cluster=noted.cluster,
        state=ArrayState.SUBMITTED if noted.job_id else ArrayState.INTENDED,
        size=len(noted.tasks),
        job_id=noted.job_id,
        intended_at=at,
        copies_beyond_s=0 if noted.is_of_copies else None,
    )


def _attempts(campaign: int, noted: Noted, first: "dict[int, int]") -> Iterable[Attempt]:
    for place, (task, attempt) in enumerate(noted.tasks, start=1):
        is_alive = attempt >= first.get(task, 0)
        yield Attempt(
            campaign=campaign,
            task=task,
            attempt=attempt,
            array=noted.number,
            place=place,
            outcome=Outcome.PENDING if is_alive else Outcome.SITE_FAULT,
        )
