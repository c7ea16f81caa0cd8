"""Speculative (extra) attempts of tasks at the end of a campaign: what is planned, and from what."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.campaigns.campaign import CampaignArray, TaskAttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetingAttempt:
    """An attempt, speculative or ordinary, of a task that has a speculative attempt."""

    campaign: int
    task: int
    attempt: int
    array: int
    place: int
    cluster: str
    outcome: TaskAttemptOutcome
    is_copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTaskAttempt:
    task: int
    attempt: int
    cluster: str
    elapsed_s: float  # time since the start; since the submission if the cluster gives no answer


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksRunningNearCampaignEnd:
    campaign: int
    sent_s: float  # time since the campaign's last task was sent
    durations_s: tuple[float, ...]  # run times of ended tasks
    live: tuple[RunningTaskAttempt, ...]
    failed_at: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # clusters with failures, by task


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeAttemptsAtCluster:
    campaign: int
    cluster: str
    tasks: tuple[int, ...]
    beyond_s: int  # run time that each of the tasks has exceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededAttempts:
    """Attempts to end in one array, because other attempts of the same tasks succeeded."""

    array: CampaignArray
    places: tuple[range, ...]
    is_whole: bool  # whether all live tasks of a speculative array end


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCompetingAttempt:
    """An attempt that runs beside the last attempt of the same task, as published for all users."""

    attempt: int
    cluster: str
    outcome: TaskAttemptOutcome
    beyond_s: int | None  # run time after which the task got the attempt; None: not speculative

    @property
    def is_live(self) -> bool:
        """Whether the attempt has no known end."""
        return self.outcome is TaskAttemptOutcome.PENDING
