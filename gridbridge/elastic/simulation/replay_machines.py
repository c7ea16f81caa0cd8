"""The nodes of a replay, and the tasks that wait for them."""

import heapq
from bisect import insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gridbridge.model.elastic.cell import (
    CellHost,
    GridEngineCellSnapshot,
    QueueInstance,
    RunningTaskGroup,
    TaskShape,
    WaitingJobs,
)
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.elastic.replay_outcome import ReplayNodeTerms, ReplayTask
from gridbridge.model.states import JobFact, JobState, QueueState

QUEUE, POOL, ENVIRONMENT = "all.q", "replayed", "any"
OPEN, WAITS = QueueState(), JobState((JobFact.WAITING,), "qw")


def at(seconds: float) -> datetime:
    """Return a moment of a replay."""
    return datetime.fromtimestamp(seconds, UTC)


@dataclass(slots=True, kw_only=True)
class ReplayMachine:
    """A node that is on; what a round sees of it is kept until it changes."""

    name: str
    free: int
    asked_s: float
    ready_s: float
    is_ready: bool = False
    idle_s: float | None = None  # since when; None: it is busy
    running: list[int] = field(default_factory=list)  # the slots of each task
    begun: list[RunningTaskGroup] = field(default_factory=list)  # whose they are, where rules ask
    node: ElasticNode | None = None
    instance: QueueInstance | None = None

    def changed(self) -> None:
        """Forget what a round saw of it."""
        self.node = self.instance = None

    def as_node(self) -> ElasticNode:
        """Return it as the balancer knows it."""
        if self.node is None:
            self.node = ElasticNode(
                name=self.name,
                state=ElasticNodeState.READY if self.is_ready else ElasticNodeState.BOOTING,
                up_since=at(self.asked_s),
                since=at(self.ready_s if self.is_ready else self.asked_s),
                idle_since=None if self.idle_s is None else at(self.idle_s),
                pool=POOL,
            )
        return self.node

    def as_instance(self, slots: int) -> QueueInstance:
        """Return its queue."""
        if self.instance is None:
            self.instance = QueueInstance(
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


class ReplayMachines:
    """All nodes that are on, in the order in which they were added."""

    def __init__(self, terms: ReplayNodeTerms) -> None:
        self.terms = terms
        self.all = dict[str, ReplayMachine]()
        self.ready = list[ReplayMachine]()
        self._hosts = dict[str, CellHost]()
        self._numbers = list[int]()
        self._most = 0

    def add(self, now_s: float, ready_s: float) -> ReplayMachine:
        """Ask for a node; its name has the lowest number that is free."""
        number = heapq.heappop(self._numbers) if self._numbers else self._most + 1
        self._most = max(self._most, number)
        name = f"n{number:05d}"
        machine = ReplayMachine(name=name, free=self.terms.slots, asked_s=now_s, ready_s=ready_s)
        self.all[name] = machine
        return machine

    def open(self, machine: ReplayMachine) -> None:
        """Let a node that booted run tasks."""
        machine.is_ready, machine.idle_s = True, machine.ready_s
        machine.changed()
        insort(self.ready, machine, key=lambda item: item.name)

    def remove(self, name: str) -> ReplayMachine:
        """Switch a node off; none that runs a task or boots is ever given."""
        machine = self.all[name]
        if machine.running or not machine.is_ready:
            raise AssertionError(f"{name} is removed, and not idle")
        del self.all[name]
        self.ready.remove(machine)
        heapq.heappush(self._numbers, int(name[1:]))
        return machine

    def place(self, slots: int) -> list[tuple[ReplayMachine, int]]:
        """Return where a task would run: on one node if any is large enough, else on several."""
        if slots <= self.terms.slots:
            fit = [machine for machine in self.ready if machine.free >= slots]
            if not fit:
                return []
            pick = max if self.terms.is_spread else min
            return [(pick(fit, key=lambda machine: machine.free), slots)]
        placement, remaining = list[tuple[ReplayMachine, int]](), slots
        for machine in self.ready:
            share = min(machine.free, remaining)
            if share:
                placement.append((machine, share))
                remaining -= share
        return [] if remaining else placement

    def seen(self, waiting: tuple[WaitingJobs, ...]) -> GridEngineCellSnapshot:
        """Return the cell as a round sees it: nodes that boot are no hosts yet."""
        slots = self.terms.slots
        return GridEngineCellSnapshot(
            hosts=tuple(
                self._hosts.setdefault(machine.name, CellHost(name=machine.name))
                for machine in self.ready
            ),
            instances=tuple(machine.as_instance(slots) for machine in self.ready),
            waiting=waiting,
        )

    def nodes(self) -> tuple[ElasticNode, ...]:
        """Return all of them as the balancer knows them."""
        return tuple(machine.as_node() for machine in self.all.values())


class WaitingLine:
    """The tasks that wait: of each width the one that was submitted first is the next."""

    def __init__(self, tasks: Sequence[ReplayTask]) -> None:
        self._tasks = tasks
        self._by_width = dict[int, deque[int]]()

    def __len__(self) -> int:
        """Return how many wait."""
        return sum(map(len, self._by_width.values()))

    def submit(self, number: int) -> None:
        """Let a task wait."""
        self._by_width.setdefault(self._tasks[number].slots, deque()).append(number)

    def startable(
        self, machines: ReplayMachines
    ) -> Iterator[tuple[int, list[tuple[ReplayMachine, int]]]]:
        """Give tasks that start now, and where: who waits longest first, of those that fit."""
        open_to = {width: line for width, line in self._by_width.items() if line}
        while open_to:
            width = min(open_to, key=lambda candidate: open_to[candidate][0])
            placement = machines.place(width)
            if not placement:
                del open_to[width]
                continue
            yield open_to[width].popleft(), placement
            if not open_to[width]:
                del open_to[width]

    def rows(self, *, is_named: bool) -> tuple[WaitingJobs, ...]:
        """Return them as a round sees them, by width; with the names only where rules ask."""
        lines = sorted((line for line in self._by_width.values() if line), key=lambda line: line[0])
        return tuple(self._row(line, is_named=is_named) for line in lines)

    def _row(self, line: deque[int], *, is_named: bool) -> WaitingJobs:
        width, since = self._tasks[line[0]].slots, at(self._tasks[line[0]].submitted_s)
        kinds = dict[tuple[str, str], int]()
        for number in line if is_named else ():
            kind = self._tasks[number].owner, self._tasks[number].name
            kinds[kind] = kinds.get(kind, 0) + 1
        return WaitingJobs(
            shape=TaskShape(slots=width, pe=ENVIRONMENT if width > 1 else ""),
            state=WAITS,
            jobs=(line[0],),
            tasks=len(line),
            first_since=since,
            oldest_since=since,
            kinds=tuple((*kind, tasks) for kind, tasks in kinds.items()),
        )
