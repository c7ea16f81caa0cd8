"""Best-effort queues of a cell: blocks of slots, each preempted as a whole.

With blocks of b slots, (i - 1) * b + 1 used slots of the host's local queue suspend block i.
So `used + slots of running blocks <= slots of the host`. A local queue counts only its own jobs.
On a host with several local queues, one job of any local queue suspends all blocks.
"""

import re
from collections import Counter
from collections.abc import Mapping

from gridbridge.model.fixed_paths import METHODS
from gridbridge.model.qconf_attributes import (
    QconfSettings,
    is_besteffort_queue,
    is_transfer_queue,
    parse_qconf_values_by_host,
    parse_qconf_words,
)
from gridbridge.model.site.setup_findings_and_edits import BestEffortCellFacts

MOST = 8  # default number of best-effort queues: each queue costs scheduler time
NAME = re.compile(r"gb-be([1-9][0-9]*)")
PREEMPT = f"{METHODS}/preempt"
HOSTLIST = "hostlist"


def non_gridbridge_queue_names(cell: BestEffortCellFacts) -> tuple[str, ...]:
    """Return a cell's queues except transfer queues and best-effort queues."""
    return tuple(
        name
        for name, queue in cell.queues.items()
        if not is_transfer_queue(queue) and not is_own_besteffort_queue(cell, name)
    )


def is_own_besteffort_queue(cell: BestEffortCellFacts, name: str) -> bool:
    """Say whether a queue is gridbridge's best-effort queue, by name and trait.

    A queue that lost gb_besteffort takes any user's jobs and kills them. This queue is repaired or
    removed, and never counts as a local queue.
    """
    queue = cell.queues.get(name, {})
    does = queue.get("suspend_method", "").startswith(PREEMPT)
    return bool(NAME.fullmatch(name)) and (does or is_besteffort_queue(queue))


def foreign_queues_named_besteffort(cell: BestEffortCellFacts) -> tuple[str, ...]:
    """Return queues that have only the name of a best-effort queue."""
    return tuple(name for name in cell.queues if NAME.fullmatch(name) and not is_own_besteffort_queue(cell, name))


def own_besteffort_queues(cell: BestEffortCellFacts) -> tuple[str, ...]:
    """Return the existing best-effort queues of a cell, sorted by number."""
    names = (name for name in cell.queues if is_own_besteffort_queue(cell, name))
    return tuple(sorted(names, key=lambda name: int(name.removeprefix("gb-be"))))


def choose_besteffort_model_queue(cell: BestEffortCellFacts, like: str | None) -> str:
    """Return the local queue whose hosts and access lists are copied, or empty.

    Order: the queue `like`, the model of existing best-effort queues, the queue with most slots.
    """
    local = non_gridbridge_queue_names(cell)
    if like:
        return like if like in local else ""
    hosts = [parse_qconf_words(cell.queues[name].get(HOSTLIST, "")) for name in own_besteffort_queues(cell)[:1]]
    same = [name for name in local if [parse_qconf_words(cell.queues[name].get(HOSTLIST, ""))] == hosts]
    by_size = sorted(same or local, key=lambda name: (-sum(cell.slots.get(name, {}).values()), name))
    return next(iter(by_size), "")


class BestEffortQueueLayout:
    """The best-effort queues of a cell: slots by host, thresholds of preemption."""

    def __init__(self, cell: BestEffortCellFacts, model: str, most: int | None) -> None:
        self.slots = cell.slots.get(model, {})
        self._shared = _shared(cell, frozenset(self.slots))
        largest = max(self.slots.values(), default=0)
        numbers = [int(name.removeprefix("gb-be")) for name in own_besteffort_queues(cell)]
        present = max(cell.slots.get("gb-be1", {}).values(), default=0)
        is_kept = present and not most and largest <= present * max(MOST, *numbers, 0)
        self.size = present if is_kept else max(1, -(-largest // (most or MOST)))
        self.count = max(-(-largest // self.size), *numbers, 0)

    def names(self) -> tuple[str, ...]:
        """Return the names of the best-effort queues."""
        return tuple(f"gb-be{number}" for number in range(1, self.count + 1))

    def slots_of(self, number: int) -> dict[str, int]:
        """Return the slots of the best-effort queue `number` on each host."""
        before = (number - 1) * self.size
        return {host: min(self.size, max(0, n - before)) for host, n in self.slots.items()}

    def subordinates(self, queue: str) -> dict[str, int]:
        """Return how many used slots of a local queue suspend each best-effort queue."""
        exact = range(1, self.count * self.size + 1, self.size)
        used = (1 for _ in exact) if queue in self._shared else exact
        return dict(zip(self.names(), used, strict=True))


def local_queues_preempting_tasks(cell: BestEffortCellFacts, model: str) -> tuple[str, ...]:
    """Return local queues on the model queue's hosts: their jobs preempt tasks."""
    hosts = cell.slots.get(model, {}).keys()
    return tuple(name for name in non_gridbridge_queue_names(cell) if hosts & cell.slots.get(name, {}).keys())


def _shared(cell: BestEffortCellFacts, hosts: frozenset[str]) -> frozenset[str]:
    """Return local queues that are not the only local queue on one of `hosts`."""
    local = non_gridbridge_queue_names(cell)
    on = Counter(host for name in local for host in cell.slots.get(name, {}))
    return frozenset(name for name in local if any(on[host] > 1 for host in hosts & cell.slots.get(name, {}).keys()))


def format_queue_slots_by_host(slots: Mapping[str, int]) -> str:
    """Return slots in queue_conf(5) format: the most common number, then exceptions."""
    usual = max(Counter(slots.values()).items(), key=lambda pair: (pair[1], -pair[0]), default=(0, 0))
    of_hosts = (f"[{host}={n}]" for host, n in sorted(slots.items()) if n != usual[0])
    return ",".join((str(usual[0]), *of_hosts))


def subordinate_lists_by_host(queue: QconfSettings) -> dict[str, str]:
    """Return a queue's subordinate_list by host or host group; '': the default."""
    values = parse_qconf_values_by_host(queue.get("subordinate_list", "NONE").replace(" ", ""))
    return {"": values.usual, **dict(values.others)}
