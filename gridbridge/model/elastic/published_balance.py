"""What users and programs may read of the balancer: figures, nodes, plans and explanations."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from gridbridge.model.accounting import AccountingFilePosition
from gridbridge.model.elastic.owned_nodes import OwnedNode, PoolFailureRecord

BEGINNING = AccountingFilePosition()
COUNTED, OLD_SHARE = 100, 0.5  # after so many runs those before count half
MOST_NAMES = 2000  # of jobs, with their owners


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceRoundStatistics:
    """The numbers of one round, in the order of StarCluster's columns."""

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
    """The tasks that ended in one minute."""

    minute: int  # since 1970
    tasks: int = 0
    run_s: float = 0.0  # of them together, as the next one
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntRunTime:
    """How long the tasks of jobs of one owner and name took, as far as that counts still."""

    owner: str
    name: str
    tasks: float = 0.0
    run_s: float = 0.0  # of them together


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentlyEndedTasks:
    """The tasks that ended of late, and how far the accounting file was read for them."""

    place: AccountingFilePosition = BEGINNING
    minutes: tuple[TasksEndedInMinute, ...] = ()  # in their order
    runs: tuple[LearntRunTime, ...] = ()  # those that ended last come last

    @property
    def runtimes(self) -> dict[tuple[str, str], float]:
        """How long a task of an owner and a job's name usually takes, in seconds."""
        return {(run.owner, run.name): run.run_s / run.tasks for run in self.runs}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedNodeCount:
    """The nodes of one pool in one state."""

    pool: str  # empty: no pool, as the cluster's own hosts
    state: str  # model.elastic.nodes.NodeState
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPoolCounters:
    """What was done with the nodes of one pool since these numbers began."""

    pool: str
    added: int = 0  # nodes, as below
    removed: int = 0
    failed: int = 0  # never came, or were given up


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRefusalCount:
    """Jobs for which the cluster does not grow, by one cause."""

    cause: str  # the name of a model.elastic.plan.Refusal, in small letters
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBalance:
    """What everybody may see of a cluster that grows and shrinks, after its last round."""

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
    """Return the minute that a moment is in."""
    return int(at.timestamp() // 60)


def add_run_times(
    runs: Iterable[LearntRunTime], ended: Iterable[tuple[str, str, float]]
) -> tuple[LearntRunTime, ...]:
    """Return runs with further ones, told by owner, name and seconds.

    The last hundred count more than all before. Of too many names those that ended longest ago are
    forgotten, of the owners with the most names: nobody's many names forget another's.
    """
    by_name = {(run.owner, run.name): run for run in runs}
    for owner, name, run_s in ended:
        run = by_name.pop((owner, name), LearntRunTime(owner=owner, name=name))
        share = OLD_SHARE if run.tasks >= COUNTED else 1.0
        by_name[owner, name] = LearntRunTime(
            owner=owner,
            name=name,
            tasks=run.tasks * share + 1.0,
            run_s=run.run_s * share + run_s,
        )
    return _newest(tuple(by_name.values()))


def _newest(runs: tuple[LearntRunTime, ...]) -> tuple[LearntRunTime, ...]:
    """Return as many as are kept."""
    share = _share(sorted(Counter(run.owner for run in runs).values()))
    newest, of_owner = list[LearntRunTime](), Counter[str]()
    for run in reversed(runs):
        if of_owner[run.owner] < share:
            of_owner[run.owner] += 1
            newest.append(run)
    return tuple(reversed(newest[:MOST_NAMES]))


def _share(names: Sequence[int]) -> int:
    """Return how many names an owner keeps, from how many each has, the fewest first."""
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
    """Return one row for each minute, in their order."""
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
    """The balancer's nodes and pools, as it keeps them."""

    nodes: tuple[OwnedNode, ...] = ()
    pools: tuple[tuple[str, PoolFailureRecord], ...] = ()
    last_round: datetime | None = None
    spent: float = 0.0  # this month
    asked: tuple[tuple[str, str], ...] = ()  # hosts, and what the next round does about them


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrHostExplanation:
    """A job or a host, and what the balancer makes of it."""

    what: str
    is_known: bool  # the job waits, or the host is the cell's or the balancer's
    node: OwnedNode | None = None
    reason: str
    sentence: str  # of the whole plan
    unseen: tuple[str, ...] = ()  # what a round sees and this account does not


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalReport:
    """A job or a host, one of the two, and why nothing is done about it."""

    job: int = 0
    host: str = ""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlanReport:
    """What a round does, or would do."""

    add: int
    pool: str | None
    remove: tuple[str, ...]
    sentence: str
    refused: tuple[RefusalReport, ...]
    unseen: tuple[str, ...] = ()  # what a round sees and this account does not
