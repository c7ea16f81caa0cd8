"""Find the recorded waits that a lack of slots caused.

Accounting records no holds, start times or dependencies. A task that waited through a whole minute
with enough free slots waited for another reason. The capacity is the largest number of slots ever
in use at once.
"""

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gridbridge.model.elastic.replay_outcome import RecordedReplayTask, ReplayExclusionReason, ReplayWorkload
from gridbridge.model.grid_engine_amounts import MINUTE_S


class ConstantSlotUsePeriod(NamedTuple):
    """Consecutive minutes with the same number of slots in use."""

    first: int
    last: int
    used: int


def drop_waits_unexplained_by_slots(workload: ReplayWorkload) -> ReplayWorkload:
    """Return the workload without waits that a lack of slots does not explain.

    A task with an unexplained wait counts as submitted at its start.
    """
    tasks, by_width = list(workload.tasks), defaultdict[int, list[int]](list)
    for index, task in enumerate(tasks):
        by_width[task.slots].append(index)
    stretches = tuple(_slot_usage_periods(tasks))
    peak = max((period.used for period in stretches), default=0)
    for slots, indices in by_width.items():
        free = [period for period in stretches if period.used <= peak - slots]
        lasts = [period.last for period in free]
        for index in indices:
            tasks[index] = _judge_task(tasks[index], free, lasts)
    count = sum(not task.is_explained for task in tasks)
    tasks.sort(key=lambda task: task.submitted_s)
    left_out = {**workload.left_out, **({ReplayExclusionReason.UNEXPLAINED: count} if count else {})}
    return replace(workload, tasks=tuple(tasks), left_out=left_out)


def _slot_usage_periods(tasks: Iterable[RecordedReplayTask]) -> Iterator[ConstantSlotUsePeriod]:
    """Yield the most slots in use: each minute with a change, and the periods between them."""
    changes = dict[float, int]()
    for task in tasks:
        start_s = task.submitted_s + task.waited_s
        changes[start_s] = changes.get(start_s, 0) + task.slots
        changes[start_s + task.run_s] = changes.get(start_s + task.run_s, 0) - task.slots
    moments = sorted(changes)
    level = most = 0  # slots in use now, and the most in this minute
    for moment, following in itertools.zip_longest(moments, moments[1:]):
        level += changes[moment]
        most = max(most, level)
        minute, last = (int(second // MINUTE_S) for second in (moment, moment if following is None else following))
        if following is None or last > minute:
            yield ConstantSlotUsePeriod(minute, minute, most)
            most = level
        if last > minute + 1:
            yield ConstantSlotUsePeriod(minute + 1, last - 1, level)


def _judge_task(
    task: RecordedReplayTask, free: Sequence[ConstantSlotUsePeriod], lasts: Sequence[int]
) -> RecordedReplayTask:
    start_s = task.submitted_s + task.waited_s
    first = int(-(-task.submitted_s // MINUTE_S))
    index = bisect_left(lasts, first)
    if index == len(free) or (max(first, free[index].first) + 1) * MINUTE_S > start_s:
        return task
    return replace(task, submitted_s=start_s, waited_s=0.0, is_explained=False)
