"""The schedulers of campaigns, which decide how many tasks of a campaign a cluster gets in one cycle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import count_tasks_by_job_ratio
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.campaign_cycle_plan import JobRatioUpdate
from gridbridge.model.campaigns.jdl import CampaignType


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
    """A scheduler decides from nothing but an offer how many tasks to send."""

    def to_start(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many tasks to send to free slots."""

    def to_wait(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many tasks to send in addition, which will wait at the cluster."""


class TaskPerClusterScheduler:
    """Scheduler of test campaigns, which send one task in all to each cluster (CiGri scheduler specification)."""

    def to_start(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return 1 if the cluster got no task yet and a task fits, else 0."""
        return int(not offer.is_tried and offer.free_slots >= offer.slots)

    def to_wait(self, _: ClusterOfferToScheduler, /) -> int:
        """Return 0, because no task of a test campaign is sent to wait."""
        return 0


class WorkqueueScheduler:
    """Scheduler of usual campaigns: fill free slots, and let more tasks wait (CiGri's workqueue scheduling)."""

    def to_start(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return the number of tasks that the job ratio gives; 0 without a job ratio."""
        if offer.predicted is None:
            return 0
        free_slots = offer.free_slots + offer.waiting * offer.slots
        ratio, slots = offer.predicted.ratio, max(1.0, offer.predicted.terms.slots)
        return max(0, min(count_tasks_by_job_ratio(ratio, free_slots, slots) - offer.waiting, offer.most))

    def to_wait(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return the number of tasks that may wait, within the limit of the offer."""
        return max(0, min(offer.may_wait, offer.most - offer.given)) if offer.predicted else 0


SCHEDULERS: Mapping[CampaignType, CampaignScheduler] = {
    CampaignType.TEST: TaskPerClusterScheduler(),
    CampaignType.DEFAULT: WorkqueueScheduler(),
}
