"""A campaign whose tasks share input files, at simulated clusters whose connections differ in bandwidth.

At each cluster the files of one array after the other are carried, as gridbridge-runner's programs do, and each file
is carried once. gridbridge decides how many tasks go where, and which. Data-blind sending has the same cycles and
carries, but does not know what a carry takes and which tasks share a file.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from statistics import fmean

from bench.bag import NOON, campaign
from bench.brief import sized
from bench.rows import Row
from bench.simulated import CYCLE_S, Cluster, Ours, copied
from gridbridge.decisions.campaigns.tasks_sharing_inputs import (
    choose_tasks_sharing_inputs,
    group_tasks_by_shared_input,
    groups_of_next_tasks,
)
from gridbridge.model.campaigns.campaign import ArraySubmissionState, CampaignArray
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, FairShareInputs, InputCarryCost
from gridbridge.rebalance.replicas.task_input_carrier import next_tasks_after

File = tuple[int, str]  # bytes, checksum
Inputs = Sequence[tuple[File, ...]]  # the input files of each task

MB = 1_000_000
TASKS, FILES, TASK_BYTES = sized(1000, 300), 10, 100 * MB
PAUSE_S = 5.0  # after a cycle; then the end of a carry starts the next one
CLUSTERS = (Cluster("beta", 60), Cluster("gamma", 24, 0.7), Cluster("delta", 12, 1.6))
RATES = ({"beta": 1 * MB, "gamma": 4 * MB, "delta": 12 * MB}, {"beta": 12 * MB, "gamma": 4 * MB, "delta": 1 * MB})
SEEDS = range(1, sized(4, 2))
MOST_BYTES, MOST_TIMES = 1.1, 1.2  # times of the least possible


def one_file_a_task(random: Random) -> Inputs:
    """Return tasks of which nine in ten read one of ten files, and the others a file of their own."""
    shared = [((TASK_BYTES, f"shared-{task % FILES}"),) for task in range(TASKS * 9 // 10)]
    own = [((TASK_BYTES, f"own-{task}"),) for task in range(TASKS - len(shared))]
    return random.sample([*shared, *own], TASKS)


def two_files_a_task(random: Random) -> Inputs:
    """Return tasks that read one of ten files, nine tenths of their bytes, and a file of their own."""
    sizes = (TASK_BYTES * 9 // 10, TASK_BYTES // 10)
    tasks = [((sizes[0], f"shared-{task % FILES}"), (sizes[1], f"own-{task}")) for task in range(TASKS)]
    return random.sample(tasks, TASKS)


KINDS: dict[str, Callable[[Random], Inputs]] = {
    "9 of 10 tasks share": one_file_a_task,
    "tasks share 9 of 10 bytes": two_files_a_task,
}


def rows(kind: str, seeds: Iterable[int] = SEEDS) -> Iterator[Row]:
    """Compare carried bytes and makespans with the least possible; of some campaigns the largest counts."""
    campaigns = [(rates, seed) for rates in RATES for seed in seeds]
    (size, time), (blind_size, blind_time) = (
        map(max, zip(*(_measured(kind, *each, sees_data=sees_data) for each in campaigns), strict=True))
        for sees_data in (True, False)
    )
    yield Row(what=f"carried, {kind}", measured=size, unit="x", baseline=blind_size, limit=MOST_BYTES, needs_whole=True)
    yield Row(what="  makespan", measured=time, unit="x", baseline=blind_time, limit=MOST_TIMES, needs_whole=True)


def _measured(kind: str, rates: Mapping[str, float], seed: int, *, sees_data: bool) -> tuple[float, float]:
    """Return a campaign's carried bytes and its makespan, in times of the least possible."""
    random = Random(seed)
    inputs = KINDS[kind](random)
    work = [max(1.0, random.gauss(300, 60)) for _ in inputs]
    bag = Bag(copied(CLUSTERS), rates, inputs, work, sees_data=sees_data)
    end = bag.run()
    return bag.copied_bytes / least_bytes(inputs), end / bound(CLUSTERS, rates, inputs, work)


@dataclass(slots=True)
class Connection:
    """The carries to a cluster."""

    bytes_per_s: float
    files: set[File] = field(default_factory=set)
    arrays: deque[tuple[CampaignArray, frozenset[int]]] = field(default_factory=deque)  # the first is being carried
    ends_s: float = 0.0  # of the first array's carry
    copied_bytes: int = 0
    next_task_bytes: float | None = None  # None: no carry has ended
    groups: set[int] = field(default_factory=set)  # whose file was sent here

    def add(self, array: CampaignArray, tasks: frozenset[int], inputs: Inputs, now: float) -> None:
        self.arrays.append((array, tasks))
        if len(self.arrays) == 1:
            self._begin_carry(inputs, now)

    def take_carried_tasks(self, inputs: Inputs, now: float) -> list[int]:
        """Return the tasks whose carries have ended, and begin the next carry."""
        carried = list[int]()
        while self.arrays and self.ends_s <= now:
            _, tasks = self.arrays.popleft()
            carried += sorted(tasks)
            later = [inputs[task] for task in next_tasks_after(tasks) if task < len(inputs)]
            self.next_task_bytes = self._missing_bytes(later) / max(1, len(later))
            if self.arrays:
                self._begin_carry(inputs, now)
        return carried

    def cost(self, cluster: str) -> InputCarryCost:
        size, rate = self.next_task_bytes, self.bytes_per_s
        task_s = None if size is None else size / rate
        return InputCarryCost(campaign=1, cluster=cluster, task_s=task_s, task_bytes=size or 0.0, bytes_per_s=rate)

    def _begin_carry(self, inputs: Inputs, now: float) -> None:
        needed = [inputs[task] for task in self.arrays[0][1]]
        size = self._missing_bytes(needed)
        self.copied_bytes += size
        self.ends_s = now + size / self.bytes_per_s
        self.files.update(*needed)

    def _missing_bytes(self, inputs: Inputs) -> int:
        return sum(size for size, _ in {file for files in inputs for file in files} - self.files)


class Bag(Ours):
    """The cycles of gridbridge-runner for tasks with input files; data-blind without `sees_data`."""

    def __init__(
        self,
        clusters: Sequence[Cluster],
        rates: Mapping[str, float],
        inputs: Inputs,
        work: Sequence[float],
        *,
        sees_data: bool,
    ) -> None:
        super().__init__(clusters)
        self._campaign = campaign(1, rates, number=1, inputs=("{}",))
        self._clusters, self._inputs, self._work, self._sees_data = clusters, inputs, work, sees_data
        self._connections = {name: Connection(rate) for name, rate in rates.items()}
        ranges = group_tasks_by_shared_input(inputs) if sees_data else ()
        self._unsent = dict(groups_of_next_tasks(ranges, range(len(inputs))))  # {task: group}
        self._now, self._arrays = 0.0, 0

    @property
    def copied_bytes(self) -> int:
        return sum(connection.copied_bytes for connection in self._connections.values())

    def run(self) -> float:
        """Run the campaign, and return the end of its last task."""
        last_s, has_news = -CYCLE_S, False
        while self._unsent or self._is_any_task_sent():
            has_news |= self._release_carried_tasks()
            if self._now - last_s >= (PAUSE_S if has_news else CYCLE_S):
                self._send()
                last_s, has_news = self._now, False
            for cluster in self._clusters:
                cluster.go_on(self._now, self._now + 1)
            self._now += 1
        return max(end for cluster in self._clusters for end, _ in cluster.ended)

    def _is_any_task_sent(self) -> bool:
        return any(cluster.waiting or cluster.running or self._connections[cluster.name].arrays
            for cluster in self._clusters)  # fmt: skip

    def _send(self) -> None:
        self.sends(self._clusters, len(self._unsent))
        self._fresh = {}
        for send in self.decided.sends if self.decided else ():
            connection = self._connections[send.cluster]
            others = (other.groups for other in self._connections.values() if other is not connection)
            elsewhere = frozenset[int]().union(*others)
            tasks = choose_tasks_sharing_inputs(
                self._unsent.items(), connection.groups, elsewhere, send.tasks, send.unshared_first
            )
            connection.groups.update(group for group in tasks.values() if group is not None)
            for task in tasks:
                del self._unsent[task]
            self._arrays += 1
            array = CampaignArray(campaign=1, number=self._arrays, cluster=send.cluster, size=len(tasks),
                state=ArraySubmissionState.INTENDED, intended_at=NOON)  # fmt: skip
            connection.add(array, frozenset(tasks), self._inputs, self._now)

    def _release_carried_tasks(self) -> bool:
        """Submit the tasks whose files have arrived; say whether there are any."""
        count = 0
        for cluster in self._clusters:
            tasks = self._connections[cluster.name].take_carried_tasks(self._inputs, self._now)
            cluster.waiting.extend(self._work[task] for task in tasks)
            self._fresh[cluster.name] = self._fresh.get(cluster.name, 0) + len(tasks)
            count += len(tasks)
        return count > 0

    def _seen(self, clusters: Sequence[Cluster], left: int) -> CampaignCycleSituation:
        means = {one.name: fmean(took for _, took in one.ended) for one in clusters if one.ended}
        costs = (connection.cost(name) for name, connection in self._connections.items())
        return replace(
            super()._seen(clusters, left),
            arrays=tuple(array for connection in self._connections.values() for array, _ in connection.arrays),
            sharing=FairShareInputs(mean_s={1: means}),
            carry_costs=tuple(costs) if self._sees_data else (),
            at=NOON + timedelta(seconds=self._now),
        )


def least_bytes(inputs: Inputs) -> int:
    """Return the bytes of all files, each carried to a single cluster."""
    return sum(size for size, _ in {file for files in inputs for file in files})


def bound(clusters: Iterable[Cluster], rates: Mapping[str, float], inputs: Inputs, work: Sequence[float]) -> float:
    """Return a lower bound of the end, as if each task had an equal part of each of its files, and equal work.

    No cluster starts before its first file is there. No cluster ends tasks faster than its slots work, or than its
    connection carries their files: all tasks, the tasks with the most bytes alone, and all bytes.
    """
    speed = {one.name: one.slots * one.speed for one in clusters}
    work_s, first = fmean(work), min(size for files in inputs for size, _ in files)
    readers = Counter(file for files in inputs for file in files)
    sizes = [sum(file[0] / readers[file] for file in files) for files in inputs]
    least, most = min(sizes), max(sizes)
    limits = [(name, each / work_s, rates[name]) for name, each in speed.items()]  # tasks and bytes per second
    return max(
        (sum(work) + sum(each * first / rates[name] for name, each in speed.items())) / sum(speed.values()),
        len(inputs) / sum(min(tasks, size / least) for _, tasks, size in limits),
        sizes.count(most) / sum(min(tasks, size / most) for _, tasks, size in limits),
        sum(sizes) / sum(min(tasks * most, size) for _, tasks, size in limits),
    )
