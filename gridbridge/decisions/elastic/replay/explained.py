"""Which waits are for slots: accounting tells of no hold, start time or dependency.

What the cluster had then is taken to be the most slots that ever ran tasks at once. A task that
waited through a whole minute in which it would have fitted waited for something else.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import replace

from gridbridge.model.amounts import MINUTE_S
from gridbridge.model.elastic.replayed import LeftOut, Ran, Workload


def explained(workload: Workload) -> Workload:
    """Return it with the other waits left out: such a task comes when it started then."""
    used = _most_used(workload.tasks)
    peak = max(used.values(), default=0)
    free = {slots: _minutes(used, peak - slots) for slots in {one.slots for one in workload.tasks}}
    tasks = [_judged(one, free[one.slots]) for one in workload.tasks]
    count = sum(not one.is_explained for one in tasks)
    tasks.sort(key=lambda one: one.submitted_s)
    left_out = {**workload.left_out, **({LeftOut.UNEXPLAINED: count} if count else {})}
    return replace(workload, tasks=tuple(tasks), left_out=left_out)


def _most_used(tasks: Iterable[Ran]) -> dict[int, int]:
    """Return the most slots in use in each minute in which that changed, and where it held on."""
    changes = dict[float, int]()
    for one in tasks:
        start_s = one.submitted_s + one.waited_s
        changes[start_s] = changes.get(start_s, 0) + one.slots
        changes[start_s + one.run_s] = changes.get(start_s + one.run_s, 0) - one.slots
    found, level = dict[int, int](), 0
    moments = sorted(changes)
    for moment, following in itertools.zip_longest(moments, moments[1:]):
        level += changes[moment]
        last = int((moment if following is None else following) // MINUTE_S)
        for minute in range(int(moment // MINUTE_S), last + 1):
            found[minute] = max(found.get(minute, 0), level)
    return found


def _minutes(used: dict[int, int], most: int) -> list[int]:
    """Return the minutes in which no more than so many slots were in use, in their order."""
    return sorted(minute for minute, slots in used.items() if slots <= most)


def _judged(task: Ran, free: list[int]) -> Ran:
    start_s = task.submitted_s + task.waited_s
    first = int(-(-task.submitted_s // MINUTE_S))
    place = bisect_left(free, first)
    if place == len(free) or (free[place] + 1) * MINUTE_S > start_s:
        return task
    return replace(task, submitted_s=start_s, waited_s=0.0, is_explained=False)
