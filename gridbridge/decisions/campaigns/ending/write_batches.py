"""In which portions a cycle's many ends are noted, so that no transaction is long."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from gridbridge.model.campaigns.campaign import Attempt
from gridbridge.model.campaigns.cycle_plan import CyclePlan

PORTION = 2000  # ends that are noted at once: less than a tenth of a second


def portions(plan: CyclePlan, most: int = PORTION) -> tuple[CyclePlan, ...]:
    """Return what is noted of a plan one after the other; all but ends is in the last portion.

    The attempts of a task stay together, and with them whether it runs again.
    """
    again = {(retry.campaign, retry.task): retry for retry in plan.again}
    *first, last = _in_groups(plan.ended, most)
    runs = [
        tuple(again[task] for task in dict.fromkeys(map(_task_of, group)) if task in again)
        for group in (*first, last)
    ]
    earlier = (
        CyclePlan(ended=group, again=these) for group, these in zip(first, runs, strict=False)
    )
    return (*earlier, replace(plan, ended=last, again=runs[-1]))


def _in_groups(attempts: Iterable[Attempt], most: int) -> Iterator[tuple[Attempt, ...]]:
    """Yield attempts in groups of so many, or a task's more; the last group may be empty."""
    group: list[Attempt] = []
    for _, of_task in groupby(sorted(attempts, key=_task_of), key=_task_of):
        if len(group) >= most:
            yield tuple(group)
            group = []
        group += of_task
    yield tuple(group)


def _task_of(attempt: Attempt) -> tuple[int, int]:
    return attempt.campaign, attempt.task
