"""Speculative attempts of tasks at the end of a campaign: inputs and results of their planning."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.campaigns.campaign import CampaignArray, TaskAttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetingAttempt:
    """An attempt of a task with a speculative attempt."""

    campaign: int
    task: int
    attempt: int
    array: int
    place: int  # array index of the attempt
    cluster: str
    outcome: TaskAttemptOutcome
    is_copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTaskAttempt:
    """An attempt that has not ended, with the time that has passed since its start."""

    task: int
    attempt: int
    cluster: str
    elapsed_s: float  # time since the start; if the cluster gives no answer, since the submission


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignLateTasks:
    """The tasks that still run near a campaign's end."""

    campaign: int
    sent_s: float  # time since the campaign's last task was sent
    durations_s: tuple[float, ...]  # run times of ended tasks
    live: tuple[RunningTaskAttempt, ...]
    failed_at: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # clusters at which each task failed


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeAttemptsAtCluster:
    """Tasks of a campaign that get a speculative attempt at one cluster."""

    campaign: int
    cluster: str
    tasks: tuple[int, ...]
    beyond_s: int  # run time that each task has exceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededAttempts:
    """Attempts of an array to end, because another attempt of their task has succeeded."""

    array: CampaignArray
    places: tuple[range, ...]
    is_whole: bool  # all unfinished tasks of the array are superseded


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCompetingAttempt:
    """An attempt that runs beside the last attempt of the same task, as published for all users."""

    attempt: int
    cluster: str
    outcome: TaskAttemptOutcome
    beyond_s: int | None  # run time after which the task got the attempt; None: not speculative

    @property
    def is_live(self) -> bool:
        """Whether the attempt has no known end."""
        return self.outcome is TaskAttemptOutcome.PENDING
