"""Estimate when waiting tasks would finish without new nodes.

A remote cluster may start waiting tasks sooner, through a transfer queue.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil

from gridbridge.decisions.elastic.balancer_node_and_job_counts import elapsed_s
from gridbridge.decisions.elastic.demand.tasks_that_fit_on_host import (
    CellPlacementRules,
    FreeHostCapacity,
    count_task_pieces_fitting_host,
)
from gridbridge.decisions.elastic.demand.waiting_tasks_as_demand import StartableTasksOfEqualRequests
from gridbridge.model.elastic.grid_engine_cell_snapshot import RunningTaskGroup

SCHEDULER_S = 15.0  # default scheduling interval of Grid Engine (sched_conf(5))


Runtimes = Mapping[tuple[str, str], float]  # mean s, by owner and job name


def waiting_tasks_slot_seconds(
    pending_shapes: Iterable[StartableTasksOfEqualRequests], runtimes: Runtimes
) -> float | None:
    """Return the slot-seconds that waiting tasks need; None if a run time is unknown."""
    total = 0.0
    for pending_shape in pending_shapes:
        task_slots = pending_shape.need.all_slots
        for owner, name, tasks in pending_shape.kinds or (("", "", pending_shape.tasks),):
            if (owner, name) not in runtimes:
                return None
            total += tasks * task_slots * runtimes[owner, name]
    return total


def running_tasks_slot_seconds_left(
    begun: Iterable[RunningTaskGroup], runtimes: Runtimes, now: datetime
) -> float | None:
    """Return the slot-seconds that running tasks still need; None if a run time is unknown.

    A task beyond its usual run time is expected to run on for as long as its excess so far.
    """
    total = 0.0
    for tasks in begun:
        if (tasks.owner, tasks.name) not in runtimes:
            return None
        ran_s = elapsed_s(tasks.since, now) if tasks.since else 0.0
        total += tasks.slots * abs(runtimes[tasks.owner, tasks.name] - ran_s)
    return total


def first_tasks_for_slots(
    pending_shapes: Iterable[tuple[StartableTasksOfEqualRequests, int]], slots: float
) -> list[tuple[StartableTasksOfEqualRequests, int]]:
    """Return the first waiting tasks that together fill the given number of slots."""
    first = list[tuple[StartableTasksOfEqualRequests, int]]()
    for pending_shape, tasks in pending_shapes:
        fitting = min(tasks, ceil(slots / _slots_per_task(pending_shape)))
        if fitting > 0:
            first.append((pending_shape, fitting))
            slots -= fitting * _slots_per_task(pending_shape)
    return first


class TransferQueueSlotsAndDelays:
    """The free slots of transfer queues, and how soon each queue starts a task."""

    def __init__(
        self,
        waits_s: Mapping[str, float],
        free: Mapping[str, int],
        rooms: Mapping[str, tuple[FreeHostCapacity, ...]],
        placement: CellPlacementRules,
    ) -> None:
        self._waits_s = waits_s
        self._free = dict(free)  # by queue with known free slots
        self._rooms = rooms  # the queues' full capacity
        self._ground = placement

    def sooner(
        self, pending_shape: StartableTasksOfEqualRequests, boot_s: float, late_s: float
    ) -> tuple[str, float] | None:
        """Return the transfer queue that starts a task first, if sooner than a new node boots.

        `late_s` is the time since the task could first have caused a new node. A queue that
        should have started the task within that time is not chosen.
        """
        task_slots = _slots_per_task(pending_shape)
        open_to = {
            name: wait_s
            for name, wait_s in self._waits_s.items()
            if late_s <= wait_s + 2 * SCHEDULER_S
            and self._free.get(name, task_slots) >= task_slots
            and self._takes(pending_shape, name)
        }
        if not open_to:
            return None
        name = min(open_to, key=lambda queue: (open_to[queue], queue))
        return (name, open_to[name]) if open_to[name] < boot_s else None

    def _takes(self, pending_shape: StartableTasksOfEqualRequests, queue: str) -> bool:
        """Say whether a transfer queue would accept such a task."""
        need, rooms = pending_shape.need, self._rooms.get(queue, ())
        return sum(count_task_pieces_fitting_host(need, room, self._ground) for room in rooms) >= need.pieces

    def take(self, queue: str, pending_shape: StartableTasksOfEqualRequests, tasks: int) -> int:
        """Reserve the slots of tasks that a transfer queue can start; return how many."""
        if queue not in self._free:
            return tasks
        started = min(tasks, self._free[queue] // _slots_per_task(pending_shape))
        self._free[queue] -= started * _slots_per_task(pending_shape)
        return started


def _slots_per_task(pending_shape: StartableTasksOfEqualRequests) -> int:
    return max(1, pending_shape.need.all_slots)
