"""Speculative attempts at the end of a campaign: inputs and results of decisions."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gridbridge.model.campaigns.campaign import CampaignArray, TaskAttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetingAttempt:
    """An attempt of a task that has several attempts by speculation."""

    campaign: int
    task: int
    attempt: int
    array: int
    place: int  # array index of the attempt
    cluster: str
    outcome: TaskAttemptOutcome
    is_copy: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveAttempt:
    """An attempt without a known end, with its elapsed time."""

    task: int
    attempt: int
    cluster: str
    elapsed_s: float  # time since its start, or since its submission at a silent cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStragglers:
    """Long-running tasks of a campaign near its end, with all their attempts."""

    campaign: int
    sent_s: float  # time since the campaign's last task was sent
    durations_s: tuple[float, ...]  # run times of ended tasks
    live: tuple[LiveAttempt, ...]
    # clusters where a task failed, by task
    failed_at: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeAttemptsAtCluster:
    """Tasks of a campaign that get a speculative attempt at a cluster."""

    campaign: int
    cluster: str
    tasks: tuple[int, ...]
    beyond_s: int  # run time that the tasks have exceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededAttempts:
    """Attempts of an array to be ended, since their tasks succeeded by another attempt."""

    array: CampaignArray
    places: tuple[range, ...]
    is_whole: bool  # whether the array has no other unfinished task


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCompetingAttempt:
    """A further attempt of a shown task, beside the task's last attempt."""

    attempt: int
    cluster: str
    outcome: TaskAttemptOutcome
    beyond_s: int | None  # run time that caused the attempt; None: not speculative

    @property
    def is_live(self) -> bool:
        """Whether no end of the attempt is known."""
        return self.outcome is TaskAttemptOutcome.PENDING
