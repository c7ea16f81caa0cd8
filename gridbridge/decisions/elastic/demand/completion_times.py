"""Estimate when waiting tasks would be done without new nodes.

A remote cluster may start them sooner through a transfer queue.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil

from gridbridge.decisions.elastic.cell_counts import elapsed_s
from gridbridge.decisions.elastic.demand.host_capacity import (
    CellPlacementRules,
    FreeHostCapacity,
    count_pieces_that_fit_host,
)
from gridbridge.decisions.elastic.demand.pending_demand import PendingTaskShape
from gridbridge.model.elastic.cell import RunningTaskGroup

SCHEDULER_S = 15.0  # how often Grid Engine looks for places, by default (sched_conf(5))


Runtimes = Mapping[tuple[str, str], float]  # s that jobs of an owner and name usually take


def estimate_waiting_slot_s(claims: Iterable[PendingTaskShape], runtimes: Runtimes) -> float | None:
    """Return the slot-seconds that waiting tasks need; None if a run time is unknown."""
    total = 0.0
    for claim in claims:
        task_slots = claim.need.all_slots
        for owner, name, tasks in claim.kinds or (("", "", claim.tasks),):
            if (owner, name) not in runtimes:
                return None
            total += tasks * task_slots * runtimes[owner, name]
    return total


def estimate_running_slot_s(
    begun: Iterable[RunningTaskGroup], runtimes: Runtimes, now: datetime
) -> float | None:
    """Return the slot-seconds that running tasks still need; None if one is unknown.

    A task that exceeds its usual run time is expected to run on for as long as it has exceeded
    it.
    """
    total = 0.0
    for tasks in begun:
        if (tasks.owner, tasks.name) not in runtimes:
            return None
        ran_s = elapsed_s(tasks.since, now) if tasks.since else 0.0
        total += tasks.slots * abs(runtimes[tasks.owner, tasks.name] - ran_s)
    return total


def first_tasks_for_slots(
    claims: Iterable[tuple[PendingTaskShape, int]], slots: float
) -> list[tuple[PendingTaskShape, int]]:
    """Return the first waiting tasks that together fill the given number of slots."""
    first = list[tuple[PendingTaskShape, int]]()
    for claim, tasks in claims:
        fitting = min(tasks, ceil(slots / _slots_per_task(claim)))
        if fitting > 0:
            first.append((claim, fitting))
            slots -= fitting * _slots_per_task(claim)
    return first


class TransferQueueCapacity:
    """The free slots of transfer queues, and how soon each queue starts a task."""

    def __init__(
        self,
        waits_s: Mapping[str, float],
        free: Mapping[str, int],
        rooms: Mapping[str, tuple[FreeHostCapacity, ...]],
        ground: CellPlacementRules,
    ) -> None:
        self._waits_s = waits_s
        self._free = dict(free)  # of those that tell
        self._rooms = rooms  # as if nothing ran in the queues
        self._ground = ground

    def sooner(
        self, claim: PendingTaskShape, boot_s: float, late_s: float
    ) -> tuple[str, float] | None:
        """Return the transfer queue that starts a task first, if before a new node boots.

        `late_s` is the time since the task could first have caused a new node. A queue that
        should have started the task within that time is not chosen.
        """
        task_slots = _slots_per_task(claim)
        open_to = {
            name: wait_s
            for name, wait_s in self._waits_s.items()
            if late_s <= wait_s + 2 * SCHEDULER_S
            and self._free.get(name, task_slots) >= task_slots
            and self._takes(claim, name)
        }
        if not open_to:
            return None
        name = min(open_to, key=lambda queue: (open_to[queue], queue))
        return (name, open_to[name]) if open_to[name] < boot_s else None

    def _takes(self, claim: PendingTaskShape, queue: str) -> bool:
        """Say whether a transfer queue would accept such a task."""
        need, rooms = claim.need, self._rooms.get(queue, ())
        return (
            sum(count_pieces_that_fit_host(need, room, self._ground) for room in rooms)
            >= need.pieces
        )

    def take(self, queue: str, claim: PendingTaskShape, tasks: int) -> int:
        """Reserve the slots of tasks that a transfer queue can start; return how many."""
        if queue not in self._free:
            return tasks
        started = min(tasks, self._free[queue] // _slots_per_task(claim))
        self._free[queue] -= started * _slots_per_task(claim)
        return started


def _slots_per_task(claim: PendingTaskShape) -> int:
    return max(1, claim.need.all_slots)
