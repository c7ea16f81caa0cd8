"""Compute within the clusters' limits how many tasks each campaign's scheduler sends to each cluster."""

from collections import Counter
from collections.abc import Mapping, Sequence

from gridbridge.decisions.campaigns.campaign_schedulers import SCHEDULERS, ClusterOfferToScheduler
from gridbridge.decisions.campaigns.file_server_task_limits import RemainingTasksByLimit
from gridbridge.decisions.campaigns.remaining_cluster_capacity import (
    max_tasks_per_array,
    may_multislot_task_wait,
    remaining_capacity_of_clusters,
)
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, CampaignCluster
from gridbridge.model.campaigns.campaign_cycle_plan import NO_TASKS, CampaignCycleSituation, TasksPerFreeSlotUpdate
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster


class SchedulerTaskCounter:
    def __init__(
        self,
        situation: CampaignCycleSituation,
        predicted: Mapping[CampaignCluster, TasksPerFreeSlotUpdate],
        tasks: RemainingTasksByLimit,
        campaigns: Sequence[Campaign] = (),
        begun_arrays: Sequence[CampaignArray] = (),
    ) -> None:
        self.left = remaining_capacity_of_clusters(situation, tasks, campaigns, begun_arrays)
        self._situation = situation
        self._predicted = predicted
        self._views = {view.campaign_and_cluster: view for view in situation.there}
        self._listed = Counter({view.campaign_and_cluster: view.listed for view in situation.there})
        self._arrays = Counter[CampaignCluster]()
        for array in begun_arrays:
            self._listed[array.campaign, array.cluster] += array.size

    def count_startable_tasks(self, campaign: Campaign, cluster: str) -> int:
        return SCHEDULERS[campaign.jdl.type].count_tasks_to_start(
            self._offer_to_scheduler(campaign, cluster, allotted=0)
        )

    def count_additional_waiting_tasks(self, campaign: Campaign, cluster: str, allotted: int) -> int:
        return SCHEDULERS[campaign.jdl.type].count_tasks_to_wait(self._offer_to_scheduler(campaign, cluster, allotted))

    def record_tasks_sent_to_wait(self, campaign: Campaign, cluster: str, tasks: int) -> None:
        self.left.may_wait[cluster] -= tasks
        if tasks and campaign.jdl.clusters[cluster].slots > 1:
            self.left.closed_to_wide.add(cluster)

    def may_cluster_get_more_tasks(self, campaign: Campaign, cluster: str, allotted: int) -> bool:
        return self._offer_to_scheduler(campaign, cluster, allotted).most > allotted

    def take_arrays_for_allotted_tasks(self, campaign: Campaign, cluster: str, allotted: int) -> None:
        pair, needed = (campaign.number, cluster), -(-allotted // max_tasks_per_array(self._situation, cluster))
        self.left.arrays.take_accepted_arrays(*pair, needed - self._arrays[pair])
        self._arrays[pair] = needed

    def max_arrays_for_cluster(self, campaign: Campaign, cluster: str) -> int:
        pair = (campaign.number, cluster)
        return min(self._situation.arrays_at_once, self._arrays[pair] + self.left.arrays.remaining_arrays(*pair))

    def max_tasks_by_array_limits(self, campaign: Campaign, cluster: str) -> int:
        return max_tasks_per_array(self._situation, cluster) * self.max_arrays_for_cluster(campaign, cluster)

    def _max_additional_waiting_tasks(self, pair: CampaignCluster, request: JdlSettingsAtCluster) -> int:
        cluster, held = pair[1], self._views.get(pair, NO_TASKS).held
        room = self._situation.room[cluster]
        may_one = may_multislot_task_wait(room.max_slots, room.flood_rate, request.slots)
        is_wide_one = may_one and not held and cluster not in self.left.closed_to_wide
        return max(self.left.may_wait[cluster] - held, int(is_wide_one))

    def _offer_to_scheduler(self, campaign: Campaign, cluster: str, allotted: int) -> ClusterOfferToScheduler:
        pair, request = (campaign.number, cluster), campaign.jdl.clusters[cluster]
        free_slots = self.left.free.free_slots_for_request(cluster, request) - self.left.unkept.get(pair, 0)
        at_once = self.max_tasks_by_array_limits(campaign, cluster)
        most = request.max_jobs - self._listed[pair] if request.max_jobs else at_once
        by_limits = allotted + self.left.tasks.remaining_tasks(campaign, cluster)
        return ClusterOfferToScheduler(
            campaign=campaign,
            cluster=cluster,
            free_slots=0 if pair in self.left.stuck else free_slots,
            may_wait=self._max_additional_waiting_tasks(pair, request),
            most=max(0, min(most, at_once, by_limits)),
            waiting=self._views.get(pair, NO_TASKS).waiting,
            given=allotted,
            is_tried=cluster in self._situation.tried.get(campaign.number, ()),
            predicted=self._predicted.get(pair),
        )
