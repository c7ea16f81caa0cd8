"""The situation (input) and the plan (result) of the decision in a runner cycle."""

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
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventChanges, CampaignSuccessAtCluster
from gridbridge.model.campaigns.campaign_sections import (
    CampaignFailuresSection,
    FairShareUnit,
    FinalizeSpeculationSection,
    JobRatioRule,
)
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.speculation import (
    CampaignStragglers,
    CompetingAttempt,
    SpeculativeAttemptsAtCluster,
    SupersededAttempts,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import TaskMissingSince
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayedCampaignUsage:
    """Decayed usage of a campaign at a cluster; all numbers decay alike."""

    campaign: int
    cluster: str
    at: datetime  # time to which the usage is decayed
    used_s: float = 0.0  # decayed slot-seconds of ended tasks
    success_s: float = 0.0  # decayed run time of successful tasks
    successes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareInputs:
    """Priorities, groups and past usage, by which campaigns share free slots."""

    priorities: str = ""  # USER=NUMBER and @GROUP=NUMBER, with blanks between
    # Unix groups of each owner, the primary Unix group first
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by: FairShareUnit = FairShareUnit.NONE
    first_tasks: int = 0  # tasks that each claimant gets before fair share applies
    used_s: Mapping[str, float] = field(default_factory=dict)  # decayed slot-seconds by claimant
    # mean run time of a task, by campaign and cluster
    mean_s: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatio:
    """The job ratio of a campaign at a cluster, kept from one cycle to the next."""

    campaign: int
    cluster: str
    ratio: float  # tasks for each free slot
    free: int = 0  # free slots when the ratio was last used
    submitted: int = 0  # sent tasks, until it is known whether they start or wait


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatioInputs:
    """The numbers from which a new job ratio of a campaign at a cluster is computed."""

    old: float  # previous job ratio
    slots: float  # slots of one task
    max_slots: int  # slots of the cluster
    free: int  # free slots now
    submitted: int
    running: int
    waiting: int  # own tasks that wait longer than a start takes
    allowed: int  # number of waiting tasks that the flood rate allows
    fresh: int = 0  # waiting tasks sent too recently to have started
    others: int = 0  # tasks of other campaigns that wait longer than a start takes
    ended: int = 0  # started tasks that ended in this cycle
    is_wiped: bool = False  # whether nikita deletes waiting tasks of the campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatioUpdate:
    """A new job ratio, with the law and the numbers that led to it."""

    campaign: int
    cluster: str
    law: JobRatioRule
    terms: JobRatioInputs
    ratio: float
    submitted: int  # sent tasks, until it is known whether they start or wait


NO_LIMITS = ClusterArrayLimits()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapacityForCampaigns:
    """Slots and limits that a cluster has for campaigns' tasks."""

    free_slots: int  # free slots for ordinary tasks, which preempt best-effort tasks
    # free slots for best-effort tasks; None: the cluster has only ordinary jobs
    besteffort_slots: int | None = None
    max_slots: int = 0  # slots on hosts where jobs can start
    law: JobRatioRule = JobRatioRule.MEASURED  # rule that predicts the job ratio
    flood_rate: float = 0.0  # allowed waiting tasks per slot of `max_slots`
    is_stressed: bool = False  # whether the stress is above its limit: no task is sent
    stress: float | None = None  # output of the stress script; None: no script or no output
    stress_limit: float = 0.0  # stress from which on no task is sent
    affinity: str = ""  # users and @groups whose campaigns are served first
    slots: int = 0  # slots of all batch queues
    used: int = 0  # slots in use by anybody
    limits: ClusterArrayLimits = NO_LIMITS  # the cluster's limits on array jobs
    is_drained: bool = False  # whether `gridbridge drain` drained the cluster

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
        """Say whether a task with this number of slots can start once slots are free."""
        return not self.is_closed and self.max_slots >= slots

    def is_too_small(self, slots: int) -> bool:
        """Say whether the whole cluster is known to have fewer slots than a task needs."""
        return 0 < self.slots < slots


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCampaignTaskCounts:
    """How many tasks of a campaign a cluster lists, by state."""

    campaign: int
    cluster: str
    waiting: int
    listed: int  # running and waiting tasks
    fresh: int = 0  # waiting tasks sent too recently to have started
    held: int = 0  # waiting tasks that are held, in error or being deleted
    old: int = 0  # startable tasks that wait too long to keep slots for them
    slots: float = 0.0  # slots of one running task; 0: unknown

    @property
    def able(self) -> int:
        """The number of waiting tasks that could start: without hold, error or deletion."""
        return self.waiting - self.held

    def used(self, wished: int) -> float:
        """Return the slots of running tasks; `wished` slots each if their number is unknown."""
        return (self.listed - self.waiting) * (self.slots or wished)

    @property
    def is_stuck(self) -> bool:
        """Whether startable tasks wait, all of them too long to keep free slots for them."""
        return 0 < self.able == self.old


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetry:
    """A task that waits to run again after an ended attempt."""

    campaign: int
    task: int
    attempt: int  # number of the ended attempt
    outcome: TaskAttemptOutcome
    avoid: tuple[str, ...] = ()  # clusters to avoid while another cluster is open
    never: tuple[str, ...] = ()  # clusters where the task never runs again


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCountByExclusions:
    """How many waiting tasks avoid the same clusters of their campaign."""

    tasks: int
    avoid: tuple[str, ...] = ()  # clusters to avoid while another cluster is open
    never: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPrologueOrEpilogueAttempt:
    """The last attempt of a campaign's prologue or epilogue at a cluster."""

    campaign: int
    cluster: str
    step: str
    attempt: int
    array: int
    outcome: TaskAttemptOutcome
    exit_status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrologueOrEpilogueStart:
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
    room: Mapping[str, ClusterCapacityForCampaigns]  # capacity of the clusters that answered
    max_tasks: int  # most tasks of one array
    # counts of unsent tasks that avoid clusters, by campaign
    kept_off: Mapping[int, tuple[TaskCountByExclusions, ...]] = field(default_factory=dict)
    there: tuple[ListedCampaignTaskCounts, ...] = ()
    # clusters to which each test campaign has sent its task
    tried: Mapping[int, frozenset[str]] = field(default_factory=dict)
    ended: tuple[TaskAttempt, ...] = ()  # attempts that this cycle found ended, with outcomes
    over: tuple[CampaignArray, ...] = ()  # arrays whose tasks have all ended
    ratios: tuple[JobRatio, ...] = ()  # stored job ratios
    # (campaign, cluster) pairs whose waiting tasks nikita deletes
    wiped: frozenset[tuple[int, str]] = frozenset()
    disputed: tuple[AttemptOutcomeAtCluster, ...] = ()  # attempts with conflicting accounting records
    missed: tuple[TaskMissingSince, ...] = ()  # tasks that clusters stopped or resumed listing
    sharing: FairShareInputs = field(default_factory=FairShareInputs)
    at: datetime = EPOCH
    asked: frozenset[str] = frozenset()  # queried clusters; `room` has those that answered
    # error messages of clusters that did not answer, by cluster
    silent: Mapping[str, str] = field(default_factory=dict)
    # times at which unreachable clusters answered again, by cluster
    back_at: Mapping[str, datetime] = field(default_factory=dict)
    # clusters that have tasks and were removed from gridbridge.toml
    dropped: frozenset[str] = frozenset()
    earlier: tuple[AttemptOutcomeAtCluster, ...] = ()  # earlier attempts of the tasks in `ended`
    events: tuple[CampaignEvent, ...] = ()  # open events
    records: tuple[CampaignSuccessAtCluster, ...] = ()  # success records of unfinished campaigns
    failures: CampaignFailuresSection = field(default_factory=CampaignFailuresSection)
    # all attempts of tasks that have speculative and live attempts
    rivals: tuple[CompetingAttempt, ...] = ()
    # campaigns near their ends that may get speculative attempts
    tails: tuple[CampaignStragglers, ...] = ()
    finalize: FinalizeSpeculationSection = field(default_factory=FinalizeSpeculationSection)
    arrays_at_once: int = 1  # most arrays of a campaign sent to a cluster in one cycle
    steps: tuple[LastPrologueOrEpilogueAttempt, ...] = ()  # last prologues and epilogues before this cycle
    stepped: tuple[TaskAttempt, ...] = ()  # prologues and epilogues that this cycle found ended
    # (campaign, array) pairs of waiting prologues and epilogues
    idle_steps: frozenset[tuple[int, int]] = frozenset()
    # number of the last array by campaign and cluster, for campaigns with prologues
    last_arrays: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    behind: tuple[int, ...] = ()  # campaigns with arrays in root's ledger that the state file lacks

    @property
    def tests(self) -> frozenset[int]:
        """The numbers of test campaigns, whose waiting tasks are never deleted."""
        return frozenset(campaign.number for campaign in self.campaigns if campaign.jdl.type is CampaignType.TEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTaskSend:
    """A number of a campaign's tasks that a cycle sends to a cluster."""

    campaign: int
    cluster: str
    tasks: int
    kept_off: tuple[TaskCountByExclusions, ...] = ()  # counts of these tasks by avoided clusters
    array_tasks: int = 0  # the cluster's limit of tasks in an array; 0: the runner's limit


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
    unsent: tuple[CampaignArray, ...] = ()  # unneeded prologues that no cluster has accepted yet
    gone: int = 0  # number of arrays in `deleted` that have no listed task
    # live attempts of tasks that succeeded by another attempt
    losers: tuple[SupersededAttempts, ...] = ()
    resumed: tuple[CampaignArray, ...] = ()  # arrays whose interrupted submission is continued
    sends: tuple[CampaignTaskSend, ...] = ()
    stepped: tuple[TaskAttempt, ...] = ()  # ended prologues and epilogues
    steps: tuple[PrologueOrEpilogueStart, ...] = ()  # prologues and epilogues that start
    copies: tuple[SpeculativeAttemptsAtCluster, ...] = ()
    missed: tuple[TaskMissingSince, ...] = ()
    predicted: tuple[JobRatioUpdate, ...] = ()  # job ratios to store
    # changed events and success records
    changes: CampaignEventChanges = field(default_factory=CampaignEventChanges)
    behind: tuple[int, ...] = ()  # campaigns that first recover arrays from root's ledger

    @property
    def is_urgent(self) -> bool:
        """Whether the next cycle starts at once, since rebalancing moved tasks to free slots."""
        return any(attempt.outcome is TaskAttemptOutcome.MOVED for attempt in self.ended)
