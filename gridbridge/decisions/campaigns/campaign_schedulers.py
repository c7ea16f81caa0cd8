"""The schedulers of campaigns, which decide how many tasks of a campaign a cluster gets in one cycle."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gridbridge.decisions.campaigns.tasks_per_free_slot_predictor import count_tasks_by_job_ratio
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.campaign_cycle_plan import TasksPerFreeSlotUpdate
from gridbridge.model.campaigns.jdl import CampaignType


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOfferToScheduler:
    campaign: Campaign
    cluster: str
    free_slots: int  # free slots not yet allotted in this cycle
    may_wait: int  # number of additional tasks of all campaigns that may wait at the cluster
    most: int  # number of tasks that max_jobs, file servers and limits on arrays still allow
    waiting: int = 0  # number of the campaign's tasks that wait at the cluster
    given: int = 0  # number of tasks already allotted to the cluster in this cycle; 0 in `count_tasks_to_start`
    is_tried: bool = False  # whether a task of the campaign was sent to the cluster before
    predicted: TasksPerFreeSlotUpdate | None = None  # job ratio at the cluster; None: unknown

    @property
    def slots(self) -> int:
        """The slots of one task at the cluster."""
        return self.campaign.jdl.clusters[self.cluster].slots


class CampaignScheduler(Protocol):
    """A scheduler decides how many tasks to send, from the offer alone."""

    def count_tasks_to_start(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many tasks to send to free slots."""

    def count_tasks_to_wait(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many additional tasks to send to wait at the cluster."""


class OneTaskPerClusterScheduler:
    """The scheduler of test campaigns, which send only one task to each cluster (CiGri's specification)."""

    def count_tasks_to_start(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return 1 if a task fits and the cluster has not yet got a task of the campaign; otherwise 0."""
        return int(not offer.is_tried and offer.free_slots >= offer.slots)

    def count_tasks_to_wait(self, _: ClusterOfferToScheduler, /) -> int:
        """Return 0, because no task of a test campaign is sent to wait."""
        return 0


class WorkqueueScheduler:
    """The scheduler of usual campaigns: fills free slots, then lets more tasks wait (CiGri: workqueue)."""

    def count_tasks_to_start(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many tasks the job ratio (tasks per free slot) allows; 0 without a job ratio."""
        if offer.predicted is None:
            return 0
        free_slots = offer.free_slots + offer.waiting * offer.slots
        ratio, slots = offer.predicted.ratio, max(1.0, offer.predicted.terms.slots)
        return max(0, min(count_tasks_by_job_ratio(ratio, free_slots, slots) - offer.waiting, offer.most))

    def count_tasks_to_wait(self, offer: ClusterOfferToScheduler, /) -> int:
        """Return how many additional tasks may wait at the cluster, within the limit of the offer."""
        return max(0, min(offer.may_wait, offer.most - offer.given)) if offer.predicted else 0


SCHEDULERS: Mapping[CampaignType, CampaignScheduler] = {
    CampaignType.TEST: OneTaskPerClusterScheduler(),
    CampaignType.DEFAULT: WorkqueueScheduler(),
}
