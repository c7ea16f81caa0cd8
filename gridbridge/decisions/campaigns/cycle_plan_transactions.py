"""Split a cycle's plan into short transactions of the state file."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from gridbridge.model.campaigns.campaign import TaskAttempt
from gridbridge.model.campaigns.cycle_plan import CampaignCyclePlan

ENDS_PER_TRANSACTION = 2000  # task ends stored in one transaction, which takes less than 0.1 s


def split_cycle_plan_by_transaction(
    plan: CampaignCyclePlan, most: int = ENDS_PER_TRANSACTION
) -> tuple[CampaignCyclePlan, ...]:
    """Split a plan's ends into transactions; the last transaction has all other acts.

    All attempts of a task and its retry are in the same transaction.
    """
    again = {(retry.campaign, retry.task): retry for retry in plan.again}
    *first, last = _in_groups(plan.ended, most)
    runs = [
        tuple(again[task] for task in dict.fromkeys(map(_task_of, group)) if task in again) for group in (*first, last)
    ]
    earlier = (CampaignCyclePlan(ended=group, again=these) for group, these in zip(first, runs, strict=False))
    return (*earlier, replace(plan, ended=last, again=runs[-1]))


def _in_groups(attempts: Iterable[TaskAttempt], most: int) -> Iterator[tuple[TaskAttempt, ...]]:
    """Yield groups of up to `most` attempts, more only of one task; the last may be empty."""
    group: list[TaskAttempt] = []
    for _, of_task in groupby(sorted(attempts, key=_task_of), key=_task_of):
        if len(group) >= most:
            yield tuple(group)
            group = []
        group += of_task
    yield tuple(group)


def _task_of(attempt: TaskAttempt) -> tuple[int, int]:
    return attempt.campaign, attempt.task
