"""A balancer round's input, its plan, and the saved form of its input."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum

from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.elastic.grid_engine_cell import CellConfiguration, GridEngineCellSnapshot

NOTHING_TOLD = CellConfiguration()


class BalancePolicyName(StrEnum):
    """The name of a balancer policy."""

    DEMAND = "demand"
    STARCLUSTER = "starcluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJobsHistory:
    """The history of waiting jobs with equal requests: whether they start despite free slots."""

    at: datetime  # the time of the recorded round
    tasks: int  # waiting tasks in that round
    room_since: datetime | None = None  # the jobs have had room since then; None: no room
    stuck_since: datetime | None = None  # since when they are no demand; None: they are


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSituation:
    """The input of a balancer round: the cell, the owned nodes, and the time."""

    now: datetime
    cell: GridEngineCellSnapshot
    master: str = ""  # the qmaster's host, which is never removed
    last_change: datetime | None = None  # the last addition or removal of a node; None: never
    nodes: tuple[ElasticNode, ...] = ()
    layout: CellConfiguration = NOTHING_TOLD
    best_effort: frozenset[str] = frozenset()  # best-effort queues missing from `layout`
    eligible_since: Mapping[int, datetime] = field(default_factory=dict)  # by job
    # by the lowest job number of each group of waiting jobs
    watched: Mapping[int, WaitingJobsHistory] = field(default_factory=dict)
    runtimes: Mapping[tuple[str, str], float] = field(default_factory=dict)  # s, by owner and name
    elsewhere: Mapping[str, float] = field(default_factory=dict)  # s to a start, by transfer queue
    # free slots by transfer queue; an unlisted queue has no limit
    elsewhere_free: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, datetime] = field(default_factory=dict)  # last failure, by pool
    spent: float = 0.0  # cost of nodes in this month
    standby: tuple[str, ...] | None = None  # wakeable hosts in waking order; None: unknown
    local: datetime | None = None  # `now` in the site's time zone; None: `now` has it

    @property
    def local_now(self) -> datetime:
        """The moment by the clocks of the site, for prices and schedules."""
        return self.local or self.now


class BalancePlanReason(Enum):
    """The main reason why a round adds or removes nodes, or does nothing."""

    NO_MAXIMUM = "no maximum"
    FULL = "full"
    NOT_STABLE = "not stable"
    BELOW_MINIMUM = "below the minimum"
    NO_SLOTS = "no slots"
    ON_THEIR_WAY = "on their way"
    WAITS_TOO_LONG = "waits too long"
    WAITS = "waits"
    FITS = "fits"
    FITS_SOON = "fits soon"
    SEVERAL_SLOT_COUNTS = "several slot counts"
    AT_MINIMUM = "at the minimum"
    IDLE = "idle"
    NONE_IDLE = "none idle"
    UNREADY = "unready"
    MORE_WANTED = "more wanted"
    ALL_FIT = "all fit"
    NO_NEED = "no need"
    NOT_YET = "not yet"
    SOON = "soon"
    ELSEWHERE = "elsewhere"
    NO_CAPACITY = "no capacity"
    POOL_FULL = "pool full"
    OVER_QUOTA = "over quota"
    OVER_BUDGET = "over budget"  # the hourly budget
    OVER_MONTH = "over the month's budget"
    MONTH_SPENT = "month spent"
    TOO_DEAR = "too dear"
    ENOUGH_BOOTING = "enough booting"
    NO_NODE = "no node"
    NO_SUCH_PLACE = "no such place"
    QUEUE_CLOSED = "queue closed"
    CLOSED = "closed"
    SPARE = "spare"
    ABOVE_MAXIMUM = "above the maximum"


class NewNodeOrRemovalRefusalCause(Enum):
    """Why a job does not make the cluster grow, or why a host is not removed."""

    HELD = "it is held"
    ERROR = "it is in error"
    DELETED = "it is being deleted"
    FUTURE = "its start time is in the future"
    DEPENDENT = "it waits for the end of other jobs"
    INNER = "it runs inside a container job"
    OTHER_QUEUE = "it asks for another queue"
    MASTER = "it is the master"
    BUSY = "jobs run there, or slots are reserved there"
    NOT_READY = "it is {has}, not ready"
    NOT_LISTED = "the cell does not list it"
    UPTIME_UNKNOWN = "it is not known since when it is up"
    HOUR_IS_PAID = "its hour is paid for: minute {minute} of it, not yet {kill_after}"
    AT_MINIMUM = "no more than {min_nodes} nodes would be left"
    LICENCE = "it waits for {name}: {has} are left in the whole cell, it takes {wanted}"
    ENVIRONMENT_FULL = "parallel environment {name} has {has} slots left, it takes {wanted}"
    UNDIVIDED = "its {wanted} slots can't be had: {name} gives {has} of them on each host"
    BARRED = "parallel environment {name} does not admit {wanted}"
    CAPPED = "as many of its tasks run as may run at once"
    STUCK = "there was room for it for {has} min, and it did not start: a quota or an access list may keep it"
    BEST_EFFORT = "it is best-effort"
    CAMPAIGN = "it is a campaign's, which takes what others leave"
    NO_QUEUE = "no new node would be in a queue that it may use ({wanted})"
    NO_ACCESS = "no queue that a new node would be in admits {wanted}"
    TOO_WIDE = "it wants {wanted} slots on one host, a new node has {has}"
    TOO_MUCH = "it wants {wanted} of {name} on one host, a new node has {has}"
    NO_VALUE = "it asks for {name}={wanted}, which no new node is known to have"
    TOO_SPREAD = "it wants more nodes together than one pool gives, and those of two never share it"
    ALL_HOSTS = "it asks for all nodes that are there: a further node does not help it"
    TOO_FEW = "it needs {wanted} new nodes at once, and {has} may be added now"
    KEPT = "it is to be kept"
    UNREACHABLE = "its provider does not list its machine, or its pool has none that does"
    NEEDED = "waiting tasks need it, or it is spare"
    LAST_AT_WORK = "no host would work without it"
    IDLE_BRIEFLY = "it has been idle for {has} s, not yet {wanted}"
    PAID = "{has} s of it are paid for"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNodeOrRemovalRefusal:
    """A job that adds no node, or a host that is not removed, and the reason."""

    job: int = 0
    host: str = ""
    cause: NewNodeOrRemovalRefusalCause
    minute: int = 0
    name: str = ""  # the requested resource or parallel environment
    wanted: str = ""
    has: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlanFigures:
    """The figures that led to a balance plan."""

    nodes: int
    running: int  # nodes that are up
    jobs: int  # waiting jobs that could start
    wanted: int  # slots that these jobs need
    free: int  # free slots
    slots: int  # all slots of the cluster
    slots_per_node: int | None  # None: hosts have different numbers of slots
    waited_s: float
    unchanged_s: float | None  # time since the last change of nodes; None: no change yet
    tasks: int = 0  # waiting tasks that could start
    fit: int = 0  # waiting tasks with room on present or arriving nodes
    coming: int = 0  # arriving nodes
    most: int | None = None  # node maximum at this hour; None: max_nodes holds
    least: int | None = None  # node minimum at this hour; None: min_nodes holds
    hosts: int = 0
    unready: int = 0  # hosts that are silent or in error
    backlog_s: float | None = None  # time to finish all waiting tasks; None: unknown
    elsewhere: str = ""  # a transfer queue that starts tasks before a new node does
    elsewhere_s: float = 0.0
    boot_s: float = 0.0
    price: float = 0.0  # price of a new node per hour
    failed: int = 0  # failed nodes whose machines still exist
    leaving: int = 0  # nodes that are being removed or put on standby

    @property
    def useful(self) -> int:
        """The number of nodes that run tasks now or soon; failed nodes do not count."""
        return self.nodes - self.failed

    @property
    def staying(self) -> int:
        """The number of useful nodes that are not leaving, to which the node minimum applies."""
        return self.useful - self.leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlan:
    """The nodes that one round adds, wakes or removes; an empty plan does nothing."""

    verdict: BalancePlanReason
    hindrance: BalancePlanReason | None = None  # why no node is added below the minimum
    figures: BalancePlanFigures
    add: int = 0
    pool: str = ""  # the pool of the new nodes
    groups: tuple[str, ...] = ()  # the node group of each new node, if the pool has groups
    wake: tuple[str, ...] | None = None  # standby hosts to wake; None: a squeeze wakes `add` hosts
    remove: tuple[str, ...] = ()
    refused: tuple[NewNodeOrRemovalRefusal, ...] = ()
    watched: Mapping[int, WaitingJobsHistory] = field(default_factory=dict)  # next round's


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBatchProgramOutputs:
    """The raw output of batch system programs, saved to replay a round."""

    qstat: bytes = b""  # output of qstat -u '*' -xml -f -r
    qhost: bytes = b""  # output of qhost -xml, maybe with -F
    qconf: bytes = b""  # a JSON table of the output of qconf and other calls; empty: not queried
    oar: bytes = b""  # output of oarnodes -J and oarstat -f -J; empty for Grid Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBalancerRoundInput:
    """The part of a round's input that no batch system program prints."""

    now: datetime
    master: str = ""
    last_change: datetime | None = None
    nodes: tuple[ElasticNode, ...] = ()
    best_effort: frozenset[str] = frozenset()
    eligible_since: Mapping[int, datetime] = field(default_factory=dict)
    watched: Mapping[int, WaitingJobsHistory] = field(default_factory=dict)
    runtimes: Mapping[tuple[str, str], float] = field(default_factory=dict)
    elsewhere: Mapping[str, float] = field(default_factory=dict)
    elsewhere_free: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, datetime] = field(default_factory=dict)
    spent: float = 0.0
