"""Rank the campaigns for each cluster, and share the cluster's free slots among the campaigns.

Test campaigns come first, then campaigns of a cluster's preferred owners, then all others (CiGri scheduler
specification, metascheduler, note of 20 May 2009).
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from gridbridge.model.campaigns.campaign import Campaign, CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, DecayedCampaignUsage, FairShareInputs
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.send_reasons import CampaignPrecedenceReason

MIN_PRIOR_TESTS = 3  # each cluster serves at least this many test campaigns of an owner before other campaigns
SLOTS_PER_PRIOR_TEST = 4  # a large cluster first serves one test campaign of each owner per this many slots


class ClustersOfferedToCampaign(NamedTuple):
    campaign: Campaign
    clusters: tuple[str, ...]


def rank_campaigns_for_clusters(situation: CampaignCycleSituation) -> tuple[tuple[ClustersOfferedToCampaign, ...], ...]:
    """Group the campaigns with the clusters that each campaign may use now; earlier groups get slots first.

    The groups are: tests, clusters with affinity, other clusters, tests above the limit. Within a group, priority and
    age decide.
    """
    going = [campaign for campaign in situation.campaigns if campaign.state is CampaignState.IN_TREATMENT]
    ranked = sorted(
        going, key=lambda campaign: (-configured_owner_priority(campaign.owner, situation.sharing), campaign.number)
    )
    tests = [campaign for campaign in ranked if campaign.jdl.type is CampaignType.TEST]
    usual = [campaign for campaign in ranked if campaign.jdl.type is not CampaignType.TEST]
    first, last = _rank_test_campaigns(tests, situation)
    near, far = (
        tuple(
            ClustersOfferedToCampaign(campaign, clusters)
            for campaign in usual
            if (clusters := _answering_clusters_by_affinity(campaign, situation, is_affine))
        )
        for is_affine in (True, False)
    )
    return first, near, far, last


def max_test_campaigns_served_first(situation: CampaignCycleSituation, cluster: str) -> int:
    """Return how many test campaigns of one owner a cluster serves before all other campaigns."""
    return max(MIN_PRIOR_TESTS, situation.room[cluster].max_slots // SLOTS_PER_PRIOR_TEST)


def _rank_test_campaigns(
    ranked: Sequence[Campaign], situation: CampaignCycleSituation
) -> tuple[tuple[ClustersOfferedToCampaign, ...], tuple[ClustersOfferedToCampaign, ...]]:
    ahead = _count_test_campaigns_by_owner(situation)
    first, last = list[ClustersOfferedToCampaign](), list[ClustersOfferedToCampaign]()
    for campaign in ranked:
        clusters = _answering_clusters_by_affinity(campaign, situation, None)
        tried = situation.tried.get(campaign.number, ())
        more = [
            name
            for name in clusters
            if name not in tried and ahead[campaign.owner, name] >= max_test_campaigns_served_first(situation, name)
        ]
        first.append(ClustersOfferedToCampaign(campaign, tuple(name for name in clusters if name not in more)))
        if more:
            last.append(ClustersOfferedToCampaign(campaign, tuple(more)))
        ahead.update((campaign.owner, name) for name in clusters if name not in tried)
    return tuple(first), tuple(last)


def _count_test_campaigns_by_owner(situation: CampaignCycleSituation) -> Counter[tuple[str, str]]:
    owners, tests = {campaign.number: campaign.owner for campaign in situation.campaigns}, situation.test_campaigns
    tested = {(array.campaign, array.cluster) for array in situation.unfinished_arrays}
    return Counter((owners[campaign], cluster) for campaign, cluster in tested if campaign in tests)


def explain_campaign_order(
    earlier: Campaign, later: Campaign, cluster: str, situation: CampaignCycleSituation
) -> tuple[CampaignPrecedenceReason, float, float]:
    """Return why a cluster serves campaign `earlier` before campaign `later`, and two numbers.

    The numbers explain the reason: the usages or priorities of `later` and `earlier`, or 0 and the limit of test
    campaigns, or two zeros.
    """
    sharing, affinity = situation.sharing, situation.room[cluster].affinity
    if earlier.jdl.type is CampaignType.TEST and later.jdl.type is not CampaignType.TEST:
        return CampaignPrecedenceReason.TEST, 0.0, 0.0
    if later.jdl.type is CampaignType.TEST and earlier.jdl.type is not CampaignType.TEST:
        return CampaignPrecedenceReason.TESTS, 0.0, max_test_campaigns_served_first(situation, cluster)
    is_near, is_nearer = (is_owner_in_affinity_list(campaign.owner, affinity, sharing) for campaign in (later, earlier))
    if is_nearer and not is_near:
        return CampaignPrecedenceReason.AFFINITY, 0.0, 0.0
    own_claimant, theirs = fair_share_claimant(later, sharing), fair_share_claimant(earlier, sharing)
    if sharing.by is not FairShareUnit.NONE and own_claimant != theirs and later.jdl.type is not CampaignType.TEST:
        return CampaignPrecedenceReason.SHARE, sharing.used_s.get(own_claimant, 0.0), sharing.used_s.get(theirs, 0.0)
    own, higher = (configured_owner_priority(campaign.owner, sharing) for campaign in (later, earlier))
    if higher > own:
        return CampaignPrecedenceReason.PRIORITY, own, higher
    return CampaignPrecedenceReason.AGE, 0.0, 0.0


def fair_share_claimant(campaign: Campaign, sharing: FairShareInputs) -> str:
    """Return the user, project or group to whose usage the campaign's tasks count."""
    if sharing.by is FairShareUnit.PROJECT:
        named = (request.project for request in campaign.jdl.clusters.values())
        return next(filter(None, named), "")
    if sharing.by is FairShareUnit.GROUP:
        return next(iter(sharing.groups.get(campaign.owner, ())), "")
    return campaign.owner


def sum_usage_by_claimant(
    campaigns: Iterable[Campaign], sharing: FairShareInputs, used_s: Mapping[int, float]
) -> dict[str, float]:
    usage = defaultdict[str, float](float)
    for campaign in campaigns:
        usage[fair_share_claimant(campaign, sharing)] += used_s.get(campaign.number, 0.0)
    return dict(usage)


def configured_owner_priority(owner: str, sharing: FairShareInputs) -> int:
    """Return an owner's configured priority; without it, the highest priority of the owner's groups, or 0."""
    words = (word.rpartition("=") for word in sharing.priorities.split())
    priorities = {name: int(number) for name, _, number in words}
    if owner in priorities:
        return priorities[owner]
    groups = [f"@{name}" for name in sharing.groups.get(owner, ())]
    return max((priorities[name] for name in groups if name in priorities), default=0)


def is_owner_in_affinity_list(owner: str, affinity: str, sharing: FairShareInputs) -> bool:
    """Say whether a cluster's list of preferred users and @groups names an owner or a group of the owner."""
    names = {owner, *(f"@{name}" for name in sharing.groups.get(owner, ()))}
    return not names.isdisjoint(affinity.split())


def _answering_clusters_by_affinity(
    campaign: Campaign, situation: CampaignCycleSituation, is_affine: bool | None
) -> tuple[str, ...]:
    """Return a campaign's clusters that answered; `is_affine` selects clusters by the owner's affinity (None: all)."""
    return tuple(
        name
        for name in campaign.jdl.clusters
        if name in situation.room
        and is_affine
        in (None, is_owner_in_affinity_list(campaign.owner, situation.room[name].affinity, situation.sharing))
    )


COMMITTED_USE_S = 900.0  # each newly granted slot counts as this usage, in slot-seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareRequest:
    campaign: int
    claimant: str  # user, project or group to which the tasks' usage is charged
    tasks: int
    slots: int  # slots of each task
    first: int = 0  # number of tasks that get slots before the remaining slots are shared


def fair_share_tasks_by_campaign(
    free_slots: int,
    requests: Sequence[FairShareRequest],
    used_s: Mapping[str, float],
    ahead: Mapping[str, int] = {},
) -> dict[int, int]:
    """Return how many tasks each campaign gets from a cluster's free slots.

    Each claimant first gets slots for up to `ahead` first tasks. Then the claimant with the least usage gets the next
    slot (CiGri scheduler specification, fairsharing). Unlike in CiGri, many campaigns give a claimant no more first
    tasks. `used_s` is in slot-seconds.
    """
    granted = dict.fromkeys((request.campaign for request in requests), 0)
    levels = {request.claimant: used_s.get(request.claimant, 0.0) for request in requests}
    firsts = [replace(request, tasks=min(request.first, request.tasks)) for request in requests]
    remaining = _grant_slots_by_least_usage(max(0, free_slots), firsts, levels, granted, ahead)
    _grant_slots_by_least_usage(remaining, (*firsts, *requests), levels, granted, dict.fromkeys(levels, remaining))
    return granted


def _grant_slots_by_least_usage(
    remaining: int,
    requests: Iterable[FairShareRequest],
    levels: dict[str, float],
    granted: dict[int, int],
    most: Mapping[str, int],
) -> int:
    """Give each free slot to the claimant with the least usage; return how many slots are left."""
    queues = {name: deque[FairShareRequest]() for name in levels}
    for request in requests:
        queues[request.claimant].append(request)
    served = dict.fromkeys(levels, 0)
    turns = [(level, name) for name, level in levels.items() if most.get(name, 0) > 0]
    heapify(turns)
    while turns:
        level, name = heappop(turns)
        if chosen := _next_fair_share_request_that_fits(queues[name], granted, remaining):
            granted[chosen.campaign] += 1
            remaining -= chosen.slots
            served[name] += 1
            levels[name] = level + chosen.slots * COMMITTED_USE_S
            if served[name] < most[name]:
                heappush(turns, (levels[name], name))
    return remaining


def decay_usage(usage: DecayedCampaignUsage, now: datetime, half_life_s: float) -> DecayedCampaignUsage:
    """Return the usage as it counts at time `now`: halved in each half-life."""
    share = math.pow(0.5, max(0.0, (now - usage.at).total_seconds()) / half_life_s)
    return replace(
        usage, at=now, used_s=usage.used_s * share, success_s=usage.success_s * share, successes=usage.successes * share
    )


def add_ended_tasks_to_usage(
    usage: DecayedCampaignUsage, ended_attempts: Iterable[TaskAttempt], slots: int
) -> DecayedCampaignUsage:
    """Add ended tasks to the usage of a campaign; tasks without a run time add nothing."""
    took = [(attempt.wallclock_s, attempt.outcome) for attempt in ended_attempts if attempt.wallclock_s is not None]
    good = [wallclock_s for wallclock_s, outcome in took if outcome is TaskAttemptOutcome.SUCCESS]
    return replace(
        usage,
        used_s=usage.used_s + slots * sum(wallclock_s for wallclock_s, _ in took),
        success_s=usage.success_s + sum(good),
        successes=usage.successes + len(good),
    )


def _next_fair_share_request_that_fits(
    queue: deque[FairShareRequest], granted: Mapping[int, int], free_slots: int
) -> FairShareRequest | None:
    while queue and (granted[queue[0].campaign] >= queue[0].tasks or queue[0].slots > free_slots):
        queue.popleft()
    return queue[0] if queue else None
