"""The input and the plan of a balancer round, and the input as saved for a replay."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum

from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.elastic.grid_engine_cell import CellConfiguration, GridEngineCellSnapshot

NOTHING_TOLD = CellConfiguration()


class BalancePolicyName(StrEnum):
    DEMAND = "demand"
    STARCLUSTER = "starcluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJobsHistory:
    """The record of waiting jobs with equal requests that have not started although slots are free."""

    at: datetime
    tasks: int = 0
    room_since: datetime | None = None  # when slots became free for the jobs; None: no free slots
    stuck_since: datetime | None = None  # when the balancer stopped adding nodes for the jobs; None: nodes may be added


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedBalancerRoundInput:
    """The part of a balancer round's input that no batch system program prints."""

    now: datetime
    master: str = ""  # the qmaster's host, which is never removed
    last_change: datetime | None = None  # time at which a node was last added or removed; None: never
    nodes: tuple[ElasticNode, ...] = ()
    best_effort: frozenset[str] = frozenset()  # best-effort queues that the configuration does not mark as such
    eligible_since: Mapping[int, datetime] = field(default_factory=dict)  # time from which each job could start
    # histories of waiting jobs, by the lowest job number of each group
    watched: Mapping[int, WaitingJobsHistory] = field(default_factory=dict)
    # mean run time in seconds, by owner and job name
    runtimes: Mapping[tuple[str, str], float] = field(default_factory=dict)
    # seconds until a task starts, by transfer queue
    elsewhere: Mapping[str, float] = field(default_factory=dict)
    # number of free slots, by transfer queue; a transfer queue without an entry has no limit
    elsewhere_free: Mapping[str, int] = field(default_factory=dict)
    # time of the failure that paused a pool, by pool
    failed: Mapping[str, datetime] = field(default_factory=dict)
    spent: float = 0.0  # cost of all nodes in this month so far


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSituation(SavedBalancerRoundInput):
    cell: GridEngineCellSnapshot
    layout: CellConfiguration = NOTHING_TOLD
    standby: tuple[str, ...] | None = None  # powered-off hosts that may be woken, in the order of waking; None: unknown
    local: datetime | None = None  # `now` in the site's time zone; None: same as `now`

    @property
    def local_now(self) -> datetime:
        """The site's local time, for prices and schedules that depend on the hour."""
        return self.local or self.now


class BalancePlanReason(Enum):
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
    OVER_BUDGET = "over budget"  # new nodes would exceed the hourly budget
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


class NodeAddOrRemoveRefusalCause(Enum):
    HELD = "the job is held"
    ERROR = "the job is in error"
    DELETED = "the job is being deleted"
    FUTURE = "the job's start time is in the future"
    DEPENDENT = "the job waits for the end of other jobs"
    INNER = "the job runs inside a container job"
    OTHER_QUEUE = "the job requests another queue"
    MASTER = "the host is the cell's master"
    BUSY = "the host has running jobs or reserved slots"
    NOT_READY = "the node is {has}, not ready"
    NOT_LISTED = "the cell does not list the host"
    UPTIME_UNKNOWN = "the start time of the node is unknown"
    HOUR_IS_PAID = "the node's paid hour is at minute {minute}, and idle nodes are removed from minute {kill_after} on"
    AT_MINIMUM = "the cluster keeps at least {min_nodes} nodes"
    LICENCE = "the job needs {wanted} of {name}, and the whole cell has {has} left"
    ENVIRONMENT_FULL = "the job needs {wanted} slots, and parallel environment {name} has {has} left"
    UNDIVIDED = "parallel environment {name} gives {has} slots on each host, and {wanted} is no multiple of {has}"
    BARRED = "parallel environment {name} does not admit {wanted}"
    CAPPED = "the job's limit of running tasks (qsub -tc) is reached"
    STUCK = "free slots existed for {has} min, and the job did not start: a quota or an access list may be the cause"
    BEST_EFFORT = "the job is best-effort, and no node is added for best-effort jobs"
    CAMPAIGN = "the job belongs to a campaign, and campaigns only use free slots"
    NO_QUEUE = "no new node would be in a queue that the job may use ({wanted})"
    NO_ACCESS = "no queue of a new node admits {wanted}"
    TOO_WIDE = "the job needs {wanted} slots on one host, and a new node has {has}"
    TOO_MUCH = "the job needs {wanted} of {name} on one host, and a new node has {has}"
    NO_VALUE = "the job requests {name}={wanted}, and no new node is expected to have this value"
    TOO_SPREAD = "the job needs more nodes at once than one pool has, and nodes of two pools never share a job"
    ALL_HOSTS = "the job requests all present nodes, so that a new node does not help"
    TOO_FEW = "the job needs {wanted} new nodes at once, and {has} may be added now"
    KEPT = "an administrator wants the node to stay"
    UNREACHABLE = "no provider lists the node's machine"
    NEEDED = "waiting tasks need the node, or the node is kept as spare capacity"
    LAST_AT_WORK = "the host is the last working host"
    IDLE_BRIEFLY = "the node has been idle for {has} s; expected {wanted} s"
    PAID = "{has} s of the node's time are already paid for"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAddOrRemoveRefusal:
    job: int = 0
    host: str = ""
    cause: NodeAddOrRemoveRefusalCause
    minute: int = 0
    name: str = ""  # name of the requested resource or parallel environment
    wanted: str = ""
    has: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlanFigures:
    nodes: int
    running: int  # nodes that are up, including nodes that are being removed
    jobs: int  # waiting jobs that could start
    wanted: int  # slots that the waiting jobs need
    free: int
    slots: int  # all slots of the cluster
    slots_per_node: int | None  # None: the hosts differ in their numbers of slots
    waited_s: float
    unchanged_s: float | None  # seconds since a node was last added or removed; None: never
    tasks: int = 0  # waiting tasks that could start
    fit: int = 0  # waiting tasks that fit on present, booting or joining nodes
    coming: int = 0  # nodes that are booting or joining the cell
    most: int | None = None  # largest allowed number of nodes at this hour; None: max_nodes applies
    least: int | None = None  # smallest allowed number of nodes at this hour; None: min_nodes applies
    hosts: int = 0
    unready: int = 0  # hosts that are silent or in error
    backlog_s: float | None = None  # seconds until all running and waiting tasks could end; None: unknown
    elsewhere: str = ""  # transfer queue that starts tasks before a new node would be up; empty: none
    elsewhere_s: float = 0.0
    boot_s: float = 0.0
    price: float = 0.0  # price of a new node per hour
    failed: int = 0  # failed nodes whose machines still exist
    leaving: int = 0  # nodes that are being removed or powered off

    @property
    def useful_node_count(self) -> int:
        """The number of nodes that run tasks now or soon, without failed nodes."""
        return self.nodes - self.failed

    @property
    def node_count_for_min_nodes(self) -> int:
        """The number of nodes that count towards min_nodes: all nodes except failed or leaving nodes."""
        return self.useful_node_count - self.leaving


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancePlan:
    """The nodes that a balancer round adds, wakes or removes; an empty plan changes nothing."""

    verdict: BalancePlanReason
    hindrance: BalancePlanReason | None = None  # why no node is added although the cluster is below the minimum
    figures: BalancePlanFigures
    add: int = 0
    pool: str = ""
    groups: tuple[str, ...] = ()  # node group of each new node, if the pool has node groups
    # standby hosts to wake; None: a squeeze chooses `add` hosts
    wake: tuple[str, ...] | None = None
    remove: tuple[str, ...] = ()
    refused: tuple[NodeAddOrRemoveRefusal, ...] = ()
    # histories of waiting jobs, for the next round
    watched: Mapping[int, WaitingJobsHistory] = field(default_factory=dict)
