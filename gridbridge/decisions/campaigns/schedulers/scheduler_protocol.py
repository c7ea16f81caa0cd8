"""The functions of a campaign scheduler, and the inputs of its decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.campaign_sections import FinalizeSpeculationSection
from gridbridge.model.campaigns.cycle_plan import JobRatioUpdate
from gridbridge.model.campaigns.speculation import LiveAttempt, SpeculativeAttemptsAtCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOfferToScheduler:
    """A cluster that is offered to a campaign in one cycle, with its free capacity."""

    campaign: Campaign
    cluster: str
    free_slots: int  # free slots not yet allotted in this cycle
    may_wait: int  # number of further tasks, of any campaign, that may wait
    most: int  # limit of tasks to send, by max_jobs and array limits
    waiting: int = 0  # waiting tasks of the campaign at the cluster
    given: int = 0  # tasks allotted to the campaign in this cycle
    is_tried: bool = False  # whether the campaign has sent a task to the cluster
    predicted: JobRatioUpdate | None = None  # job ratio at the cluster; None: unknown

    @property
    def slots(self) -> int:
        """The slots of one task at the cluster."""
        return self.campaign.jdl.clusters[self.cluster].slots


class CampaignScheduler(Protocol):
    """A scheduler module: two functions of one offer, without other inputs."""

    def to_start(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many tasks to send to free slots."""
        ...

    def to_wait(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many tasks to send in addition, which will wait at the cluster."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignNearEnd:
    """A campaign near its end, from which speculative attempts are chosen."""

    campaign: int
    left: int  # number of unfinished tasks
    unsent: int  # number of unsent tasks
    sent_s: float  # time since the last task was sent
    free: Mapping[str, int]  # number of tasks that fit into free slots; best cluster first
    durations_s: Sequence[float]  # run times of ended tasks
    live: Sequence[LiveAttempt]  # live attempts: all live attempts of a task, or none
    made: Mapping[int, int]  # number of speculative attempts so far, by task
    limits: FinalizeSpeculationSection
    # clusters where a task failed, by task
    failed_at: Mapping[int, Sequence[str]] = field(default_factory=dict)


class SpeculationScheduler(Protocol):
    """A module with a function that chooses speculative attempts near a campaign's end."""

    def choose_speculative_attempts(self, end: CampaignNearEnd, /) -> tuple[SpeculativeAttemptsAtCluster, ...]:
        """Return which tasks get a speculative attempt at which cluster."""
        ...
