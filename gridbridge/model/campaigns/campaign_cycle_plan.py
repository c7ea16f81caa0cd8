"""The facts from which one cycle of the runner decides, and the plan that the cycle makes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf

from gridbridge.model.campaigns.campaign import (
    ALONE,
    AttemptOutcomeAtCluster,
    Campaign,
    CampaignArray,
    CampaignCluster,
    CampaignState,
    TaskAttempt,
    TaskAttemptOutcome,
    TaskGroupSize,
)
from gridbridge.model.campaigns.campaign_configuration_sections import (
    CampaignFailuresSection,
    FairShareUnit,
    JobRatioRule,
    LateSpeculationSection,
)
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    CampaignSuccessAtCluster,
    FailureEventsChangedInCycle,
)
from gridbridge.model.campaigns.campaign_predecessors import PredecessorProgress
from gridbridge.model.campaigns.checkpoint_statistics import (
    CampaignCheckpointTimes,
    CheckpointCarry,
    CheckpointOfWaitingTask,
    TaskLossRate,
)
from gridbridge.model.campaigns.file_server_load import FileServerLimit, FileServerSituation
from gridbridge.model.campaigns.grouped_tasks import PullingJob, TasksForRunningJob
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.nights import Night
from gridbridge.model.campaigns.speculative_attempts import (
    CompetingAttempt,
    SpeculativeAttemptsAtCluster,
    SupersededAttempts,
    TasksRunningNearCampaignEnd,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import TaskMissingSince
from gridbridge.model.campaigns.task_resource_usage import MeasuredTaskAttempt, TaskUsageAtCluster
from gridbridge.model.jobs_and_accounting import ClusterArrayLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class DecayedCampaignUsage:
    campaign: int
    cluster: str
    at: datetime  # time for which the decayed numbers are computed
    used_s: float = 0.0  # used slot-seconds of ended tasks, decayed
    success_s: float = 0.0  # sum of the run times of successful tasks, decayed
    successes: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareInputs:
    priorities: str = ""  # USER=NUMBER and @GROUP=NUMBER, with blanks between
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # Unix groups by owner, primary group first
    by: FairShareUnit = FairShareUnit.NONE
    first_tasks: int = 0  # number of tasks that everybody gets before slots are shared
    used_s: Mapping[str, float] = field(default_factory=dict)  # decayed slot-seconds, by user, project or group
    mean_s: Mapping[int, Mapping[str, float]] = field(default_factory=dict)  # mean run time, by campaign and cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRatio:
    campaign: int
    cluster: str
    ratio: float
    free: int = 0  # number of free slots when the ratio was last used
    submitted: int = 0  # number of sent tasks whose start is not yet known


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPerFreeSlotInputs:
    old: float  # previous job ratio
    slots: float  # slots of one task
    max_slots: int  # slots on hosts where jobs can start
    free: int
    submitted: int
    running: int
    waiting: int  # number of the campaign's tasks that have waited longer than a start takes
    allowed: int  # number of waiting tasks that the flood rate allows
    fresh: int = 0  # number of waiting tasks that were sent too recently to have started
    others: int = 0  # number of tasks of other campaigns that have waited longer than a start takes
    ended: int = 0  # number of the campaign's started tasks whose end this cycle found
    is_wiped: bool = False  # whether nikita deletes waiting tasks of the campaign at this cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksPerFreeSlotUpdate:
    campaign: int
    cluster: str
    law: JobRatioRule
    terms: TasksPerFreeSlotInputs
    ratio: float
    submitted: int


NO_LIMITS = ClusterArrayLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCapacityForCampaigns:
    free_slots: int  # slots that ordinary tasks can get: free slots and slots of best-effort tasks
    besteffort_slots: int | None = None  # free slots for best-effort tasks; None: the cluster runs only ordinary jobs
    max_slots: int = 0
    law: JobRatioRule = JobRatioRule.MEASURED
    flood_rate: float = 0.0
    is_stressed: bool = False
    stress: float | None = None  # output of the stress script; None: no script or no output
    stress_limit: float = 0.0  # no task is sent at this stress or more
    affinity: str = ""  # users and @groups that the cluster serves first, separated by blanks
    slots: int = 0  # slots of all batch queues
    used: int = 0
    limits: ClusterArrayLimits = NO_LIMITS
    is_drained: bool = False
    inputs_ahead_bytes: float = inf  # largest number of bytes of input files for tasks without a free slot
    semi_slots: int = 0  # slots that ordinary tasks of type semi-best-effort may use

    @property
    def free_besteffort_slots(self) -> int:
        return self.free_slots if self.besteffort_slots is None else self.besteffort_slots

    @property
    def is_closed(self) -> bool:
        """Whether the cluster gets no tasks now."""
        return self.is_stressed or self.is_drained

    def may_start_task_of_slots(self, slots: int) -> bool:
        """Say whether a task with this number of slots can start once enough slots are free."""
        return not self.is_closed and self.max_slots >= slots

    def has_too_few_slots(self, slots: int) -> bool:
        return 0 < self.slots < slots


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTaskCountsAtCluster:
    campaign: int
    cluster: str
    waiting: int
    listed: int  # number of running and waiting tasks
    fresh: int = 0
    held: int = 0  # number of waiting tasks that are held, in error or being deleted
    old: int = 0  # number of startable tasks that have waited so long that no free slots are kept for them
    slots: float = 0.0  # mean number of slots of a running task; 0: unknown
    ordinary: int = 0  # number of tasks of type semi-best-effort that are ordinary jobs

    @property
    def campaign_and_cluster(self) -> CampaignCluster:
        return self.campaign, self.cluster

    @property
    def startable_task_count(self) -> int:
        """The number of waiting tasks that are not held, in error or being deleted."""
        return self.waiting - self.held

    def used_slots(self, requested: int) -> float:
        """Return the slots that running tasks use; a task of unknown size counts `requested` slots."""
        return (self.listed - self.waiting) * (self.slots or requested)

    @property
    def have_tasks_waited_too_long(self) -> bool:
        """Whether all startable tasks have waited so long that no free slots are kept for them."""
        return 0 < self.startable_task_count == self.old


NO_TASKS = CampaignTaskCountsAtCluster(campaign=0, cluster="", waiting=0, listed=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRetry:
    campaign: int
    task: int
    attempt: int
    outcome: TaskAttemptOutcome
    avoid: tuple[str, ...] = ()
    never: tuple[str, ...] = ()  # clusters that never get the task again
    # how long the task waits while the cluster with its checkpoint is closed; 0: no checkpoint
    checkpoint_wait_s: float = 0.0
    others: tuple[str, ...] = ()  # clusters without the checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCountByExclusions:
    """A number of unsent tasks that avoid the same clusters."""

    tasks: int
    avoid: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastPrologueOrEpilogueAttempt:
    campaign: int
    cluster: str
    step: str
    attempt: int
    array: int
    outcome: TaskAttemptOutcome
    exit_status: int | None = None

    @property
    def campaign_and_cluster(self) -> CampaignCluster:
        return self.campaign, self.cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPrologueOrEpilogueStart:
    campaign: int
    cluster: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedInputCarry:
    """What one carry of input files to a cluster has shown."""

    copied_bytes: int
    took_s: float  # seconds of copying, without checksums
    next_task_bytes: float  # mean bytes that the campaign's next tasks lack at the cluster
    missing: Mapping[int, str] = field(default_factory=dict)  # why files could not be carried, by task


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCarryCost:
    """The time in which the input files of a campaign's next tasks are carried to a cluster."""

    campaign: int
    cluster: str
    task_s: float | None  # seconds for each task; None: no carry has been timed
    task_bytes: float = 0.0
    bytes_per_s: float = inf  # rate of carries to the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCycleSituation:
    campaigns: tuple[Campaign, ...]  # unfinished campaigns, sorted by number
    waiting: Mapping[int, int]  # number of unsent tasks that may be sent, by campaign
    arrays: tuple[CampaignArray, ...]  # arrays that may have live tasks
    room: Mapping[str, ClusterCapacityForCampaigns]  # the clusters that answered
    max_tasks: int  # largest allowed number of tasks in an array
    # groups of unsent tasks that avoid some clusters, by campaign
    kept_off: Mapping[int, tuple[TaskCountByExclusions, ...]] = field(default_factory=dict)
    there: tuple[CampaignTaskCountsAtCluster, ...] = ()
    tried: Mapping[int, frozenset[str]] = field(default_factory=dict)  # clusters that got a task, by test campaign
    ended: tuple[TaskAttempt, ...] = ()  # attempts whose end this cycle has found
    over: tuple[CampaignArray, ...] = ()  # arrays whose tasks have all ended
    ratios: tuple[JobRatio, ...] = ()
    wiped: frozenset[tuple[int, str]] = frozenset()  # pairs (campaign, cluster) with waiting tasks that nikita deletes
    disputed: tuple[AttemptOutcomeAtCluster, ...] = ()  # attempts with contradicting accounting records
    missed: tuple[TaskMissingSince, ...] = ()  # tasks that have disappeared from a job list, or appeared again
    sharing: FairShareInputs = field(default_factory=FairShareInputs)
    at: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    asked: frozenset[str] = frozenset()  # clusters that were queried
    silent: Mapping[str, str] = field(default_factory=dict)  # error message, by cluster that did not answer
    back_at: Mapping[str, datetime] = field(default_factory=dict)  # first answer after an outage, by cluster
    dropped: frozenset[str] = frozenset()  # clusters removed from gridbridge.toml that have tasks
    earlier: tuple[AttemptOutcomeAtCluster, ...] = ()  # earlier attempts of the tasks in `ended`
    events: tuple[CampaignEvent, ...] = ()
    records: tuple[CampaignSuccessAtCluster, ...] = ()
    usages: tuple[TaskUsageAtCluster, ...] = ()
    measured: tuple[MeasuredTaskAttempt, ...] = ()  # attempts whose usage was read since the last cycle
    failures: CampaignFailuresSection = field(default_factory=CampaignFailuresSection)
    rivals: tuple[CompetingAttempt, ...] = ()  # all attempts of unfinished tasks that have a speculative attempt
    tails: tuple[TasksRunningNearCampaignEnd, ...] = ()  # campaigns near their ends that may get speculative attempts
    finalize: LateSpeculationSection = field(default_factory=LateSpeculationSection)
    arrays_at_once: int = 1  # number of arrays that a campaign may send to a cluster in a cycle
    steps: tuple[LastPrologueOrEpilogueAttempt, ...] = ()  # prologues and epilogues before this cycle
    stepped: tuple[TaskAttempt, ...] = ()  # prologues and epilogues whose end this cycle has found
    idle_steps: frozenset[tuple[int, int]] = frozenset()  # pairs (campaign, array) of prologues and epilogues that wait
    # newest array number by campaign and cluster; only campaigns with a prologue or epilogue
    last_arrays: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    behind: tuple[int, ...] = ()  # campaigns with arrays in root's ledger that the state file lacks
    carry_costs: tuple[InputCarryCost, ...] = ()  # clusters to which input files are carried
    unbrought: frozenset[int] = frozenset()  # campaigns whose outputs are still to be brought home
    servers: FileServerSituation = field(default_factory=FileServerSituation)
    predecessors: Mapping[int, PredecessorProgress] = field(default_factory=dict)  # by number of the predecessor
    # number of unsent tasks that wait for tasks of predecessors, by campaign; not counted in `waiting`
    awaiting: Mapping[int, int] = field(default_factory=dict)
    loss_rates: tuple[TaskLossRate, ...] = ()
    checkpoint_times: tuple[CampaignCheckpointTimes, ...] = ()
    waiting_checkpoints: tuple[CheckpointOfWaitingTask, ...] = ()
    # bytes per second of carries to clusters that don't see the files of this host, by cluster and owner
    carry_rates: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    # the present night and the next nights, by cluster with nightly tasks
    nights: Mapping[str, tuple[Night, ...]] = field(default_factory=dict)
    group_below_s: float = 0.0  # tasks with a shorter mean run time are grouped into jobs
    pull_wait_s: int = 0  # how long jobs of several tasks wait for further tasks; 0: they get none
    pull_ahead_s: float = 0.0  # running jobs get tasks for this time
    pulling: tuple[PullingJob, ...] = ()  # jobs whose records were read since the last cycle

    @property
    def test_campaigns(self) -> frozenset[int]:
        """The numbers of test campaigns, whose waiting tasks are never deleted."""
        return frozenset(campaign.number for campaign in self.campaigns if campaign.jdl.type is CampaignType.TEST)

    @property
    def uncancelled_campaigns(self) -> frozenset[int]:
        return frozenset(
            campaign.number for campaign in self.campaigns if campaign.state is not CampaignState.CANCELLED
        )

    @property
    def unfinished_arrays(self) -> tuple[CampaignArray, ...]:
        over = {array.campaign_and_array_number for array in self.over}
        return tuple(array for array in self.arrays if array.campaign_and_array_number not in over)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCampaignTaskSend:
    campaign: int
    cluster: str
    tasks: int
    kept_off: tuple[TaskCountByExclusions, ...] = ()
    array_tasks: int = 0  # largest number of tasks in an array at the cluster; 0: the runner's limit
    ordinary: int = 0  # number of tasks of type semi-best-effort that become ordinary jobs
    checkpoint_s: int = 0  # interval between checkpoints; 0: none, or the JDL gives the interval
    unshared_first: int = 0  # how many tasks that share no input file go before tasks that share files
    group: TaskGroupSize = ALONE

    @property
    def jobs(self) -> int:
        """The number of jobs, each of which has the slots of one task."""
        return -(-self.ordinary // self.group.tasks) - (self.ordinary - self.tasks) // self.group.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCyclePlan:
    """What one cycle of the runner does, in the order of the fields."""

    ended: tuple[TaskAttempt, ...] = ()
    arrays: tuple[CampaignArray, ...] = ()
    again: tuple[TaskRetry, ...] = ()
    over: tuple[CampaignArray, ...] = ()
    finished: tuple[int, ...] = ()
    wound_up: tuple[int, ...] = ()  # cancelled campaigns whose epilogues have ended
    cancelled: tuple[int, ...] = ()  # campaigns to cancel, because a predecessor has failed
    deleted: tuple[CampaignArray, ...] = ()  # arrays of cancelled campaigns
    unneeded: tuple[CampaignArray, ...] = ()  # waiting prologues that no task needs any more
    unsent: tuple[CampaignArray, ...] = ()  # unsubmitted prologues that no task needs any more
    gone: int = 0  # how many arrays in `deleted` have no task in the job list
    losers: tuple[SupersededAttempts, ...] = ()  # live attempts to end, because another attempt of the task succeeded
    resumed: tuple[CampaignArray, ...] = ()  # arrays whose interrupted submission is continued
    sends: tuple[PlannedCampaignTaskSend, ...] = ()
    stepped: tuple[TaskAttempt, ...] = ()
    steps: tuple[CampaignPrologueOrEpilogueStart, ...] = ()
    copies: tuple[SpeculativeAttemptsAtCluster, ...] = ()
    added: tuple[TasksForRunningJob, ...] = ()
    missed: tuple[TaskMissingSince, ...] = ()
    predicted: tuple[TasksPerFreeSlotUpdate, ...] = ()
    changes: FailureEventsChangedInCycle = field(default_factory=FailureEventsChangedInCycle)
    measured: tuple[MeasuredTaskAttempt, ...] = ()
    behind: tuple[int, ...] = ()  # campaigns that send no task until arrays are restored from root's ledger
    server_limits: tuple[FileServerLimit, ...] = ()  # limits of tasks at the clusters of file servers
    carries: tuple[CheckpointCarry, ...] = ()  # carries of checkpoints that the tasks in `sends` may need

    @property
    def starts_next_cycle_at_once(self) -> bool:
        """Whether the next cycle starts at once, because rebalancing moved tasks to free slots."""
        return any(attempt.outcome is TaskAttemptOutcome.MOVED for attempt in self.ended)
