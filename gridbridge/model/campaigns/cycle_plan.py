"""What a cycle of the runner looks at, and what it decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from gridbridge.model.campaigns.campaign import Array, Attempt, Campaign, TaskOutcome
from gridbridge.model.campaigns.campaign_events import (
    CampaignEvent,
    ClusterSuccessRecord,
    EventChanges,
)
from gridbridge.model.campaigns.campaign_sections import Failures, Finalize
from gridbridge.model.campaigns.cancellation import MissingSince
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.job_ratio import JobRatio, JobRatioPrediction, JobRatioRule
from gridbridge.model.campaigns.speculation import (
    CompetingAttempt,
    SpeculativeAttempts,
    StragglerTail,
    SupersededAttempts,
)
from gridbridge.model.campaigns.usage_sharing import UsageSharing
from gridbridge.model.job import ArrayLimits

NO_LIMITS = ArrayLimits()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRoom:
    """What a cluster has for campaigns."""

    free_slots: int  # for ordinary tasks, for which best-effort ones make way
    besteffort_slots: int | None = None  # for best-effort tasks; None: they are ordinary jobs there
    max_slots: int = 0  # where work can start at all
    law: JobRatioRule = JobRatioRule.MEASURED  # of the job ratio
    flood_rate: float = 0.0  # tasks that may wait, for each of those slots
    is_stressed: bool = False  # nothing is sent there now
    stress: float | None = None  # as its script says; None: there is none, or it does not tell
    stress_limit: float = 0.0  # from there on it is stressed
    affinity: str = ""  # users and @groups whose campaigns come here first
    slots: int = 0  # all of its queues for batch jobs
    used: int = 0  # of those, by anybody
    limits: ArrayLimits = NO_LIMITS  # of arrays there
    is_drained: bool = False  # somebody wants nothing more to be sent there (gridbridge drain)

    def free(self, *, is_besteffort: bool) -> int:
        """Return the slots that are free for tasks of that kind."""
        if is_besteffort and self.besteffort_slots is not None:
            return self.besteffort_slots
        return self.free_slots

    @property
    def is_closed(self) -> bool:
        """Whether nothing is sent there now, whoever's it is."""
        return self.is_stressed or self.is_drained

    def may_start(self, slots: int) -> bool:
        """Say whether a task of so many slots may start there, once they are free."""
        return not self.is_closed and self.max_slots >= slots

    def is_too_small(self, slots: int) -> bool:
        """Say whether the whole cluster is known to have fewer slots."""
        return 0 < self.slots < slots


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """How many tasks of a campaign a cluster lists."""

    campaign: int
    cluster: str
    waiting: int
    listed: int  # with those that wait
    fresh: int = 0  # of those that wait: sent just now
    held: int = 0  # of those that wait: that can't start, for a hold, an error or a deletion
    old: int = 0  # of those that wait and could start: for whom no slots are kept any more
    slots: float = 0.0  # of one that runs; 0: that is not known

    @property
    def able(self) -> int:
        """How many wait that could start."""
        return self.waiting - self.held

    def used(self, wished: int) -> float:
        """Return how many slots those that run hold: each `wished`, where it is not known."""
        return (self.listed - self.waiting) * (self.slots or wished)

    @property
    def is_stuck(self) -> bool:
        """Whether tasks wait here that could start, and slots are kept for none of them."""
        return 0 < self.able == self.old


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """What an attempt came to, and where."""

    campaign: int
    task: int
    attempt: int
    cluster: str
    outcome: TaskOutcome
    is_overrun: bool = False  # it came to a copy, by overrunning its walltime

    @classmethod
    def of(cls, attempt: Attempt, cluster: str) -> Self:
        """Return what an ended attempt came to at a cluster."""
        return cls(
            campaign=attempt.campaign,
            task=attempt.task,
            attempt=attempt.attempt,
            cluster=cluster,
            outcome=attempt.outcome,
            is_overrun=attempt.is_overrun,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A task that waits once more after this attempt."""

    campaign: int
    task: int
    attempt: int  # that has ended
    outcome: TaskOutcome
    avoid: tuple[str, ...] = ()  # as long as one that did not fail it is open
    never: tuple[str, ...] = ()  # it does not go there at all


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOff:
    """How many tasks do not go to clusters that their campaign names."""

    tasks: int
    avoid: tuple[str, ...] = ()  # as long as one that did not fail them is open
    never: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProloguePhaseResult:
    """The last attempt of a campaign's prologue or epilogue at a cluster."""

    campaign: int
    cluster: str
    step: str
    attempt: int
    array: int
    outcome: TaskOutcome
    exit_status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrologueStep:
    """A prologue or epilogue that is begun now."""

    campaign: int
    cluster: str
    step: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleSituation:
    """All that a decision may look at."""

    campaigns: tuple[Campaign, ...]  # that have not ended, by number
    waiting: Mapping[int, int]  # tasks that were not sent, by campaign
    arrays: tuple[Array, ...]  # of which a task may live
    room: Mapping[str, ClusterRoom]  # of the clusters that answered
    max_tasks: int  # of one array
    kept_off: Mapping[int, tuple[KeptOff, ...]] = field(default_factory=dict)  # of those that wait
    there: tuple[ClusterView, ...] = ()
    tried: Mapping[int, frozenset[str]] = field(default_factory=dict)  # clusters, of test campaigns
    ended: tuple[Attempt, ...] = ()  # with their outcomes
    over: tuple[Array, ...] = ()  # whose tasks all have ended
    ratios: tuple[JobRatio, ...] = ()  # that are kept
    wiped: frozenset[tuple[int, str]] = frozenset()  # campaigns where nikita deletes what waited
    disputed: tuple[AttemptOutcome, ...] = ()  # of whose ends the records tell several
    missed: tuple[MissingSince, ...] = ()  # which tasks are missing: what has changed of that
    sharing: UsageSharing = field(default_factory=UsageSharing)
    at: datetime = EPOCH
    asked: frozenset[str] = frozenset()  # clusters, of which `room` has those that answered
    silent: Mapping[str, str] = field(
        default_factory=dict
    )  # what clusters said that did not answer
    back_at: Mapping[str, datetime] = field(
        default_factory=dict
    )  # clusters that were away, till then
    dropped: frozenset[str] = frozenset()  # that are used and left gridbridge.toml
    earlier: tuple[AttemptOutcome, ...] = ()  # attempts of the tasks that have ended now
    events: tuple[CampaignEvent, ...] = ()  # that are open
    records: tuple[ClusterSuccessRecord, ...] = ()  # of unfinished campaigns
    failures: Failures = field(default_factory=Failures)
    rivals: tuple[
        CompetingAttempt, ...
    ] = ()  # attempts of tasks that had copies, while one of a task lives
    tails: tuple[StragglerTail, ...] = ()  # of campaigns near their ends, whose tasks may be copied
    finalize: Finalize = field(default_factory=Finalize)
    arrays_at_once: int = 1  # of a campaign, to a cluster, in one cycle
    steps: tuple[
        ProloguePhaseResult, ...
    ] = ()  # of unfinished campaigns, as they were before this look
    stepped: tuple[Attempt, ...] = ()  # of those: what has ended
    idle_steps: frozenset[tuple[int, int]] = frozenset()  # campaigns, arrays: those that wait
    last_arrays: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # with steps
    behind: tuple[int, ...] = ()  # campaigns of which root's ledger knows more

    @property
    def tests(self) -> frozenset[int]:
        """The numbers of test campaigns: nobody deletes their tasks, however long they wait."""
        return frozenset(
            campaign.number for campaign in self.campaigns if campaign.jdl.type is CampaignType.TEST
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSend:
    """So many tasks of a campaign go to a cluster."""

    campaign: int
    cluster: str
    tasks: int
    kept_off: tuple[KeptOff, ...] = ()  # of those tasks; the others keep off no cluster
    array_tasks: int = 0  # as many as an array may have there; 0: as the runner's


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """What one cycle does, in this order."""

    ended: tuple[Attempt, ...] = ()
    arrays: tuple[Array, ...] = ()  # those of which they are
    again: tuple[Retry, ...] = ()  # of those: their tasks are tried once more
    over: tuple[Array, ...] = ()
    finished: tuple[int, ...] = ()  # campaigns
    wound_up: tuple[int, ...] = ()  # cancelled ones, whose epilogues are over
    deleted: tuple[Array, ...] = ()  # of cancelled campaigns
    unneeded: tuple[Array, ...] = ()  # prologues that wait, and for which no task is left
    unsent: tuple[Array, ...] = ()  # others that no cluster has taken, as far as is known
    gone: int = 0  # of `deleted`: nothing of them is listed any more, and their ends are waited for
    losers: tuple[SupersededAttempts, ...] = ()  # attempts whose tasks have succeeded otherwise
    resumed: tuple[Array, ...] = ()  # whose submission was begun and not finished
    sends: tuple[TaskSend, ...] = ()
    stepped: tuple[Attempt, ...] = ()  # prologues and epilogues that ended
    steps: tuple[PrologueStep, ...] = ()  # that are begun
    copies: tuple[SpeculativeAttempts, ...] = ()
    missed: tuple[MissingSince, ...] = ()
    predicted: tuple[JobRatioPrediction, ...] = ()  # ratios that are kept
    changes: EventChanges = field(default_factory=EventChanges)  # of events
    behind: tuple[int, ...] = ()  # campaigns of which the ledger's arrays are taken over first

    @property
    def is_urgent(self) -> bool:
        """Whether the next cycle shall come at once: tasks have left for slots that are free."""
        return any(attempt.outcome is TaskOutcome.MOVED for attempt in self.ended)
