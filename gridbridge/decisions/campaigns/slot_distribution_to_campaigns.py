"""Distribute the free slots of clusters among campaigns: first come, first served, or by fair shares."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from gridbridge.decisions.campaigns.campaign_order_and_fairshare import (
    COMMITTED_USE_S,
    ClustersOfferedToCampaign,
    FairShareRequest,
    fair_share_claimant,
    fair_share_tasks_by_campaign,
    rank_campaigns_for_clusters,
)
from gridbridge.decisions.campaigns.checkpoint_intervals import CheckpointIntervals
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    ClusterClosureOrProbe,
    count_starved_tasks_by_cluster,
)
from gridbridge.decisions.campaigns.file_server_task_limits import RemainingTasksByLimit
from gridbridge.decisions.campaigns.input_carry_limits import InputCarryLimits
from gridbridge.decisions.campaigns.remaining_cluster_capacity import semi_besteffort_slots_left
from gridbridge.decisions.campaigns.scheduler_task_counts import SchedulerTaskCounter
from gridbridge.decisions.campaigns.task_group_sizes import count_tasks_side_by_side, task_group_sizes
from gridbridge.decisions.campaigns.unsent_task_backlog import EMPTY_BLACKLIST, UnsentTaskBacklog
from gridbridge.model.campaigns.campaign import ALONE, Campaign, CampaignArray, CampaignCluster, TaskGroupSize
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCycleSituation,
    PlannedCampaignTaskSend,
    TasksPerFreeSlotUpdate,
)
from gridbridge.model.campaigns.jdl import CampaignType


def distribute_slots_to_campaigns(
    situation: CampaignCycleSituation,
    predicted: Mapping[CampaignCluster, TasksPerFreeSlotUpdate],
    limits: RemainingTasksByLimit,
    campaigns: Sequence[Campaign] = (),
    begun_arrays: Sequence[CampaignArray] = (),
    barred: Mapping[CampaignCluster, ClusterClosureOrProbe] = EMPTY_BLACKLIST,
) -> tuple[PlannedCampaignTaskSend, ...]:
    """Return the tasks that one cycle of the runner sends to clusters.

    No task is sent to wait before all free slots are filled. A cluster in `barred` gets no task, or one probe. The
    arrays in `begun_arrays` are submitted anyway, and take slots first. The JDLs in `campaigns` still name the closed
    clusters. The sent tasks are taken from `limits`.
    """
    unsent = UnsentTaskBacklog(situation, barred, campaigns)
    distribution = TaskAllotmentToClusters(
        situation, unsent, SchedulerTaskCounter(situation, predicted, limits, campaigns, begun_arrays)
    )
    offered = rank_campaigns_for_clusters(situation)
    for turn in offered:
        distribution.fill_free_slots(turn)
    for turn in offered:
        distribution.send_tasks_to_wait(turn)
    by_number = {campaign.number: campaign for campaign in situation.campaigns}
    intervals = CheckpointIntervals(situation)
    ordinary = _count_ordinary_tasks(distribution.given, by_number, semi_besteffort_slots_left(situation, campaigns))
    left = {number: unsent.count_unsent_tasks(number) for number, _ in distribution.given}
    groups = task_group_sizes(situation, distribution.given, left)
    tasks = {pair: _fill_jobs_with_tasks(unsent, pair, jobs, groups) for pair, jobs in distribution.given.items()}
    return tuple(
        PlannedCampaignTaskSend(
            campaign=campaign,
            cluster=cluster,
            tasks=tasks[campaign, cluster],
            kept_off=unsent.taken_tasks_by_exclusions(campaign, cluster),
            array_tasks=situation.room[cluster].limits.tasks,
            ordinary=min(tasks[campaign, cluster], ordinary[campaign, cluster] * group.tasks),
            checkpoint_s=intervals.checkpoint_interval_at_cluster(by_number[campaign], cluster),
            unshared_first=distribution.count_unshared_tasks_first(by_number[campaign], cluster),
            group=group,
        )
        for campaign, cluster in distribution.given
        for group in [groups.get((campaign, cluster), ALONE)]
    )


def _fill_jobs_with_tasks(
    unsent: UnsentTaskBacklog, pair: CampaignCluster, jobs: int, groups: Mapping[CampaignCluster, TaskGroupSize]
) -> int:
    """Take further unsent tasks for jobs that run several tasks each; return the number of all tasks of the jobs."""
    more = jobs * (groups.get(pair, ALONE).tasks - 1)
    more = min(more, unsent.count_tasks_for_cluster(*pair)) if more else 0
    unsent.take_unsent_tasks(*pair, more)
    return jobs + more


def _count_ordinary_tasks(
    given_tasks: Mapping[CampaignCluster, int], campaigns: Mapping[int, Campaign], semi_slots: dict[str, int]
) -> Counter[CampaignCluster]:
    """Return how many tasks of type semi-best-effort become ordinary jobs, and take their slots from `semi_slots`."""
    ordinary = Counter[CampaignCluster]()
    for (number, cluster), tasks in given_tasks.items():
        request = campaigns[number].jdl.clusters[cluster]
        if request.is_partly_ordinary:
            ordinary[number, cluster] = min(tasks, semi_slots.get(cluster, 0) // request.slots)
            semi_slots[cluster] = semi_slots.get(cluster, 0) - ordinary[number, cluster] * request.slots
    return ordinary


class TaskAllotmentToClusters:
    def __init__(
        self, situation: CampaignCycleSituation, unsent: UnsentTaskBacklog, matching: SchedulerTaskCounter
    ) -> None:
        self.given: Counter[CampaignCluster] = Counter()
        self._waiting: Counter[CampaignCluster] = Counter()  # tasks of `given` that have no free slot
        self._situation = situation
        self._matching = matching
        self._remaining = matching.left
        self._unsent = unsent
        self._carries = InputCarryLimits(situation)
        self._in_vain = count_starved_tasks_by_cluster(situation)
        self._used_s = _usage_with_running_tasks_s(situation)
        self._ahead = _remaining_first_tasks_by_claimant(situation)

    def fill_free_slots(self, turn: tuple[ClustersOfferedToCampaign, ...]) -> None:
        """Give the free slots of clusters to campaigns of one group from `rank_campaigns_for_clusters`."""
        is_test = any(campaign.jdl.type is CampaignType.TEST for campaign, _ in turn)
        if not is_test and self._situation.sharing.by is not FairShareUnit.NONE:
            self._share_free_slots_among_campaigns(turn)
            return
        for campaign, clusters in turn:
            for cluster in self._sort_clusters_best_first(campaign, clusters):
                self._give_tasks_free_slots(campaign, cluster, self._matching.count_startable_tasks(campaign, cluster))

    def send_tasks_to_wait(self, turn: tuple[ClustersOfferedToCampaign, ...]) -> None:
        """Send tasks of one group to wait; no multi-slot task waits before an earlier campaign's tasks."""
        for campaign, clusters in turn:
            for cluster in self._sort_clusters_best_first(campaign, clusters):
                allotted = self.given[campaign.number, cluster]
                tasks = self._matching.count_additional_waiting_tasks(campaign, cluster, allotted)
                tasks = int(min(tasks, self._carries.max_tasks_ahead(campaign.number, cluster)))
                tasks = self._allot_tasks_within_limits(campaign, cluster, tasks)
                self._waiting[campaign.number, cluster] += tasks
                self._matching.record_tasks_sent_to_wait(campaign, cluster, tasks)
            if campaign.jdl.type is not CampaignType.TEST and self._situation.sharing.by is FairShareUnit.NONE:
                self._remaining.closed_to_wide.update(
                    name
                    for name in clusters
                    if self._unsent.count_tasks_for_cluster(campaign.number, name)
                    and self._matching.may_cluster_get_more_tasks(campaign, name, self.given[campaign.number, name])
                )

    def count_unshared_tasks_first(self, campaign: Campaign, cluster: str) -> int:
        """Return how many tasks that share no input file go before tasks that share files.

        If files are carried fast to the cluster, it first gets as many such tasks as wait there already. Free slots get
        tasks whose shared file is at the cluster.
        """
        is_fast = campaign.jdl.inputs and self._carries.is_carry_fast(campaign, cluster)
        return max(1, self._waiting[campaign.number, cluster]) if is_fast else 0

    def _share_free_slots_among_campaigns(self, turn: tuple[ClustersOfferedToCampaign, ...]) -> None:
        """Share ordinary, then best-effort slots; the cluster that campaigns rank best on average comes first."""
        offered = defaultdict[tuple[str, bool], list[Campaign]](list)
        ranks = defaultdict[tuple[str, bool], list[int]](list)
        for campaign, clusters in turn:
            for rank, cluster in enumerate(self._sort_clusters_best_first(campaign, clusters)):
                key = cluster, campaign.jdl.clusters[cluster].is_besteffort
                offered[key].append(campaign)
                ranks[key].append(rank)
        order = sorted(
            (
                is_besteffort,
                fmean(ranks[cluster, is_besteffort]),
                -self._free_slots_for_campaign(campaigns[0], cluster),
                cluster,
            )
            for (cluster, is_besteffort), campaigns in offered.items()
        )
        for is_besteffort, _, _, cluster in order:
            self._share_slots_of_cluster(cluster, offered[cluster, is_besteffort])

    def _share_slots_of_cluster(self, cluster: str, campaigns: list[Campaign]) -> None:
        requests = [self._make_fair_share_request(campaign, cluster) for campaign in campaigns]
        least_slots = min(request.slots for request in requests)
        allowed_slots = self._remaining.tasks.remaining_tasks_at_cluster(cluster) * least_slots
        free = min(self._free_slots_for_campaign(campaigns[0], cluster), allowed_slots)
        tasks = fair_share_tasks_by_campaign(free, requests, self._used_s, self._ahead)
        for campaign, request in zip(campaigns, requests, strict=True):
            self._give_tasks_free_slots(campaign, cluster, tasks[campaign.number])
            used_s = tasks[campaign.number] * request.slots * COMMITTED_USE_S
            self._used_s[request.claimant] = self._used_s.get(request.claimant, 0.0) + used_s
            self._ahead[request.claimant] -= tasks[campaign.number]

    def _make_fair_share_request(self, campaign: Campaign, cluster: str) -> FairShareRequest:
        awaiting = self._situation.awaiting.get(campaign.number, 0)
        sent = campaign.tasks - self._unsent.count_unsent_tasks(campaign.number) - awaiting
        return FairShareRequest(
            campaign=campaign.number,
            claimant=fair_share_claimant(campaign, self._situation.sharing),
            tasks=min(
                self._unsent.count_tasks_for_cluster(campaign.number, cluster),
                self._matching.count_startable_tasks(campaign, cluster),
                self._max_filled_jobs(campaign, cluster),
            ),
            slots=campaign.jdl.clusters[cluster].slots,
            first=max(0, self._situation.sharing.first_tasks - sent),
        )

    def _give_tasks_free_slots(self, campaign: Campaign, cluster: str, tasks: int) -> None:
        tasks_taken = self._allot_tasks_within_limits(campaign, cluster, tasks)
        self._remaining.free.take_slots(cluster, campaign.jdl.clusters[cluster], tasks_taken)

    def _free_slots_for_campaign(self, campaign: Campaign, cluster: str) -> int:
        return self._remaining.free.free_slots_for_request(cluster, campaign.jdl.clusters[cluster])

    def _allot_tasks_within_limits(self, campaign: Campaign, cluster: str, tasks: int) -> int:
        pair = campaign.number, cluster
        most = self._matching.max_tasks_by_array_limits(campaign, cluster) - self.given[pair]
        unsent = self._unsent.count_unsent_tasks(campaign.number)
        worth = self._carries.max_tasks_worth_carrying(campaign, cluster, unsent, self.given[pair])
        allowed = self._remaining.tasks.remaining_tasks(campaign, cluster)
        filled = self._max_filled_jobs(campaign, cluster)
        tasks_taken = max(0, min(tasks, most, worth, allowed, filled, self._unsent.count_tasks_for_cluster(*pair)))
        if tasks_taken:
            self._unsent.take_unsent_tasks(*pair, tasks_taken)
            self.given[pair] += tasks_taken
            self._remaining.tasks.take_tasks(*pair, tasks_taken)
            self._matching.take_arrays_for_allotted_tasks(campaign, cluster, self.given[pair])
        return tasks_taken

    def _max_filled_jobs(self, campaign: Campaign, cluster: str) -> int:
        """Return how many more jobs have a task for each of their tasks side by side; the last job may have fewer."""
        number, clusters = campaign.number, campaign.jdl.clusters
        taken = sum(self.given[number, name] * count_tasks_side_by_side(campaign, name) for name in clusters)
        left = max(0, self._situation.waiting.get(number, 0) - taken)
        return -(-left // count_tasks_side_by_side(campaign, cluster))

    def _sort_clusters_best_first(self, campaign: Campaign, clusters: Iterable[str]) -> list[str]:
        """Sort clusters: fast before slow, then by free slots; clusters where tasks waited in vain are last.

        The time of a task is its run time and the time in which its input files are carried.
        """
        mean_s = self._situation.sharing.mean_s.get(campaign.number, {})

        def cluster_sort_key(name: str) -> tuple[int, float, int, str]:
            waited = self._in_vain.get((campaign.number, name), 0)
            task_s = mean_s.get(name, 0.0) + self._carries.carry_s(campaign.number, name)
            return waited, task_s, -self._free_slots_for_campaign(campaign, name), name

        return sorted(clusters, key=cluster_sort_key)


def _usage_with_running_tasks_s(situation: CampaignCycleSituation) -> dict[str, float]:
    used_s = dict(situation.sharing.used_s)
    campaigns = {campaign.number: campaign for campaign in situation.campaigns}
    for view in situation.there:
        if campaign := campaigns.get(view.campaign):
            name, slots = fair_share_claimant(campaign, situation.sharing), campaign.jdl.slots_at(view.cluster)
            used_s[name] = used_s.get(name, 0.0) + view.listed * slots * COMMITTED_USE_S
    return used_s


def _remaining_first_tasks_by_claimant(situation: CampaignCycleSituation) -> dict[str, int]:
    claimants = {campaign.number: fair_share_claimant(campaign, situation.sharing) for campaign in situation.campaigns}
    ahead = dict.fromkeys(claimants.values(), situation.sharing.first_tasks)
    for view in situation.there:
        if view.campaign in claimants:
            ahead[claimants[view.campaign]] -= view.listed
    return ahead
