"""Rank the campaigns for each cluster, and find the claimant of each campaign.

Test campaigns come first, in the order of submission. Then campaigns are offered the clusters with
an affinity to their owners, then their other clusters (CiGri scheduler specification,
metascheduler, note of 20 May 2009). Higher priorities go first, then older campaigns. Only a few
of a person's tests come first at a cluster at a time, so that nobody blocks other people by
splitting work into tests.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_sections import FairShareUnit
from gridbridge.model.campaigns.cycle_plan import CampaignCycleSituation, FairShareInputs
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.send_reasons import CampaignPrecedenceReason

MIN_PRIOR_TESTS = 3  # least limit of one owner's test campaigns that are served first at a cluster
SLOTS_PER_PRIOR_TEST = 4  # slots of a cluster per test campaign of an owner that is served first


class ClustersOfferedToCampaign(NamedTuple):
    """A campaign with the clusters that are offered to the campaign in this turn."""

    campaign: Campaign
    clusters: tuple[str, ...]


def rank_campaigns_for_clusters(situation: CampaignCycleSituation) -> tuple[tuple[ClustersOfferedToCampaign, ...], ...]:
    """Return the offers of a cycle by turn; earlier turns are served first."""
    going = [campaign for campaign in situation.campaigns if campaign.state is CampaignState.IN_TREATMENT]
    ranked = sorted(
        going, key=lambda campaign: (-fair_share_owner_priority(campaign.owner, situation.sharing), campaign.number)
    )
    tests = [campaign for campaign in ranked if campaign.jdl.type is CampaignType.TEST]
    usual = [campaign for campaign in ranked if campaign.jdl.type is not CampaignType.TEST]
    first, last = _tests(tests, situation)
    return (
        first,
        tuple(_offers(usual, situation, is_affine=True)),
        tuple(_offers(usual, situation, is_affine=False)),
        last,
    )


def max_test_campaigns_served_first(situation: CampaignCycleSituation, cluster: str) -> int:
    """Return how many test campaigns of one owner are served first at a cluster."""
    return max(MIN_PRIOR_TESTS, situation.room[cluster].max_slots // SLOTS_PER_PRIOR_TEST)


def _tests(
    ranked: Sequence[Campaign], situation: CampaignCycleSituation
) -> tuple[tuple[ClustersOfferedToCampaign, ...], tuple[ClustersOfferedToCampaign, ...]]:
    """Return the offers of tests served first, and of tests beyond their owner's limit."""
    ahead = _with_tests(situation)
    first, last = list[ClustersOfferedToCampaign](), list[ClustersOfferedToCampaign]()
    for campaign in ranked:
        clusters = _clusters(campaign, situation, None)
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


def _with_tests(situation: CampaignCycleSituation) -> Counter[tuple[str, str]]:
    """Count unfinished tests by owner and cluster."""
    owners = {
        campaign.number: campaign.owner for campaign in situation.campaigns if campaign.jdl.type is CampaignType.TEST
    }
    over = {(array.campaign, array.number) for array in situation.over}
    tested = {
        (array.campaign, array.cluster)
        for array in situation.arrays
        if array.campaign in owners and (array.campaign, array.number) not in over
    }
    return Counter((owners[campaign], cluster) for campaign, cluster in tested)


def explain_campaign_order(
    first: Campaign, then: Campaign, cluster: str, situation: CampaignCycleSituation
) -> tuple[CampaignPrecedenceReason, float, float]:
    """Return why a served campaign precedes another campaign at a cluster.

    The two numbers are the priority, usage or limit of the later and of the served campaign.
    """
    sharing, affinity = situation.sharing, situation.room[cluster].affinity
    if first.jdl.type is CampaignType.TEST and then.jdl.type is not CampaignType.TEST:
        return CampaignPrecedenceReason.TEST, 0.0, 0.0
    if then.jdl.type is CampaignType.TEST and first.jdl.type is not CampaignType.TEST:
        return CampaignPrecedenceReason.TESTS, 0.0, max_test_campaigns_served_first(situation, cluster)
    is_near, is_nearer = (is_owner_in_affinity_list(campaign.owner, affinity, sharing) for campaign in (then, first))
    if is_nearer and not is_near:
        return CampaignPrecedenceReason.AFFINITY, 0.0, 0.0
    own_claimant, theirs = fair_share_claimant(then, sharing), fair_share_claimant(first, sharing)
    if sharing.by is not FairShareUnit.NONE and own_claimant != theirs and then.jdl.type is not CampaignType.TEST:
        return (CampaignPrecedenceReason.SHARE, sharing.used_s.get(own_claimant, 0.0), sharing.used_s.get(theirs, 0.0))
    own, higher = (fair_share_owner_priority(then.owner, sharing), fair_share_owner_priority(first.owner, sharing))
    if higher > own:
        return CampaignPrecedenceReason.PRIORITY, own, higher
    return CampaignPrecedenceReason.AGE, 0.0, 0.0


def fair_share_claimant(campaign: Campaign, sharing: FairShareInputs) -> str:
    """Return the user, project or group to which a campaign's usage counts."""
    if sharing.by is FairShareUnit.PROJECT:
        named = (request.project for request in campaign.jdl.clusters.values())
        return next(filter(None, named), "")
    if sharing.by is FairShareUnit.GROUP:
        return next(iter(sharing.groups.get(campaign.owner, ())), "")
    return campaign.owner


def sum_usage_by_claimant(
    campaigns: Iterable[Campaign], sharing: FairShareInputs, used_s: Mapping[int, float]
) -> dict[str, float]:
    """Sum up the usage of campaigns by claimant."""
    usage: dict[str, float] = {}
    for campaign in campaigns:
        name = fair_share_claimant(campaign, sharing)
        usage[name] = usage.get(name, 0.0) + used_s.get(campaign.number, 0.0)
    return usage


def fair_share_owner_priority(owner: str, sharing: FairShareInputs) -> int:
    """Return the owner's priority: the user's own, else the highest of the groups, else 0."""
    priorities = dict(_split(word) for word in sharing.priorities.split())
    if owner in priorities:
        return priorities[owner]
    groups = (priorities.get(f"@{name}") for name in sharing.groups.get(owner, ()))
    return max((group_priority for group_priority in groups if group_priority is not None), default=0)


def is_owner_in_affinity_list(owner: str, affinity: str, sharing: FairShareInputs) -> bool:
    """Say whether a list of users and @groups contains an owner."""
    names = {owner, *(f"@{name}" for name in sharing.groups.get(owner, ()))}
    return not names.isdisjoint(affinity.split())


def _offers(
    campaigns: Iterable[Campaign], situation: CampaignCycleSituation, *, is_affine: bool
) -> Iterator[ClustersOfferedToCampaign]:
    for campaign in campaigns:
        if clusters := _clusters(campaign, situation, is_affine):
            yield ClustersOfferedToCampaign(campaign, clusters)


def _clusters(campaign: Campaign, situation: CampaignCycleSituation, is_affine: bool | None) -> tuple[str, ...]:
    """Return a campaign's clusters that answered, with or without affinity to its owner."""
    return tuple(
        name
        for name in campaign.jdl.clusters
        if name in situation.room
        and is_affine
        in (None, is_owner_in_affinity_list(campaign.owner, situation.room[name].affinity, situation.sharing))
    )


def _split(word: str) -> tuple[str, int]:
    name, _, number = word.rpartition("=")
    return name, int(number)
