"""What the state file takes over from root's ledger, where it is older than that.

Somebody restored it. The ledger knows what was submitted since: those arrays are known again, their
tasks do not wait any more, and what was begun in their place is undone.
"""

from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import datetime

from gridbridge.model.campaigns.adoption import Adoption, Kept
from gridbridge.model.campaigns.campaign import (
    Array,
    ArrayState,
    Attempt,
    Noted,
    Outcome,
    Waiting,
)


def adopt(kept: Kept, noted: Iterable[Noted], refused: Array, at: datetime) -> Adoption:
    """Return what becomes of a campaign after the ledger refused an array of it.

    Of a task's attempts that were lost the last one is waited for; nobody saw how others ended.
    """
    ledger = {one.number: one for one in noted}
    undone = {one.number for one in kept.arrays if _differs(one, kept, ledger)} | {refused.number}
    lost = [
        one
        for one in ledger.values()
        if one.number in undone or one.number not in {each.number for each in kept.arrays}
    ]
    last = {task: attempt for one in lost for task, attempt in one.tasks}
    back = [one for one in kept.attempts if one.array in undone and one.task not in last]
    return Adoption(
        campaign=refused.campaign,
        undone=tuple(sorted(undone)),
        arrays=tuple(_array(refused.campaign, one, at) for one in lost),
        attempts=tuple(each for one in lost for each in _attempts(refused.campaign, one, last)),
        superseded=tuple(
            replace(one, outcome=Outcome.SITE_FAULT)
            for one in kept.attempts
            if one.array not in undone and one.task in last
        ),
        waiting=(
            *without(kept.waiting, last.keys()),
            *(Waiting(first=one.task, last=one.task, attempt=one.attempt) for one in back),
        ),
    )


def without(waiting: Iterable[Waiting], tasks: Set[int]) -> tuple[Waiting, ...]:
    """Return what waits without some tasks."""
    return tuple(
        replace(one, first=part[0], last=part[-1])
        for one in waiting
        for part in _parts(one, sorted(tasks))
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
    """Say whether an array that was begun is another one in the ledger."""
    there = ledger.get(array.number)
    if not there or array.state is not ArrayState.INTENDED:
        return False
    ours = tuple((one.task, one.attempt) for one in kept.attempts if one.array == array.number)
    return (array.cluster, ours) != (there.cluster, there.tasks)


def _array(campaign: int, noted: Noted, at: datetime) -> Array:
    return Array(
        campaign=campaign,
        number=noted.number,
        cluster=noted.cluster,
        state=ArrayState.SUBMITTED if noted.job_id else ArrayState.INTENDED,
        size=len(noted.tasks),
        job_id=noted.job_id,
        intended_at=at,
    )


def _attempts(campaign: int, noted: Noted, last: "dict[int, int]") -> Iterable[Attempt]:
    for place, (task, attempt) in enumerate(noted.tasks, start=1):
        is_last = last[task] == attempt
        yield Attempt(
            campaign=campaign,
            task=task,
            attempt=attempt,
            array=noted.number,
            place=place,
            outcome=Outcome.PENDING if is_last else Outcome.SITE_FAULT,
        )
