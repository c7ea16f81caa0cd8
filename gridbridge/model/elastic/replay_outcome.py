"""A replay: recorded tasks, node properties, and the results of each policy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gridbridge.model.elastic.balance_sections import (
    BalanceSection,
    DemandPolicySection,
    SqueezeSection,
)


class ComparedReplayRules(StrEnum):
    """The rules that a replay compares."""

    DEMAND = "demand"
    STARCLUSTER = "starcluster"
    AZGE = "azge"
    SQUEEZE = "squeeze"
    ALWAYS_ON = "always-on"


class ReplayExclusion(StrEnum):
    """Why a recorded line is no task of a replay, or why its wait does not count."""

    NEVER_STARTED = "never started"
    PUT_BACK = "put back to run again"
    PART = "a part of another task"
    CANCELLED = "cancelled before they started"
    TOO_WIDE = "wider than the largest cluster"
    OUTSIDE = "submitted outside the time asked for"
    UNEXPLAINED = "waited though slots were free"


class WorkloadLineFault(StrEnum):
    """What is wrong with a line of a workload file."""

    FORM = "no known form"
    FIELDS = "a wrong number of fields"
    END = "an end before the start"
    TIMES = "times that no task has"
    SLOTS = "no slots"
    LENGTH = "more than 1 MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReplayTask:
    """A recorded task of a replay."""

    submitted_s: float  # since 1970
    run_s: float
    slots: int = 1
    waited_s: float = 0.0  # then
    owner: str = ""
    name: str = ""
    is_explained: bool = True  # its wait is one for slots, as far as is known


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWorkload:
    """The tasks to replay, in the order of their submission."""

    tasks: tuple[RecordedReplayTask, ...]
    left_out: Mapping[ReplayExclusion, int] = field(default_factory=dict)
    # by their numbers, from 1
    bad_lines: Mapping[int, WorkloadLineFault] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayNodeTerms:
    """The properties and prices of nodes in a replay."""

    max_nodes: int = 20
    min_nodes: int = 1
    slots: int = 8  # of a node
    boot_s: float = 300.0
    price: float = 1.0  # of a node, an hour
    watts: float = 300.0  # of a node that is on
    is_spread: bool = False  # tasks go to the node with the most free slots, not to the fullest


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPolicy:
    """One policy of a replay, with all of its settings."""

    rules: ComparedReplayRules
    balance: BalanceSection
    demand: DemandPolicySection
    squeeze: SqueezeSection = field(default_factory=SqueezeSection)
    settings: str = ""  # in words, where they are not the usual ones


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayClusterState:
    """The state of the replayed cluster after a change."""

    at_s: float
    nodes: int  # that are on, booting too
    waiting: int  # tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyReplayResult:
    """The waits, node hours and costs of a replay by one policy."""

    way: ReplayPolicy
    tasks: int
    counted: int  # tasks with a wait that is one for slots
    wait_mean_s: float
    wait_p50_s: float
    wait_p95_s: float
    beyond_mean_s: float  # of each wait what is longer than a boot
    late: int  # tasks that waited for longer than a minute
    node_hours: float  # of nodes that are on, from the wish to the end
    paid_hours: float  # the same, in whole units of what is paid for at once
    cost: float
    energy_kwh: float
    most_nodes: int
    added: int
    removed: int
    rounds: int
    used: float  # share of the slots of those node-hours in which a task ran
    moments: tuple[ReplayClusterState, ...] = ()
    starts: tuple[float, ...] = ()  # of each task, in the order of the workload
