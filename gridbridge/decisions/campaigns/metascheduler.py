"""In which order campaigns are offered the clusters, and who shares them.

Test campaigns come first, first come first served. Then come the others at the clusters to which
their owners have an affinity, and when all have been offered those, at the rest of their clusters
(CiGri scheduler specification, metascheduler, and the note of 20 May 2009). Higher priorities go
before lower ones, older campaigns before newer ones. A few tests of each person come first at a
cluster at a time, and more of them last: who cuts all work into tests would stop everybody else.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.cycle_plan import CycleSituation
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.send_reasons import CampaignOrder
from gridbridge.model.campaigns.usage_sharing import ShareBy, UsageSharing

FEWEST_TESTS = 3  # of a person that come first at a cluster; ours
SLOTS_A_TEST = 4  # of a cluster, for each more of them


class ClusterOffer(NamedTuple):
    """A campaign is offered some of its clusters."""

    campaign: Campaign
    clusters: tuple[str, ...]


def turns(situation: CycleSituation) -> tuple[tuple[ClusterOffer, ...], ...]:
    """Return who is offered what: those of one turn are served before those of the next."""
    going = [
        campaign for campaign in situation.campaigns if campaign.state is CampaignState.IN_TREATMENT
    ]
    ranked = sorted(
        going, key=lambda campaign: (-priority(campaign.owner, situation.sharing), campaign.number)
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


def tests_ahead(situation: CycleSituation, cluster: str) -> int:
    """Return how many tests of a person come first at a cluster at a time."""
    return max(FEWEST_TESTS, situation.room[cluster].max_slots // SLOTS_A_TEST)


def _tests(
    ranked: Sequence[Campaign], situation: CycleSituation
) -> tuple[tuple[ClusterOffer, ...], tuple[ClusterOffer, ...]]:
    """Return the tests that come first, and those of people who have as many there already."""
    ahead = _with_tests(situation)
    first, last = list[ClusterOffer](), list[ClusterOffer]()
    for campaign in ranked:
        clusters = _clusters(campaign, situation, None)
        tried = situation.tried.get(campaign.number, ())
        more = [
            name
            for name in clusters
            if name not in tried and ahead[campaign.owner, name] >= tests_ahead(situation, name)
        ]
        first.append(ClusterOffer(campaign, tuple(name for name in clusters if name not in more)))
        if more:
            last.append(ClusterOffer(campaign, tuple(more)))
        ahead.update((campaign.owner, name) for name in clusters if name not in tried)
    return tuple(first), tuple(last)


def _with_tests(situation: CycleSituation) -> Counter[tuple[str, str]]:
    """Count, by person and cluster, the tests whose task is there and has not ended."""
    owners = {
        campaign.number: campaign.owner
        for campaign in situation.campaigns
        if campaign.jdl.type is CampaignType.TEST
    }
    over = {(array.campaign, array.number) for array in situation.over}
    tested = {
        (array.campaign, array.cluster)
        for array in situation.arrays
        if array.campaign in owners and (array.campaign, array.number) not in over
    }
    return Counter((owners[campaign], cluster) for campaign, cluster in tested)


def order(
    first: Campaign, then: Campaign, cluster: str, situation: CycleSituation
) -> tuple[CampaignOrder, float, float]:
    """Return why a campaign that got slots of a cluster is served before another there.

    With the numbers of the other and of the first by which that is so.
    """
    sharing, affinity = situation.sharing, situation.room[cluster].affinity
    if first.jdl.type is CampaignType.TEST and then.jdl.type is not CampaignType.TEST:
        return CampaignOrder.TEST, 0.0, 0.0
    if then.jdl.type is CampaignType.TEST and first.jdl.type is not CampaignType.TEST:
        return CampaignOrder.TESTS, 0.0, tests_ahead(situation, cluster)
    is_near, is_nearer = (
        has_affinity(campaign.owner, affinity, sharing) for campaign in (then, first)
    )
    if is_nearer and not is_near:
        return CampaignOrder.AFFINITY, 0.0, 0.0
    own_claimant, theirs = claimant(then, sharing), claimant(first, sharing)
    if (
        sharing.by is not ShareBy.NONE
        and own_claimant != theirs
        and then.jdl.type is not CampaignType.TEST
    ):
        return (
            CampaignOrder.SHARE,
            sharing.used_s.get(own_claimant, 0.0),
            sharing.used_s.get(theirs, 0.0),
        )
    own, higher = priority(then.owner, sharing), priority(first.owner, sharing)
    if higher > own:
        return CampaignOrder.PRIORITY, own, higher
    return CampaignOrder.AGE, 0.0, 0.0


def claimant(campaign: Campaign, sharing: UsageSharing) -> str:
    """Return who shares with others what a campaign takes."""
    if sharing.by is ShareBy.PROJECT:
        named = (request.project for request in campaign.jdl.clusters.values())
        return next(filter(None, named), "")
    if sharing.by is ShareBy.GROUP:
        return next(iter(sharing.groups.get(campaign.owner, ())), "")
    return campaign.owner


def used_by(
    campaigns: Iterable[Campaign], sharing: UsageSharing, used_s: Mapping[int, float]
) -> dict[str, float]:
    """Add up, by who shares, what campaigns have used."""
    usage: dict[str, float] = {}
    for campaign in campaigns:
        name = claimant(campaign, sharing)
        usage[name] = usage.get(name, 0.0) + used_s.get(campaign.number, 0.0)
    return usage


def priority(owner: str, sharing: UsageSharing) -> int:
    """Return the priority of a person: the own one, else the highest of the groups', else 0."""
    priorities = dict(_split(word) for word in sharing.priorities.split())
    if owner in priorities:
        return priorities[owner]
    groups = (priorities.get(f"@{name}") for name in sharing.groups.get(owner, ()))
    return max(
        (group_priority for group_priority in groups if group_priority is not None), default=0
    )


def has_affinity(owner: str, affinity: str, sharing: UsageSharing) -> bool:
    """Say whether a list of users and @groups has a person in it."""
    names = {owner, *(f"@{name}" for name in sharing.groups.get(owner, ()))}
    return not names.isdisjoint(affinity.split())


def _offers(
    campaigns: Iterable[Campaign], situation: CycleSituation, *, is_affine: bool
) -> Iterator[ClusterOffer]:
    for campaign in campaigns:
        if clusters := _clusters(campaign, situation, is_affine):
            yield ClusterOffer(campaign, clusters)


def _clusters(
    campaign: Campaign, situation: CycleSituation, is_affine: bool | None
) -> tuple[str, ...]:
    """Return those of a campaign's clusters that answered, with the affinity that is asked for."""
    return tuple(
        name
        for name in campaign.jdl.clusters
        if name in situation.room
        and is_affine
        in (None, has_affinity(campaign.owner, situation.room[name].affinity, situation.sharing))
    )


def _split(word: str) -> tuple[str, int]:
    name, _, number = word.rpartition("=")
    return name, int(number)
