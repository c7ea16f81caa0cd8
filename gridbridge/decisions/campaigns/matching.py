"""How many tasks of each campaign go to each cluster in one cycle.

Test campaigns come first and send one task to each of their clusters, ever; the others come first
come first served (CiGri scheduler specification, metascheduler and schedulers). Slots that are free
are filled; tasks of ours that wait there already count as if they had them.
"""

from collections.abc import Iterator

from gridbridge.decisions.campaigns.slots import FreeSlots
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Type
from gridbridge.model.campaigns.plan import Seen, Send


def sends(seen: Seen) -> tuple[Send, ...]:
    """Fill the free slots, campaign by campaign; no slot is given twice."""
    free = FreeSlots(seen.room)
    for one in seen.there:
        free.take(one.cluster, _wish(seen.campaigns, one.campaign, one.cluster), one.waiting)
    found: list[Send] = []
    for campaign in sorted(
        seen.campaigns, key=lambda one: (one.jdl.type is not Type.TEST, one.number)
    ):
        if campaign.state is CampaignState.IN_TREATMENT:
            found += _of(campaign, seen, free)
    return tuple(found)


def _of(campaign: Campaign, seen: Seen, free: FreeSlots) -> Iterator[Send]:
    """Give a campaign what is free at its clusters, those with the most room first."""
    left = seen.waiting.get(campaign.number, 0)
    by_room = sorted(campaign.jdl.clusters.items(), key=lambda each: (-free.of(*each), each[0]))
    for cluster, wish in by_room:
        tasks = min(left, _fitting(campaign, cluster, wish, seen, free))
        if tasks > 0:
            left -= tasks
            free.take(cluster, wish, tasks)
            yield Send(campaign=campaign.number, cluster=cluster, tasks=tasks)


def _fitting(campaign: Campaign, cluster: str, wish: AtCluster, seen: Seen, free: FreeSlots) -> int:
    """Return how many tasks a cluster can take of a campaign now."""
    whose = (campaign.number, cluster)
    listed = sum(one.listed for one in seen.there if (one.campaign, one.cluster) == whose)
    limits = [free.of(cluster, wish) // wish.slots, seen.max_tasks]
    if wish.max_jobs:
        limits.append(wish.max_jobs - listed)
    if campaign.jdl.type is Type.TEST:
        limits.append(0 if cluster in seen.tried.get(campaign.number, ()) else 1)
    return max(0, min(limits))


def _wish(campaigns: tuple[Campaign, ...], number: int, cluster: str) -> AtCluster:
    """Return how a campaign's tasks run at a cluster, a usual one where that is not known."""
    wishes = (one.jdl.clusters.get(cluster) for one in campaigns if one.number == number)
    return next(filter(None, wishes), AtCluster(exec_file=""))
