"""Which waits are for slots: accounting tells of no hold, start time or dependency.

What the cluster had then is taken to be the most slots that ever ran tasks at once. A task that
waited through a whole minute in which it would have fitted waited for something else.
"""

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gridbridge.model.amounts import MINUTE_S
from gridbridge.model.elastic.replay_outcome import LeftOut, RecordedTask, Workload


class ConstantUsePeriod(NamedTuple):
    """Minutes in a row in which as many slots were in use, however many minutes these are."""

    first: int
    last: int
    used: int


def explained(workload: Workload) -> Workload:
    """Return it with the other waits left out: such a task comes when it started then."""
    tasks, by_width = list(workload.tasks), defaultdict[int, list[int]](list)
    for place, one in enumerate(tasks):
        by_width[one.slots].append(place)
    stretches = tuple(_most_used(tasks))
    peak = max((one.used for one in stretches), default=0)
    for slots, places in by_width.items():
        free = [one for one in stretches if one.used <= peak - slots]
        lasts = [one.last for one in free]
        for place in places:
            tasks[place] = _judged(tasks[place], free, lasts)
    count = sum(not one.is_explained for one in tasks)
    tasks.sort(key=lambda one: one.submitted_s)
    left_out = {**workload.left_out, **({LeftOut.UNEXPLAINED: count} if count else {})}
    return replace(workload, tasks=tuple(tasks), left_out=left_out)


def _most_used(tasks: Iterable[RecordedTask]) -> Iterator[ConstantUsePeriod]:
    """Give the most slots in use, minute by minute where that changed, else by stretches."""
    changes = dict[float, int]()
    for one in tasks:
        start_s = one.submitted_s + one.waited_s
        changes[start_s] = changes.get(start_s, 0) + one.slots
        changes[start_s + one.run_s] = changes.get(start_s + one.run_s, 0) - one.slots
    moments = sorted(changes)
    level = most = 0  # now, and in the minute of now
    for moment, following in itertools.zip_longest(moments, moments[1:]):
        level += changes[moment]
        most = max(most, level)
        minute, last = (
            int(one // MINUTE_S) for one in (moment, moment if following is None else following)
        )
        if following is None or last > minute:
            yield ConstantUsePeriod(minute, minute, most)
            most = level
        if last > minute + 1:
            yield ConstantUsePeriod(minute + 1, last - 1, level)


def _judged(
    task: RecordedTask, free: Sequence[ConstantUsePeriod], lasts: Sequence[int]
) -> RecordedTask:
    start_s = task.submitted_s + task.waited_s
    first = int(-(-task.submitted_s // MINUTE_S))
    place = bisect_left(lasts, first)
    if place == len(free) or (max(first, free[place].first) + 1) * MINUTE_S > start_s:
        return task
    return replace(task, submitted_s=start_s, waited_s=0.0, is_explained=False)
