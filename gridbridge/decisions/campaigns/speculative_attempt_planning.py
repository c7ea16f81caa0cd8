"""Plan speculative attempts: second attempts of running tasks, for campaigns that are near their end.

Speculative attempts take only slots that the ordinary tasks of all campaigns have left.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from gridbridge.decisions.campaigns.cluster_blacklist_and_successes import (
    count_starved_tasks_by_cluster,
)
from gridbridge.decisions.campaigns.remaining_cluster_capacity import (
    FreeClusterSlots,
    RemainingArraysByCluster,
    max_array_tasks,
    remaining_capacity_of_clusters,
)
from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import CampaignNearEnd
from gridbridge.decisions.campaigns.schedulers.scheduler_registry import speculation_scheduler_of
from gridbridge.decisions.campaigns.task_retries_and_copies import AttemptsByTask
from gridbridge.model.campaigns.campaign import Campaign, CampaignCluster, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_sections import FinalizeSpeculationSection
from gridbridge.model.campaigns.cycle_plan import CampaignCycleSituation, PlannedCampaignTaskSend, TaskRetry
from gridbridge.model.campaigns.jdl import JdlClusterSettings
from gridbridge.model.campaigns.speculation import CampaignStragglers, SpeculativeAttemptsAtCluster


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionsBeforeSpeculation:
    """The decisions of a cycle that are made before speculative attempts are planned."""

    ended: tuple[TaskAttempt, ...]  # ended attempts with their final outcomes
    over: Counter[int]  # number of finally ended tasks by campaign
    again: tuple[TaskRetry, ...]
    sends: tuple[PlannedCampaignTaskSend, ...]
    barred: Set[CampaignCluster]  # campaigns and clusters that are closed, probed or not prepared by the prologue
    rivals: AttemptsByTask


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsForSpeculativeAttempts:
    """The slots and arrays that the ordinary tasks of a cycle have left."""

    free: FreeClusterSlots
    arrays: RemainingArraysByCluster
    there: Counter[CampaignCluster]  # number of tasks that the cluster lists or that this cycle sends
    in_vain: Mapping[CampaignCluster, int]  # number of waiting tasks that nikita has deleted


class _CampaignCounts:
    def __init__(self, situation: CampaignCycleSituation, decided: DecisionsBeforeSpeculation) -> None:
        self.unsent = Counter(situation.waiting)
        self.ended: dict[int, list[TaskAttempt]] = defaultdict(list)
        self.made: dict[int, dict[int, int]] = defaultdict(dict)  # number of speculative attempts by task
        for send in decided.sends:
            self.unsent[send.campaign] -= send.tasks
        self.unsent.update(attempt.campaign for attempt in decided.again)
        for attempt in decided.ended:
            self.ended[attempt.campaign].append(attempt)
        for (campaign, task), rivals in decided.rivals.items():
            self.made[campaign][task] = sum(rival.is_copy for rival in rivals)


def plan_speculative_attempts(
    situation: CampaignCycleSituation, decided: DecisionsBeforeSpeculation
) -> tuple[SpeculativeAttemptsAtCluster, ...]:
    """Return the speculative attempts that a cycle sends, in the order of the campaigns."""
    return tuple(_copies(situation, decided)) if situation.tails else ()


def _copies(
    situation: CampaignCycleSituation, decided: DecisionsBeforeSpeculation
) -> Iterator[SpeculativeAttemptsAtCluster]:
    campaigns = {copy.number: copy for copy in situation.campaigns}
    sent = _sent(situation, decided)
    capacity = remaining_capacity_of_clusters(situation)
    remaining = SlotsForSpeculativeAttempts(
        free=capacity.free, arrays=capacity.arrays, there=sent, in_vain=count_starved_tasks_by_cluster(situation)
    )
    counted = _CampaignCounts(situation, decided)
    for send in decided.sends:
        remaining.free.take(send.cluster, _request(campaigns[send.campaign], send.cluster), send.tasks)
        arrays = -(-send.tasks // max_array_tasks(situation, send.cluster))
        remaining.arrays.take(send.campaign, send.cluster, arrays)
    for tail in situation.tails:
        campaign = campaigns[tail.campaign]
        finalizer = speculation_scheduler_of(campaign)
        free = _room_by_cluster(campaign, situation, decided, remaining)
        end = _campaign_near_end(campaign, tail, counted, free, decided.over, situation.finalize)
        for copy in finalizer.choose_speculative_attempts(end) if finalizer else ():
            remaining.free.take(copy.cluster, _request(campaign, copy.cluster), len(copy.tasks))
            remaining.arrays.take(copy.campaign, copy.cluster, 1)
            yield copy


def _sent(situation: CampaignCycleSituation, decided: DecisionsBeforeSpeculation) -> Counter[CampaignCluster]:
    sent = Counter[CampaignCluster]()
    for listed in situation.there:
        sent[listed.campaign, listed.cluster] += listed.listed
    for send in decided.sends:
        sent[send.campaign, send.cluster] += send.tasks
    return sent


def _request(campaign: Campaign, cluster: str) -> JdlClusterSettings:
    return campaign.jdl.clusters[cluster]


def _campaign_near_end(
    campaign: Campaign,
    tail: CampaignStragglers,
    counted: _CampaignCounts,
    free: Mapping[str, int],
    over: Mapping[int, int],
    limits: FinalizeSpeculationSection,
) -> CampaignNearEnd:
    number = campaign.number
    ended = {(attempt.task, attempt.attempt) for attempt in counted.ended[number]}
    won = {attempt.task for attempt in counted.ended[number] if attempt.outcome is TaskAttemptOutcome.SUCCESS}
    return CampaignNearEnd(
        campaign=number,
        left=campaign.tasks - campaign.ended - over.get(number, 0),
        unsent=counted.unsent[number],
        sent_s=tail.sent_s,
        free=free,
        durations_s=tail.durations_s,
        live=tuple(
            attempt for attempt in tail.live if (attempt.task, attempt.attempt) not in ended and attempt.task not in won
        ),
        made=counted.made[number],
        limits=limits,
        failed_at=tail.failed_at,
    )


def _room_by_cluster(
    campaign: Campaign,
    situation: CampaignCycleSituation,
    decided: DecisionsBeforeSpeculation,
    remaining: SlotsForSpeculativeAttempts,
) -> Mapping[str, int]:
    """Return how many tasks of a campaign fit at each cluster, fastest cluster first.

    Clusters without a known run time come next. Clusters where nikita deleted the campaign's waiting tasks come last.
    """
    mean_s = situation.sharing.mean_s.get(campaign.number, {})
    room = {
        name: _room(campaign, name, max_array_tasks(situation, name), remaining)
        for name in campaign.jdl.clusters
        if name in situation.room and (campaign.number, name) not in decided.barred
    }

    def order(name: str) -> tuple[int, float, int, str]:
        tasks = remaining.in_vain.get((campaign.number, name), 0)
        return tasks, mean_s.get(name, float("inf")), -room[name], name

    return {name: room[name] for name in sorted(room, key=order) if room[name]}


def _room(campaign: Campaign, cluster: str, max_tasks: int, remaining: SlotsForSpeculativeAttempts) -> int:
    request = _request(campaign, cluster)
    most = max_tasks
    if request.max_jobs:
        most = min(most, request.max_jobs - remaining.there[campaign.number, cluster])
    if not remaining.arrays.of(campaign.number, cluster):
        return 0  # the cluster accepts no more arrays of the owner
    return max(0, min(remaining.free.of(cluster, request) // request.slots, most))
