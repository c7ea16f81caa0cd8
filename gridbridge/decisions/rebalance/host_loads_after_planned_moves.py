"""Computes hosts' loads, and where tasks and replicas are, as if the planned moves were done.

As in Hydra's SpawnBalancer, a load combines the used part of the disk and the mean used part of the slots.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import groupby
from operator import attrgetter

from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import (
    RebalanceHost,
    RebalanceHostState,
    RebalanceJobOrDataset,
    RebalanceMove,
    RebalanceMoveKind,
    RebalanceSnapshot,
    RebalanceTask,
    RebalanceTaskState,
    happened_within,
)

EXPONENT = 2.5  # exponent of disk usage and slot usage in a host's score: the last tenth of a disk adds most


class ProjectedHostsAndCopies:
    """Hosts, jobs, tasks and replicas after the moves planned so far."""

    def __init__(self, snapshot: RebalanceSnapshot, rules: RebalanceSection) -> None:
        self.snapshot = snapshot = _snapshot_with_full_disks_marked(snapshot, rules)
        self.rules = rules
        self.hosts: Mapping[str, RebalanceHost] = {host.name: host for host in snapshot.hosts}
        self.jobs: Mapping[str, RebalanceJobOrDataset] = {job.name: job for job in snapshot.jobs}
        self.readable = frozenset(
            host.name for host in snapshot.hosts if host.is_up and host.state != RebalanceHostState.DEAD
        )
        self.moving = 0
        self.waiting = set[str]()  # jobs with a waiting task
        self.lost = defaultdict[str, int](int)  # {lost host: number of datasets without whole replicas elsewhere}
        self.of_job = defaultdict[str, list[RebalanceTask]](list)
        self._at = defaultdict[str, list[RebalanceTask]](list)
        self._counts = defaultdict[str, defaultdict[str, int]](lambda: defaultdict(int))
        self._count_tasks_and_replicas(snapshot.tasks)
        self._placed = dict[str, dict[str, list[RebalanceTask]]]()  # {job: {host: tasks}}, filled on demand
        self._changes = list[tuple[str, str, int]]()  # (job, host, number of added copies; negative: removed copies)
        self._moved = dict[tuple[str, int], RebalanceTask]()
        self._gained = defaultdict[str, int](int)
        self._came = defaultdict[str, int](int)  # {host: slots of the tasks that planned moves bring}
        self.kinds = tuple(sorted({host.kind for host in snapshot.hosts}))
        usable = sorted((host for host in snapshot.hosts if host.is_live), key=attrgetter("kind", "name"))
        self._kinds = {kind: tuple(hosts) for kind, hosts in groupby(usable, attrgetter("kind"))}
        self.zones = {
            kind: frozenset[str]().union(*(host.zones for host in live)) - {""} for kind, live in self._kinds.items()
        }
        self._of_slots = {  # {kind: {number of slots: a host that stands for all such hosts}}
            kind: {host.slots: host for host in self.usable_hosts_of_kind(kind)} for kind in self.kinds
        }
        self._by_load = dict[str, list[RebalanceHost]]()
        self._slots = {kind: sum(host.slots for host in live) for kind, live in self._kinds.items()}
        self._slots_of_job = dict[tuple[str, str], int]()
        self._mean_disk = {kind: sum(map(self.disk_usage_of, live)) / len(live) for kind, live in self._kinds.items()}
        self._mean_active = {
            kind: sum(host.mean_active for host in live) / len(live) for kind, live in self._kinds.items()
        }

    def _count_tasks_and_replicas(self, tasks: Iterable[RebalanceTask]) -> None:
        """Count all tasks and replicas in one pass, because there may be a million tasks."""
        of_job, at, all_counts = self.of_job, self._at, self._counts
        waits, moves = RebalanceTaskState.WAITING, RebalanceTaskState.MOVING
        for task in tasks:
            job, state = task.job, task.state
            of_job[job].append(task)
            if state is waits:
                self.waiting.add(job)
            elif state is moves:
                self.moving += 1
            if task.lost and not task.hosts_with_copy:
                for host in task.lost:
                    self.lost[host] += 1
            counts = all_counts[job]
            for host in (task.live,) if task.live and not task.replicas else _hosts_with_copy_of_task(task):
                at[host].append(task)
                counts[host] += 1

    def usable_hosts_of_kind(self, kind: str) -> tuple[RebalanceHost, ...]:
        """Return the usable hosts of a kind, sorted by name."""
        return self._kinds.get(kind, ())

    def task_after_planned_moves(self, task: RebalanceTask) -> RebalanceTask:
        return self._moved.get(task.job_and_task_number, task)

    def tasks_at_host_before_moves(self, host: str) -> list[RebalanceTask]:
        """Return the tasks with a main copy or replica at a host before any move, by job and number."""
        return sorted(self._at.get(host, ()), key=attrgetter("job", "number"))

    def tasks_of_job_at(self, job: str, host: str) -> list[RebalanceTask]:
        """Return a job's tasks with a main copy or replica at a host after the planned moves, by number."""
        if (placed := self._placed.get(job)) is None:
            placed = self._placed[job] = {}
            for task in self.of_job[job]:
                for task_host in _hosts_with_copy_of_task(self.task_after_planned_moves(task) if self._moved else task):
                    placed.setdefault(task_host, []).append(task)
        return sorted(placed.get(host, ()), key=attrgetter("number"))

    def copies_of_job_at(self, job: str, host: str) -> int:
        counts = self._counts.get(job)
        return counts.get(host, 0) if counts else 0

    def fair_share_of_job(self, job: RebalanceJobOrDataset, host: RebalanceHost) -> int:
        """Return a host's fair share of a job's tasks and replicas, by its slots; 0 for a forbidden host.

        For n tasks with R replicas each on H equal hosts, the share is ceil(n * (1 + R) / H).
        """
        copies = len(self.of_job[job.name]) * (1 + job.replicas)
        slots, total = host.slots, self._usable_slots_for_job(job, host.kind)
        if job.hosts is not None and host.name not in job.hosts:
            slots = 0
        elif not total:
            slots, total = 1, len(self.usable_hosts_of_kind(host.kind))
        total = max(1, total)
        fair = -(-copies * slots // total)
        return fair if job.max_per_host is None else min(fair, job.max_per_host)

    def surplus_of_job_by_host(self, job: RebalanceJobOrDataset, kind: str) -> Iterator[tuple[str, int]]:
        """Yield each usable host of a kind, and how many more copies of the job it has than its fair share."""
        counts: Mapping[str, int] = self._counts.get(job.name, {})
        live = self.usable_hosts_of_kind(kind)
        if job.hosts is not None:
            return ((host.name, counts.get(host.name, 0) - self.fair_share_of_job(job, host)) for host in live)
        fair = {slots: self.fair_share_of_job(job, of_slots) for slots, of_slots in self._of_slots[kind].items()}
        return ((host.name, counts.get(host.name, 0) - fair[host.slots]) for host in live)

    def _usable_slots_for_job(self, job: RebalanceJobOrDataset, kind: str) -> int:
        if job.hosts is None:
            return self._slots.get(kind, 0)
        key = job.name, kind
        if key not in self._slots_of_job:
            self._slots_of_job[key] = sum(
                host.slots for host in self.usable_hosts_of_kind(kind) if host.name in job.hosts
            )
        return self._slots_of_job[key]

    def free_disk_bytes_at_host(self, host: RebalanceHost) -> int:
        return max(0, host.free_bytes - self._gained[host.name])

    def bytes_offered_to_copies(self, host: RebalanceHost) -> int:
        """Return the free bytes for new copies: all, or half if the host just got a replica."""
        free = self.free_disk_bytes_at_host(host)
        at = self.snapshot.recent.replicated.get(host.name)
        pause = timedelta(seconds=self.rules.replicated_rest_s)
        return free // 2 if at and happened_within(at, self.snapshot.now, pause) else free

    def disk_usage_of(self, host: RebalanceHost, more_bytes: int = 0) -> float:
        """Return the used share of a host's disk (0 to 1) with `more_bytes` added."""
        most = host.max_bytes - self.rules.full_free_bytes
        if host.max_bytes <= 0:
            return 0.0
        used = host.used_bytes + self._gained[host.name] + more_bytes
        return used / most if most > 0 and 0 <= used <= most else 1.0

    def load_score_of(self, host: RebalanceHost) -> float:
        """Return a host's load score, 0 to 100 with the default weights."""
        rules = self.rules
        full: float = self.disk_usage_of(host) ** EXPONENT
        active: float = host.mean_active**EXPONENT
        weighted = rules.active_weight * active + rules.disk_weight * full
        return max(weighted, (rules.active_weight + rules.disk_weight) * full)

    def hosts_sorted_by_load(self, kind: str) -> list[RebalanceHost]:
        if kind not in self._by_load:
            self._by_load[kind] = sorted(
                self.usable_hosts_of_kind(kind), key=lambda host: (self.load_score_of(host), host.name)
            )
        return self._by_load[kind]

    def mean_disk_usage(self, kind: str) -> float:
        """Return the mean disk usage (0 to 1) of a kind's usable hosts before any move."""
        return self._mean_disk.get(kind, 0.0)

    def is_disk_heavy(self, host: RebalanceHost, more_bytes: int = 0) -> bool:
        """Say whether a host's disk usage, with `more_bytes` added, is far above the mean."""
        return self.disk_usage_of(host, more_bytes) > self.mean_disk_usage(host.kind) * self.rules.extreme_ratio

    def is_disk_light(self, host: RebalanceHost, more_bytes: int = 0) -> bool:
        """Say whether a host's disk usage, with `more_bytes` added, is far below the mean."""
        return self.disk_usage_of(host, more_bytes) < self.mean_disk_usage(host.kind) / self.rules.extreme_ratio

    def is_slot_usage_high(self, host: RebalanceHost) -> bool:
        return host.mean_active > self._mean_active.get(host.kind, 0.0) * self.rules.extreme_ratio

    def is_slot_usage_low(self, host: RebalanceHost) -> bool:
        return host.mean_active < self._mean_active.get(host.kind, 0.0) / self.rules.extreme_ratio

    def is_disk_full(self, host: RebalanceHost) -> bool:
        """Say whether a host's disk is too full for its copies; if its size is unknown, the state must be DISK_FULL."""
        if host.max_bytes <= 0:
            return host.state == RebalanceHostState.DISK_FULL
        return self.free_disk_bytes_at_host(host) <= self.rules.full_free_bytes

    def has_free_slots_for(self, host: RebalanceHost, slots: int) -> bool:
        return host.room is None or self._came[host.name] + slots <= host.room

    def apply_move(self, move: RebalanceMove, task: RebalanceTask) -> None:
        now = self.task_after_planned_moves(task)
        self._came[move.target] += now.slots if move.kind == RebalanceMoveKind.LIVE else 0
        self._moved[now.job_and_task_number] = task_after_move(now, move)
        self._by_load.clear()
        after = set(self._moved[now.job_and_task_number].hosts_with_copy)
        for host in after.symmetric_difference(now.hosts_with_copy):
            by = 1 if host in after else -1
            self._count_copy_at_host(task, host, by)
            self._gained[host] += by * now.size_bytes

    def forget_replica_on_lost_host(self, task: RebalanceTask, host: str) -> None:
        now = self.task_after_planned_moves(task)
        self._moved[now.job_and_task_number] = replace(now, replicas=_hosts_without_last_occurrence(now.replicas, host))
        self._count_copy_at_host(task, host, -1)

    def undo_projected_moves(self) -> None:
        for job, host, by in self._changes:
            self._counts[job][host] -= by
        for changes in (self._changes, self._placed, self._moved, self._gained, self._came):
            changes.clear()
        self._by_load.clear()

    def _count_copy_at_host(self, task: RebalanceTask, host: str, by: int) -> None:
        self._counts[task.job][host] += by
        self._changes.append((task.job, host, by))
        if (placed := self._placed.get(task.job)) is None:
            return
        other_tasks = [placed_task for placed_task in placed.get(host, ()) if placed_task.number != task.number]
        placed[host] = (
            [*other_tasks, task] if host in self.task_after_planned_moves(task).hosts_with_copy else other_tasks
        )


def task_after_move(task: RebalanceTask, move: RebalanceMove) -> RebalanceTask:
    """Return a task after a move; a replica at the main copy's target becomes the main copy."""
    if move.kind == RebalanceMoveKind.LIVE:
        other_replicas = tuple(host for host in task.replicas if host != move.target)
        return replace(task, live=move.target, replicas=other_replicas)
    if move.kind == RebalanceMoveKind.DELETE:
        live = "" if task.live == move.source and move.source not in task.replicas else task.live
        return replace(task, live=live, replicas=_hosts_without_last_occurrence(task.replicas, move.source))
    if move.source in task.replicas:
        return replace(task, replicas=(*_hosts_without_last_occurrence(task.replicas, move.source), move.target))
    return replace(task, replicas=(*task.replicas, move.target))


def _hosts_with_copy_of_task(task: RebalanceTask) -> Iterable[str]:
    if task.live and not task.replicas:
        return (task.live,)
    return dict.fromkeys(task.hosts_with_copy)


def _hosts_without_last_occurrence(hosts: tuple[str, ...], host: str) -> tuple[str, ...]:
    reverse = list(hosts[::-1])
    if host in reverse:
        reverse.remove(host)
    return tuple(reverse[::-1])


def _snapshot_with_full_disks_marked(snapshot: RebalanceSnapshot, rules: RebalanceSection) -> RebalanceSnapshot:
    """Give alive hosts with a full disk the state DISK_FULL (Hydra's HostFailWorker)."""

    def is_full_disk_unmarked(host: RebalanceHost) -> bool:
        is_known = host.max_bytes > 0 and host.is_up and host.state is RebalanceHostState.ALIVE
        return is_known and host.free_bytes <= rules.full_free_bytes

    if not any(map(is_full_disk_unmarked, snapshot.hosts)):
        return snapshot
    hosts = tuple(
        replace(host, state=RebalanceHostState.DISK_FULL) if is_full_disk_unmarked(host) else host
        for host in snapshot.hosts
    )
    return replace(snapshot, hosts=hosts)
