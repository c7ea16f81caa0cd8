"""The simulated nodes of a replay, and the queue of waiting tasks."""

import heapq
from bisect import insort
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gridbridge.model.elastic import grid_engine_cell
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.elastic.replay_tasks_and_results import RecordedReplayTask, ReplayNodePropertiesAndPrices
from gridbridge.model.job_and_queue_states import JobState, JobStateFact, QueueInstanceState

QUEUE, POOL, ENVIRONMENT = "all.q", "replayed", "any"
OPEN, WAITS = QueueInstanceState(), JobState((JobStateFact.WAITING,), "qw")


def replay_seconds_to_datetime(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(slots=True, kw_only=True)
class SimulatedNode:
    """A simulated node that is on; values for the balancer are cached."""

    name: str
    free: int
    asked_s: float
    ready_s: float
    is_ready: bool = False
    idle_s: float | None = None  # time at which the node became idle; None: busy
    running: list[int] = field(default_factory=list)  # slots of each running task on the node
    begun: list[grid_engine_cell.RunningTaskGroup] = field(
        default_factory=list
    )  # running tasks by owner, if the policy needs owners
    node: ElasticNode | None = None
    instance: grid_engine_cell.CellQueueInstance | None = None

    def drop_cached_values(self) -> None:
        self.node = self.instance = None

    def as_node(self) -> ElasticNode:
        if self.node is None:
            self.node = ElasticNode(
                name=self.name,
                state=ElasticNodeState.READY if self.is_ready else ElasticNodeState.BOOTING,
                up_since=replay_seconds_to_datetime(self.asked_s),
                since=replay_seconds_to_datetime(self.ready_s if self.is_ready else self.asked_s),
                idle_since=None if self.idle_s is None else replay_seconds_to_datetime(self.idle_s),
                pool=POOL,
            )
        return self.node

    def as_queue_instance(self, slots: int) -> grid_engine_cell.CellQueueInstance:
        """Return the queue instance of the node; `slots` is the number of all slots."""
        if self.instance is None:
            self.instance = grid_engine_cell.CellQueueInstance(
                queue=QUEUE,
                host=self.name,
                used=slots - self.free,
                reserved=0,
                total=slots,
                state=OPEN,
                running=tuple(self.running),
                begun=tuple(self.begun),
            )
        return self.instance


class SimulatedNodes:
    """All simulated nodes that are on, in the order of their creation."""

    def __init__(self, terms: ReplayNodePropertiesAndPrices) -> None:
        self.terms = terms
        self.all = dict[str, SimulatedNode]()
        self.ready = list[SimulatedNode]()
        self._hosts = dict[str, grid_engine_cell.CellExecutionHost]()
        self._numbers = list[int]()
        self._most = 0

    def add_booting_node(self, now_s: float, ready_s: float) -> SimulatedNode:
        """Create a booting node, named by the lowest free number."""
        number = heapq.heappop(self._numbers) if self._numbers else self._most + 1
        self._most = max(self._most, number)
        name = f"n{number:05d}"
        machine = SimulatedNode(name=name, free=self.terms.slots, asked_s=now_s, ready_s=ready_s)
        self.all[name] = machine
        return machine

    def open_booted_node(self, machine: SimulatedNode) -> None:
        machine.is_ready, machine.idle_s = True, machine.ready_s
        machine.drop_cached_values()
        insort(self.ready, machine, key=lambda item: item.name)

    def remove_idle_node(self, name: str) -> SimulatedNode:
        """Switch an idle node off; raises AssertionError for a busy or booting node."""
        machine = self.all[name]
        if machine.running or not machine.is_ready:
            raise AssertionError(f"{name}: removed while busy or booting; expected an idle node")
        del self.all[name]
        self.ready.remove(machine)
        heapq.heappush(self._numbers, int(name[1:]))
        return machine

    def find_nodes_for_task(self, slots: int) -> list[tuple[SimulatedNode, int]]:
        """Return the nodes for a task, with the task's slots on each node; empty if the task does not fit."""
        if slots <= self.terms.slots:
            fit = [machine for machine in self.ready if machine.free >= slots]
            if not fit:
                return []
            pick = max if self.terms.is_spread else min
            return [(pick(fit, key=lambda machine: machine.free), slots)]
        placement, remaining = list[tuple[SimulatedNode, int]](), slots
        for machine in self.ready:
            share = min(machine.free, remaining)
            if share:
                placement.append((machine, share))
                remaining -= share
        return [] if remaining else placement

    def simulated_cell_snapshot(
        self, waiting: tuple[grid_engine_cell.WaitingJobGroup, ...]
    ) -> grid_engine_cell.GridEngineCellSnapshot:
        """Return the cell's state for a round; booting nodes are not hosts of the cell yet."""
        slots = self.terms.slots
        return grid_engine_cell.GridEngineCellSnapshot(
            hosts=tuple(
                self._hosts.setdefault(machine.name, grid_engine_cell.CellExecutionHost(name=machine.name))
                for machine in self.ready
            ),
            instances=tuple(machine.as_queue_instance(slots) for machine in self.ready),
            waiting=waiting,
        )

    def as_elastic_nodes(self) -> tuple[ElasticNode, ...]:
        return tuple(machine.as_node() for machine in self.all.values())


class SimulatedTaskQueue:
    """The waiting tasks; tasks of equal slots form a first-in first-out queue."""

    def __init__(self, tasks: Sequence[RecordedReplayTask]) -> None:
        self._tasks = tasks
        self._by_width = dict[int, deque[int]]()

    def __len__(self) -> int:
        return sum(map(len, self._by_width.values()))

    def append_waiting_task(self, number: int) -> None:
        self._by_width.setdefault(self._tasks[number].slots, deque()).append(number)

    def pop_startable_tasks(self, machines: SimulatedNodes) -> Iterator[tuple[int, list[tuple[SimulatedNode, int]]]]:
        """Remove and yield the tasks that start now, with nodes and slots; the longest wait comes first."""
        open_to = {width: line for width, line in self._by_width.items() if line}
        while open_to:
            width = min(open_to, key=lambda candidate: open_to[candidate][0])
            placement = machines.find_nodes_for_task(width)
            if not placement:
                del open_to[width]
                continue
            yield open_to[width].popleft(), placement
            if not open_to[width]:
                del open_to[width]

    def rows(self, *, is_named: bool) -> tuple[grid_engine_cell.WaitingJobGroup, ...]:
        """Group the waiting tasks by slots; with `is_named`, also count the tasks by owner and name."""
        lines = sorted((line for line in self._by_width.values() if line), key=lambda line: line[0])
        return tuple(self._waiting_job_group_of_queue(line, is_named=is_named) for line in lines)

    def _waiting_job_group_of_queue(self, line: deque[int], *, is_named: bool) -> grid_engine_cell.WaitingJobGroup:
        width, since = self._tasks[line[0]].slots, replay_seconds_to_datetime(self._tasks[line[0]].submitted_s)
        tasks = (self._tasks[number] for number in line if is_named)
        kinds = Counter((task.owner, task.name) for task in tasks)
        return grid_engine_cell.WaitingJobGroup(
            shape=grid_engine_cell.TaskResourceRequests(slots=width, pe=ENVIRONMENT if width > 1 else ""),
            state=WAITS,
            jobs=(line[0],),
            tasks=len(line),
            first_since=since,
            oldest_since=since,
            kinds=tuple((*kind, count) for kind, count in kinds.items()),
        )
