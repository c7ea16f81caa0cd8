"""The balancer's readable figures, nodes, plans and explanations, for users and programs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, PoolFailureRecord
from gridbridge.model.jobs_and_accounting import AccountingFilePosition

BEGINNING = AccountingFilePosition()
COUNTED, OLD_SHARE = 100, 0.5  # from 100 counted runs on, a new run halves their weight
MOST_NAMES = 2000  # stored pairs of owner and job name


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRoundStatistics:
    """The figures of one round, in the order of StarCluster's columns."""

    at: datetime
    hosts: int
    running: int  # running tasks
    queued: int  # waiting tasks that could start
    slots: int
    duration_s: int  # mean run time of recently ended tasks; 0: none ended
    wait_s: int  # mean wait of recently ended tasks; 0: none ended
    load: float  # mean load of all hosts that report a load


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksEndedInMinute:
    """The number, run time and wait of the tasks that ended in one minute."""

    minute: int  # minutes since 1970
    tasks: int = 0
    run_s: float = 0.0  # sum of all run times
    wait_s: float = 0.0  # sum of all waits


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntTaskRunTime:
    """The learnt run time of tasks of one owner and job name."""

    owner: str
    name: str
    tasks: float = 0.0
    run_s: float = 0.0  # sum of the tasks' run times


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentlyEndedTasks:
    """The recently ended tasks, and the position that was read up to in the accounting file."""

    place: AccountingFilePosition = BEGINNING
    minutes: tuple[TasksEndedInMinute, ...] = ()  # the minutes in time order
    runs: tuple[LearntTaskRunTime, ...] = ()  # the most recently ended tasks last

    @property
    def runtimes(self) -> dict[tuple[str, str], float]:
        """The mean run time in seconds, by owner and job name."""
        return {(run.owner, run.name): run.run_s / run.tasks for run in self.runs}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNodeCount:
    """The number of nodes of one pool in one state."""

    pool: str  # empty: the cluster's own hosts, which have no pool
    state: str  # an ElasticNodeState value
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoolNodeCounters:
    """The nodes of one pool that were added, removed or failed since counting began."""

    pool: str
    added: int = 0  # nodes that joined the cell
    removed: int = 0  # nodes whose machines were destroyed
    failed: int = 0  # nodes that never joined, or were lost


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNewNodeRefusalCount:
    """The number of jobs for which the cluster does not grow, by one cause."""

    cause: str  # the name of a NewNodeOrRemovalRefusalCause, in lower case
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBalancerFigures:
    """The balancer's figures after its last round, readable for everybody."""

    cluster: str
    at: datetime  # time of the last round, successful or not
    seen_at: datetime | None = None  # last round that read the whole cell: source of its figures
    took_s: float = 0.0  # duration of the last round
    trouble: str = ""  # why the last round could not read the cell
    sentence: str = ""
    is_acting: bool = False  # not a dry run
    rounds: int = 0  # number of rounds since counting began
    blind_rounds: int = 0  # rounds that could not read the cell
    statistics: BalanceRoundStatistics | None = None
    wanted_slots: int = 0  # slots of waiting tasks that could start
    free_slots: int = 0
    longest_wait_s: float = 0.0
    min_nodes: int = 0
    max_nodes: int = 0
    cost_hour: float = 0.0  # cost per hour of all present nodes
    cost_month: float = 0.0  # cost of this month until now
    nodes: tuple[PublishedNodeCount, ...] = ()
    pools: tuple[PublishedPoolNodeCounters, ...] = ()
    refused: tuple[PublishedNewNodeRefusalCount, ...] = ()


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
    """Return the newest run times, limited to each owner's share of job names."""
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


def merge_tasks_ended_by_minute(minutes: Iterable[TasksEndedInMinute]) -> tuple[TasksEndedInMinute, ...]:
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
class BalancerStateOverview:
    """The balancer's stored nodes, pool failures, costs and administrators' requests."""

    nodes: tuple[BalancerOwnedNode, ...] = ()
    pools: tuple[tuple[str, PoolFailureRecord], ...] = ()
    last_round: datetime | None = None
    spent: float = 0.0  # cost of nodes in this month
    asked: tuple[tuple[str, str], ...] = ()  # hosts, each with an administrator's request


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerJobOrHostExplanation:
    """The balancer's treatment of one job or host, with the reason."""

    what: str
    is_known: bool  # the job waits, or the cell or the balancer has the host
    node: BalancerOwnedNode | None = None
    reason: str
    sentence: str  # the sentence of the whole plan
    unseen: tuple[str, ...] = ()  # facts that a round sees and this account may not read


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNodeOrRemovalRefusalReport:
    """A job that adds no node, or a host that is not removed, with the reason as text."""

    job: int = 0
    host: str = ""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlanReport:
    """The acts of a real or previewed balancer round, for users and programs."""

    add: int
    pool: str | None
    remove: tuple[str, ...]
    sentence: str
    refused: tuple[NewNodeOrRemovalRefusalReport, ...]
    unseen: tuple[str, ...] = ()  # facts that a round sees and this account may not read
