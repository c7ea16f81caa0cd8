"""What a campaign scheduler is asked, and what it may look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.campaign_sections import Finalize
from gridbridge.model.campaigns.job_ratio import JobRatioPrediction
from gridbridge.model.campaigns.speculation import LiveAttempt, SpeculativeAttempts


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingOffer:
    """One campaign at one cluster, as it is offered that in one cycle."""

    campaign: Campaign
    cluster: str
    free_slots: int  # that nobody has been given in this cycle
    may_wait: int  # tasks, of all campaigns
    most: int  # tasks that may be sent, by the campaign's max_jobs and the length of an array
    waiting: int = 0  # tasks of the campaign there
    given: int = 0  # tasks that it was given there in this cycle
    is_tried: bool = False  # a task of the campaign was sent there before
    predicted: JobRatioPrediction | None = None  # its job ratio there; None when nothing is known

    @property
    def slots(self) -> int:
        """The slots of a task there."""
        return self.campaign.jdl.clusters[self.cluster].slots


class Scheduler(Protocol):
    """A module with these two functions, which look at nothing else."""

    def to_start(self, offer: SchedulingOffer, /) -> int:
        """Return how many tasks to send because slots are free for them."""
        ...

    def to_wait(self, offer: SchedulingOffer, /) -> int:
        """Return how many to send besides, which will wait there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignTail:
    """One campaign as it may be at its end."""

    campaign: int
    left: int  # tasks that have not ended
    unsent: int  # of those: that no cluster has got
    sent_s: float  # since the last of its tasks was sent
    free: Mapping[str, int]  # tasks for which slots are left, by cluster, in the order of choice
    durations_s: Sequence[float]  # of tasks that ended
    live: Sequence[LiveAttempt]  # of each task all attempts, or none
    made: Mapping[int, int]  # copies that tasks have had
    limits: Finalize
    failed_at: Mapping[int, Sequence[str]] = field(default_factory=dict)  # clusters, by task


class TailScheduler(Protocol):
    """A module with this function, for the end of campaigns whose tasks may be copied."""

    def copies(self, end: CampaignTail, /) -> tuple[SpeculativeAttempts, ...]:
        """Return which tasks get a copy where."""
        ...
