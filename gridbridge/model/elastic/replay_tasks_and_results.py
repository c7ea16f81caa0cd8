"""The input and the result of a replay; a replay runs recorded tasks again under a given balancer policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gridbridge.model.elastic.balancer_config_sections import BalanceSection, DemandPolicySection, SqueezeSection


class ComparedReplayRules(StrEnum):
    """Rules for adding and removing nodes, which are compared by replaying recorded tasks."""

    DEMAND = "demand"
    STARCLUSTER = "starcluster"
    AZGE = "azge"
    SQUEEZE = "squeeze"
    ALWAYS_ON = "always-on"


class ReplayExclusionReason(StrEnum):
    """Why a replay skips a recorded line, or leaves a task's waiting time out of the statistics."""

    NEVER_STARTED = "never started"
    PUT_BACK = "put back to run again"
    PART = "a part of another task"
    CANCELLED = "cancelled before they started"
    TOO_WIDE = "wider than the largest cluster"
    OUTSIDE = "submitted outside the requested time"
    UNEXPLAINED = "waited though slots were free"


class WorkloadLineFault(StrEnum):
    FORM = "no known form"
    FIELDS = "a wrong number of fields"
    END = "an end before the start"
    TIMES = "impossible times"
    SLOTS = "no slots"
    LENGTH = "more than 1 MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReplayTask:
    submitted_s: float  # seconds since 1970
    run_s: float
    slots: int = 1
    waited_s: float = 0.0
    owner: str = ""
    name: str = ""
    is_explained: bool = True  # a lack of slots can explain the recorded waiting time


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWorkload:
    """The tasks to replay, in the order of their submission."""

    tasks: tuple[RecordedReplayTask, ...]
    left_out: Mapping[ReplayExclusionReason, int] = field(default_factory=dict)
    # faults of lines, by line number; the first line is 1
    bad_lines: Mapping[int, WorkloadLineFault] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayNodePropertiesAndPrices:
    max_nodes: int = 20
    min_nodes: int = 1
    slots: int = 8
    boot_s: float = 300.0
    price: float = 1.0  # price per node and hour
    watts: float = 300.0
    is_spread: bool = False  # True: tasks go to the node with the most free slots; False: to the node with the fewest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicy:
    rules: ComparedReplayRules
    balance: BalanceSection
    demand: DemandPolicySection
    squeeze: SqueezeSection = field(default_factory=SqueezeSection)
    settings: str = ""  # the settings that differ from the defaults, as text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayClusterState:
    at_s: float
    nodes: int  # powered-on nodes, booting nodes included
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReplayResult:
    way: ReplayPolicy
    tasks: int
    counted: int  # number of tasks whose recorded waiting time a lack of slots can explain
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    beyond_mean_s: float  # mean waiting time beyond a node's boot time
    late: int  # number of tasks that waited longer than a minute
    node_hours: float  # sum of the hours of all nodes, each from request to removal
    paid_hours: float  # node hours rounded up to whole billing units
    cost: float
    energy_kwh: float
    most_nodes: int
    added: int
    removed: int
    rounds: int
    used: float  # share of the nodes' slot time in which tasks ran
    moments: tuple[ReplayClusterState, ...] = ()
    starts: tuple[float, ...] = ()  # start time of each task, in the order of the workload
