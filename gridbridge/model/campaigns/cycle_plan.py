"""The situation that a cycle of the runner decides from, and the plan that it decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from gridbridge.model.campaigns.campaign import (
    AttemptOutcomeAtCluster,
    Campaign,
    CampaignArray,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignEventChanges,
    ClusterSuccessRecord,
)
from gridbridge.model.campaigns.campaign_sections import (
    FailuresSection,
    FairShareUnit,
    FinalizeSection,
    JobRatioRule,
)
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.nikita_deletion_values import TaskMissingSince
from gridbridge.model.campaigns.speculation import (
    CampaignStragglers,
    CompetingAttempt,
    SpeculativeAttempts,
    SupersededAttempts,
)
from gridbridge.model.job import ArrayLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayedUsage:
    """Decayed usage of a campaign at a cluster; all numbers decay alike."""

    campaign: int
    cluster: str
    at: datetime  # time of the numbers
    used_s: float = 0.0  # slot-seconds of ended tasks
    success_s: float = 0.0  # seconds of successful tasks
    successes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareInputs:
    """Priorities, groups and past usage, by which campaigns share free slots."""

    priorities: str = ""  # USER=NUMBER and @GROUP=NUMBER, with blanks between
    # groups of each owner, the primary group first
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by: FairShareUnit = FairShareUnit.NONE
    first_tasks: int = 0  # first tasks of each claimant, served before all shares
    used_s: Mapping[str, float] = field(default_factory=dict)  # decayed slot-seconds by claimant
    # mean run time of a task, by campaign and cluster
    mean_s: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatio:
    """The job ratio of a campaign at a cluster, kept from one cycle to the next."""

    campaign: int
    cluster: str
    ratio: float  # tasks for each free slot
    free: int = 0  # free slots at its last use
    submitted: int = 0  # sent tasks that have not settled yet


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatioInputs:
    """The numbers from which a new job ratio of a campaign at a cluster is computed."""

    old: float  # the ratio before
    slots: float  # of a task
    max_slots: int  # of the cluster
    free: int  # free slots now
    submitted: int
    running: int
    waiting: int  # tasks that wait longer than a start takes
    allowed: int  # waiting tasks that the flood rate allows
    fresh: int = 0  # tasks that were sent just now and wait
    others: int = 0  # tasks of other campaigns that wait longer than a start takes
    ended: int = 0  # started tasks that ended in this cycle
    is_wiped: bool = False  # nikita deletes waiting tasks of the campaign there


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatioUpdate:
    """A new job ratio, with the law and the numbers that led to it."""

    campaign: int
    cluster: str
    law: JobRatioRule
    terms: JobRatioInputs
    ratio: float
    submitted: int  # sent tasks that have not settled yet


NO_LIMITS = ArrayLimits()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapacity:
    """Slots and limits that a cluster has for campaigns' tasks."""

    free_slots: int  # for ordinary tasks, which preempt best-effort tasks
    # for best-effort tasks; None: the cluster has only ordinary jobs
    besteffort_slots: int | None = None
    max_slots: int = 0  # slots on hosts where jobs can start
    law: JobRatioRule = JobRatioRule.MEASURED  # law of the job ratio
    flood_rate: float = 0.0  # tasks that may wait for each of `max_slots`
    is_stressed: bool = False  # stress script above its limit: nothing is sent now
    stress: float | None = None  # output of the stress script; None: no script or no output
    stress_limit: float = 0.0  # stress from which on nothing is sent
    affinity: str = ""  # users and @groups whose campaigns come first at this cluster
    slots: int = 0  # slots of all batch queues
    used: int = 0  # slots in use by anybody
    limits: ArrayLimits = NO_LIMITS  # limits of arrays at the cluster
    is_drained: bool = False  # drained by `gridbridge drain`

    def free(self, *, is_besteffort: bool) -> int:
        """Return the free slots for best-effort or for ordinary tasks."""
        if is_besteffort and self.besteffort_slots is not None:
            return self.besteffort_slots
        return self.free_slots

    @property
    def is_closed(self) -> bool:
        """Whether no task at all is sent to the cluster now."""
        return self.is_stressed or self.is_drained

    def may_start(self, slots: int) -> bool:
        """Say whether a task of so many slots may start at the cluster once slots are free."""
        return not self.is_closed and self.max_slots >= slots

    def is_too_small(self, slots: int) -> bool:
        """Say whether the whole cluster is known to have fewer slots than a task needs."""
        return 0 < self.slots < slots


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTaskCounts:
    """How many tasks of a campaign a cluster lists, by state."""

    campaign: int
    cluster: str
    waiting: int
    listed: int  # running and waiting tasks
    fresh: int = 0  # waiting tasks that were sent just now
    held: int = 0  # waiting tasks with a hold, an error or a deletion
    old: int = 0  # startable waiting tasks for which no slots are kept any more
    slots: float = 0.0  # slots of a running task; 0: unknown

    @property
    def able(self) -> int:
        """The number of waiting tasks that could start: without hold, error or deletion."""
        return self.waiting - self.held

    def used(self, wished: int) -> float:
        """Return the slots that running tasks hold: `wished` each where the slots are unknown."""
        return (self.listed - self.waiting) * (self.slots or wished)

    @property
    def is_stuck(self) -> bool:
        """Whether startable tasks wait here for so long that no slots are kept for any of them."""
        return 0 < self.able == self.old


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetry:
    """A task that waits to run again after an ended attempt."""

    campaign: int
    task: int
    attempt: int  # the ended attempt
    outcome: TaskAttemptOutcome
    avoid: tuple[str, ...] = ()  # clusters to avoid while another one is open
    never: tuple[str, ...] = ()  # clusters where the task never runs again


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCountByExclusions:
    """How many waiting tasks avoid the same clusters of their campaign."""

    tasks: int
    avoid: tuple[str, ...] = ()  # clusters to avoid while another one is open
    never: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPrologueAttempt:
    """The last attempt of a campaign's prologue or epilogue at a cluster."""

    campaign: int
    cluster: str
    step: str
    attempt: int
    array: int
    outcome: TaskAttemptOutcome
    exit_status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrologueStart:
    """A prologue or epilogue that this cycle starts."""

    campaign: int
    cluster: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCycleSituation:
    """All values from which a cycle of the runner decides."""

    campaigns: tuple[Campaign, ...]  # unfinished campaigns, by number
    waiting: Mapping[int, int]  # unsent tasks, by campaign
    arrays: tuple[CampaignArray, ...]  # arrays with possibly live tasks
    room: Mapping[str, ClusterCapacity]  # capacity of the clusters that answered
    max_tasks: int  # of one array
    # unsent tasks that avoid clusters, by campaign
    kept_off: Mapping[int, tuple[TaskCountByExclusions, ...]] = field(default_factory=dict)
    there: tuple[ListedTaskCounts, ...] = ()
    # clusters that test campaigns have tried
    tried: Mapping[int, frozenset[str]] = field(default_factory=dict)
    ended: tuple[TaskAttempt, ...] = ()  # ended attempts, with outcomes
    over: tuple[CampaignArray, ...] = ()  # arrays whose tasks have all ended
    ratios: tuple[JobRatio, ...] = ()  # stored job ratios
    # campaign and cluster where nikita deletes waiting tasks
    wiped: frozenset[tuple[int, str]] = frozenset()
    disputed: tuple[
        AttemptOutcomeAtCluster, ...
    ] = ()  # attempts with contradicting accounting records
    missed: tuple[TaskMissingSince, ...] = ()  # changes of which tasks are missing
    sharing: FairShareInputs = field(default_factory=FairShareInputs)
    at: datetime = EPOCH
    asked: frozenset[str] = frozenset()  # queried clusters; `room` has those that answered
    # errors of clusters that did not answer
    silent: Mapping[str, str] = field(default_factory=dict)
    # when an unreachable cluster answered again
    back_at: Mapping[str, datetime] = field(default_factory=dict)
    # clusters with tasks that were removed from gridbridge.toml
    dropped: frozenset[str] = frozenset()
    earlier: tuple[AttemptOutcomeAtCluster, ...] = ()  # earlier attempts of the tasks in `ended`
    events: tuple[CampaignEvent, ...] = ()  # open events
    records: tuple[ClusterSuccessRecord, ...] = ()  # success records of unfinished campaigns
    failures: FailuresSection = field(default_factory=FailuresSection)
    # attempts of tasks with speculative attempts that still live
    rivals: tuple[CompetingAttempt, ...] = ()
    # campaigns near their ends whose tasks may be copied
    tails: tuple[CampaignStragglers, ...] = ()
    finalize: FinalizeSection = field(default_factory=FinalizeSection)
    arrays_at_once: int = 1  # arrays of a campaign to a cluster in one cycle
    steps: tuple[LastPrologueAttempt, ...] = ()  # prologues and epilogues before this cycle
    stepped: tuple[TaskAttempt, ...] = ()  # prologues and epilogues that ended now
    # campaign and array of waiting prologues and epilogues
    idle_steps: frozenset[tuple[int, int]] = frozenset()
    # last array at each cluster, of campaigns with prologues
    last_arrays: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    behind: tuple[int, ...] = ()  # campaigns with arrays that only root's ledger has

    @property
    def tests(self) -> frozenset[int]:
        """The numbers of test campaigns, whose waiting tasks are never deleted."""
        return frozenset(
            campaign.number for campaign in self.campaigns if campaign.jdl.type is CampaignType.TEST
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTaskSend:
    """A number of a campaign's tasks that a cycle sends to a cluster."""

    campaign: int
    cluster: str
    tasks: int
    kept_off: tuple[TaskCountByExclusions, ...] = ()  # how many of these tasks avoid which clusters
    array_tasks: int = 0  # the cluster's most tasks of an array; 0: the runner's limit


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCyclePlan:
    """The acts of one cycle of the runner, in the order of the fields."""

    ended: tuple[TaskAttempt, ...] = ()
    arrays: tuple[CampaignArray, ...] = ()  # arrays of the ended attempts
    again: tuple[TaskRetry, ...] = ()  # ended tasks that run again
    over: tuple[CampaignArray, ...] = ()
    finished: tuple[int, ...] = ()  # campaigns that end
    wound_up: tuple[int, ...] = ()  # cancelled campaigns whose epilogues have ended
    deleted: tuple[CampaignArray, ...] = ()  # arrays of cancelled campaigns
    unneeded: tuple[CampaignArray, ...] = ()  # waiting prologues without remaining tasks
    unsent: tuple[CampaignArray, ...] = ()  # prologues that no cluster has accepted yet
    gone: int = 0  # arrays of `deleted` without listed tasks, whose ends are awaited
    # attempts whose tasks have succeeded by another attempt
    losers: tuple[SupersededAttempts, ...] = ()
    resumed: tuple[CampaignArray, ...] = ()  # arrays whose unfinished submission goes on
    sends: tuple[CampaignTaskSend, ...] = ()
    stepped: tuple[TaskAttempt, ...] = ()  # ended prologues and epilogues
    steps: tuple[PrologueStart, ...] = ()  # prologues and epilogues that start
    copies: tuple[SpeculativeAttempts, ...] = ()
    missed: tuple[TaskMissingSince, ...] = ()
    predicted: tuple[JobRatioUpdate, ...] = ()  # job ratios to store
    # changed events and records
    changes: CampaignEventChanges = field(default_factory=CampaignEventChanges)
    behind: tuple[int, ...] = ()  # campaigns that recover arrays from root's ledger first

    @property
    def is_urgent(self) -> bool:
        """Whether the next cycle starts at once, since rebalancing moved tasks to free slots."""
        return any(attempt.outcome is TaskAttemptOutcome.MOVED for attempt in self.ended)
