"""What users and programs may read of the balancer: figures, nodes, plans and explanations."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.owned_nodes import BalancerOwnedNode, PoolFailureRecord
from gridbridge.model.remote_job_accounting import AccountingFilePosition

BEGINNING = AccountingFilePosition()
COUNTED, OLD_SHARE = 100, 0.5  # after so many runs those before count half
MOST_NAMES = 2000  # of jobs, with their owners


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRoundStatistics:
    """The figures of one round, in the order of StarCluster's columns."""

    at: datetime
    hosts: int
    running: int  # tasks
    queued: int  # tasks that could start
    slots: int
    duration_s: int  # mean of the tasks that ended of late; 0: none did
    wait_s: int  # the same
    load: float  # mean of the hosts that tell theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksEndedInMinute:
    """The number, run time and wait of the tasks that ended in one minute."""

    minute: int  # since 1970
    tasks: int = 0
    run_s: float = 0.0  # of them together, as the next one
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntTaskRunTime:
    """The learnt run time of tasks of one owner and job name."""

    owner: str
    name: str
    tasks: float = 0.0
    run_s: float = 0.0  # of them together


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentlyEndedTasks:
    """The recently ended tasks, and the position reached in the accounting file."""

    place: AccountingFilePosition = BEGINNING
    minutes: tuple[TasksEndedInMinute, ...] = ()  # in their order
    runs: tuple[LearntTaskRunTime, ...] = ()  # those that ended last come last

    @property
    def runtimes(self) -> dict[tuple[str, str], float]:
        """The mean run time in seconds, by owner and job name."""
        return {(run.owner, run.name): run.run_s / run.tasks for run in self.runs}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNodeCount:
    """The number of nodes of one pool in one state."""

    pool: str  # empty: no pool, as the cluster's own hosts
    state: str  # model.elastic.nodes.NodeState
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoolCounters:
    """The nodes of one pool that were added, removed or failed since counting began."""

    pool: str
    added: int = 0  # nodes, as below
    removed: int = 0
    failed: int = 0  # never came, or were given up


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRefusalCount:
    """The number of jobs for which the cluster does not grow, by one cause."""

    cause: str  # the name of a model.elastic.plan.Refusal, in small letters
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBalance:
    """The balancer's figures after its last round, readable for everybody."""

    cluster: str
    at: datetime  # of the last round, whole or not
    seen_at: datetime | None = None  # of the last one that saw the whole cell; the rest is from it
    took_s: float = 0.0  # the last round
    trouble: str = ""  # why the last one saw nothing
    sentence: str = ""
    is_acting: bool = False  # not only saying what it would do
    rounds: int = 0  # since these numbers began, and so the next one
    blind_rounds: int = 0  # of those: they saw nothing
    statistics: BalanceRoundStatistics | None = None
    wanted_slots: int = 0  # by tasks that wait and could start
    free_slots: int = 0
    longest_wait_s: float = 0.0
    min_nodes: int = 0
    max_nodes: int = 0
    cost_hour: float = 0.0  # of the nodes that are there
    cost_month: float = 0.0  # until now
    nodes: tuple[PublishedNodeCount, ...] = ()
    pools: tuple[PublishedPoolCounters, ...] = ()
    refused: tuple[PublishedRefusalCount, ...] = ()


def minute_since_epoch(at: datetime) -> int:
    """Return the minute of a time, counted since 1970."""
    return int(at.timestamp() // 60)


def update_learnt_run_times(
    runs: Iterable[LearntTaskRunTime], ended: Iterable[tuple[str, str, float]]
) -> tuple[LearntTaskRunTime, ...]:
    """Add the run times of ended tasks, given as owner, job name and seconds.

    The last hundred runs weigh more than all earlier ones. If there are too many names, the
    oldest names of the owners with the most names are dropped.
    """
    by_name = {(run.owner, run.name): run for run in runs}
    for owner, name, run_s in ended:
        run = by_name.pop((owner, name), LearntTaskRunTime(owner=owner, name=name))
        share = OLD_SHARE if run.tasks >= COUNTED else 1.0
        by_name[owner, name] = LearntTaskRunTime(
            owner=owner, name=name, tasks=run.tasks * share + 1.0, run_s=run.run_s * share + run_s
        )
    return _newest(tuple(by_name.values()))


def _newest(runs: tuple[LearntTaskRunTime, ...]) -> tuple[LearntTaskRunTime, ...]:
    """Return the newest run times that are kept."""
    share = _share(sorted(Counter(run.owner for run in runs).values()))
    newest, of_owner = list[LearntTaskRunTime](), Counter[str]()
    for run in reversed(runs):
        if of_owner[run.owner] < share:
            of_owner[run.owner] += 1
            newest.append(run)
    return tuple(reversed(newest[:MOST_NAMES]))


def _share(names: Sequence[int]) -> int:
    """Return how many job names each owner keeps, from their sorted numbers of names."""
    unshared = MOST_NAMES
    for number, count in enumerate(names):
        fair = unshared // (len(names) - number)
        if count > fair:
            return max(1, fair)
        unshared -= count
    return MOST_NAMES


def merge_tasks_ended_by_minute(
    minutes: Iterable[TasksEndedInMinute],
) -> tuple[TasksEndedInMinute, ...]:
    """Merge the entries of each minute, sorted by minute."""
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
class BalancerOverview:
    """The balancer's nodes and pools, as its state stores them."""

    nodes: tuple[BalancerOwnedNode, ...] = ()
    pools: tuple[tuple[str, PoolFailureRecord], ...] = ()
    last_round: datetime | None = None
    spent: float = 0.0  # this month
    asked: tuple[tuple[str, str], ...] = ()  # hosts, and what the next round does about them


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrHostExplanation:
    """What the balancer does about one job or host, and why."""

    what: str
    is_known: bool  # the job waits, or the host is the cell's or the balancer's
    node: BalancerOwnedNode | None = None
    reason: str
    sentence: str  # of the whole plan
    unseen: tuple[str, ...] = ()  # what a round sees and this account does not


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRefusalReport:
    """A job or a host, and why nothing is done about it."""

    job: int = 0
    host: str = ""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlanReport:
    """What a round does or would do, for users and programs."""

    add: int
    pool: str | None
    remove: tuple[str, ...]
    sentence: str
    refused: tuple[BalanceRefusalReport, ...]
    unseen: tuple[str, ...] = ()  # what a round sees and this account does not
