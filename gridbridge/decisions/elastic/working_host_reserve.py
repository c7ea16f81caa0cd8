"""Count jobs of a standard size that hosts in use could start, as the squeeze reserve."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor, inf

from gridbridge.decisions.elastic.demand.task_requirements import parse_amount_or_zero
from gridbridge.decisions.elastic.demand.tasks_that_fit_on_host import FreeHostCapacity
from gridbridge.model.elastic.balance_sections import SqueezeSection
from gridbridge.model.elastic.grid_engine_cell_snapshot import TaskResourceRequests

NO_ROOM = FreeHostCapacity(parts=())


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAcceptingTasks:
    """A host that accepts tasks, with its free slots and running tasks."""

    name: str
    free: int  # free slots
    amounts: tuple[tuple[str, float], ...]  # free amounts of consumables
    tasks: tuple[int, ...]  # slots of each running task
    movable: tuple[TaskResourceRequests, ...] = ()  # requests of the reschedulable tasks
    room: FreeHostCapacity = NO_ROOM
    is_promised: bool = False  # slots of the host are reserved


class StartableStandardRequestCount:
    """The number of standard requests that could start on a set of hosts."""

    def __init__(self, squeeze: SqueezeSection, hosts: Iterable[HostAcceptingTasks] = ()) -> None:
        self.hosts = self.requests = 0
        self._squeeze = squeeze
        self._each: dict[int, int] = {}  # number of hosts by startable requests
        for host in hosts:
            self.add(host)

    def add(self, host: HostAcceptingTasks) -> None:
        """Add a host."""
        self._count(count_startable_standard_requests(host, self._squeeze), 1)

    def spares(self, host: HostAcceptingTasks, factor: float) -> bool:
        """Remove a host if all other hosts keep enough reserve; return True if removed."""
        requests = count_startable_standard_requests(host, self._squeeze)
        self._count(requests, -1)
        is_spared = self.hosts > 0 and self.is_enough(factor)
        if not is_spared:
            self._count(requests, 1)
        return is_spared

    def _count(self, requests: int, hosts: int) -> None:
        self.hosts += hosts
        self.requests += requests * hosts
        self._each[requests] = self._each.get(requests, 0) + hosts

    def is_enough(self, factor: float) -> bool:
        """Say whether the hosts have the reserve, rounded down as hsqueeze does.

        The reserve is counted on all hosts together, unless each host must have it.
        """
        if self._squeeze.on_each:
            return not any(count for requests, count in self._each.items() if requests < floor(factor))
        return self.requests >= floor(factor * self.hosts)


def count_startable_standard_requests(host: HostAcceptingTasks, squeeze: SqueezeSection) -> int:
    """Return how many standard requests could start on a host."""
    most: float = host.free // squeeze.standard_slots
    amounts = dict(host.amounts)
    for name, text in squeeze.standard_request.items():
        amount = parse_amount_or_zero(text)
        if amount > 0:
            most = min(most, amounts.get(name, inf) // amount)
    return max(0, int(most))
