"""Figures, nodes and explanations that the balancer publishes for users and programs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, PoolFailureRecord
from gridbridge.model.jobs_and_accounting import AccountingFilePosition

BEGINNING = AccountingFilePosition()
COUNTED, OLD_SHARE = 100, 0.5  # after 100 counted runs, the next run halves their weight
MOST_NAMES = 2000  # limit of pairs of owner and job name with stored run times


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRoundStatistics:
    """The figures of one balancer round, in the column order of StarCluster's statistics."""

    at: datetime
    hosts: int
    running: int
    queued: int  # number of waiting tasks that could start now
    slots: int
    duration_s: int  # mean run time of recently ended tasks; 0: no task ended
    wait_s: int  # mean waiting time of recently ended tasks; 0: no task ended
    load: float  # mean load of all hosts that report a load


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksEndedInMinute:
    minute: int  # minutes since 1970
    tasks: int = 0
    run_s: float = 0.0  # sum of all run times
    wait_s: float = 0.0  # sum of all waiting times


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntTaskRunTime:
    """The mean run time of an owner's tasks with one job name, learnt from ended tasks."""

    owner: str
    name: str
    tasks: float = 0.0
    run_s: float = 0.0  # sum of the tasks' run times


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentlyEndedTasks:
    place: AccountingFilePosition = BEGINNING
    minutes: tuple[TasksEndedInMinute, ...] = ()  # sorted by time
    runs: tuple[LearntTaskRunTime, ...] = ()  # learnt run times; the name whose tasks ended most recently is last

    @property
    def runtimes(self) -> dict[tuple[str, str], float]:
        """The mean run times of tasks in seconds, by owner and job name."""
        return {(run.owner, run.name): run.run_s / run.tasks for run in self.runs}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNodeCount:
    pool: str  # empty: nodes without a pool
    state: str  # a value of ElasticNodeState
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoolNodeCounters:
    pool: str
    added: int = 0  # nodes that joined the cell
    removed: int = 0  # nodes whose machines were destroyed
    failed: int = 0  # nodes that never joined the cell, or were lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNewNodeRefusalCount:
    cause: str  # name of a NodeAddOrRemoveRefusalCause in lower case
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBalancerFigures:
    """The balancer's figures after the last round; every user may read the figures."""

    cluster: str
    at: datetime  # time of the last round, successful or not
    seen_at: datetime | None = None  # time of the last round that could read the whole cell
    took_s: float = 0.0
    trouble: str = ""  # why the last round could not read the cell; empty: the cell was read
    sentence: str = ""
    is_acting: bool = False  # whether the balancer may change nodes; False: dry run
    rounds: int = 0  # number of rounds since counting began
    blind_rounds: int = 0  # number of rounds that could not read the cell
    statistics: BalanceRoundStatistics | None = None
    wanted_slots: int = 0  # number of slots that the startable waiting tasks need
    free_slots: int = 0
    longest_wait_s: float = 0.0
    min_nodes: int = 0
    max_nodes: int = 0
    cost_hour: float = 0.0
    cost_month: float = 0.0
    nodes: tuple[PublishedNodeCount, ...] = ()
    pools: tuple[PublishedPoolNodeCounters, ...] = ()
    refused: tuple[PublishedNewNodeRefusalCount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNodeSample:
    """The largest numbers within half an hour."""

    begin: datetime
    hosts: int  # execution hosts of the cluster
    nodes: int  # nodes of pools that are in the cluster or on their way
    queued: int  # waiting tasks that could start


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNodeHistory:
    """The samples of the last seven days, sorted by time; half an hour without a readable cell has no sample."""

    cluster: str
    samples: tuple[PublishedNodeSample, ...] = ()


def minute_since_epoch(at: datetime) -> int:
    return int(at.timestamp() // 60)


def update_learnt_run_times(
    runs: Iterable[LearntTaskRunTime], ended_tasks: Iterable[tuple[str, str, float]]
) -> tuple[LearntTaskRunTime, ...]:
    """Add the (owner, job name, run time) of ended tasks to the learnt run times.

    Recent runs weigh more. If there are too many names, the owners with the most names lose their oldest names.
    """
    by_name = {(run.owner, run.name): run for run in runs}
    for owner, name, run_s in ended_tasks:
        run = by_name.pop((owner, name), LearntTaskRunTime(owner=owner, name=name))
        share = OLD_SHARE if run.tasks >= COUNTED else 1.0
        by_name[owner, name] = LearntTaskRunTime(
            owner=owner, name=name, tasks=run.tasks * share + 1.0, run_s=run.run_s * share + run_s
        )
    return _newest_run_times_by_owner(tuple(by_name.values()))


def _newest_run_times_by_owner(runs: tuple[LearntTaskRunTime, ...]) -> tuple[LearntTaskRunTime, ...]:
    share = _stored_names_per_owner(sorted(Counter(run.owner for run in runs).values()))
    newest, of_owner = list[LearntTaskRunTime](), Counter[str]()
    for run in reversed(runs):
        if of_owner[run.owner] < share:
            of_owner[run.owner] += 1
            newest.append(run)
    return tuple(reversed(newest[:MOST_NAMES]))


def _stored_names_per_owner(names: Sequence[int]) -> int:
    """Return how many job names are stored per owner, so that the total is at most MOST_NAMES."""
    unshared = MOST_NAMES
    for number, count in enumerate(names):
        fair = unshared // (len(names) - number)
        if count > fair:
            return max(1, fair)
        unshared -= count
    return MOST_NAMES


def merge_tasks_ended_by_minute(minutes: Iterable[TasksEndedInMinute]) -> tuple[TasksEndedInMinute, ...]:
    """Add up the entries of equal minutes; return one entry for each minute, in order of time."""
    by_minute = dict[int, TasksEndedInMinute]()
    for ended in minutes:
        so_far = by_minute.get(ended.minute, TasksEndedInMinute(minute=ended.minute))
        by_minute[ended.minute] = TasksEndedInMinute(
            minute=ended.minute,
            tasks=so_far.tasks + ended.tasks,
            run_s=so_far.run_s + ended.run_s,
            wait_s=so_far.wait_s + ended.wait_s,
        )
    return tuple(by_minute[minute] for minute in sorted(by_minute))


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerStateOverview:
    nodes: tuple[BalancerOwnedNode, ...] = ()
    pools: tuple[tuple[str, PoolFailureRecord], ...] = ()
    last_round: datetime | None = None
    spent: float = 0.0  # cost of nodes in this month
    asked: tuple[tuple[str, str], ...] = ()  # pairs of host and administrator's request


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerJobOrHostExplanation:
    what: str
    is_known: bool  # True: the job waits, or the host exists
    node: BalancerOwnedNode | None = None
    reason: str
    sentence: str  # summary of the balancer's plan
    unseen: tuple[str, ...] = ()  # facts of the balancer that the present user may not read


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNodeOrRemovalRefusalReport:
    job: int = 0
    host: str = ""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlanReport:
    add: int
    pool: str | None
    remove: tuple[str, ...]
    sentence: str
    refused: tuple[NewNodeOrRemovalRefusalReport, ...]
    unseen: tuple[str, ...] = ()  # facts of the balancer that the present user may not read
