"""How many tasks of each campaign go to each cluster in one cycle.

Test campaigns come first and send one task to each of their clusters, ever; the others come first
come first served (CiGri scheduler specification, metascheduler and schedulers). A campaign's job
ratio says how many tasks fill the slots that are free, and the cluster's flood rate how many may
wait there besides; tasks of ours that wait there already count.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gridbridge.decisions.campaigns.jobratio import allowed_to_wait, tasks_for
from gridbridge.decisions.campaigns.slots import FreeSlots
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Type
from gridbridge.model.campaigns.jobratio import Prediction
from gridbridge.model.campaigns.plan import Seen, Send

Pair = tuple[int, str]  # a campaign and a cluster
UNKNOWN = AtCluster(exec_file="")  # what a campaign asks for at a cluster that it has no more


@dataclass(slots=True)
class Places:
    """What is left to be given away in one cycle, by cluster."""

    free: FreeSlots
    may_wait: dict[str, int]  # tasks


def sends(seen: Seen, predicted: Mapping[Pair, Prediction]) -> tuple[Send, ...]:
    """Fill the free slots, campaign by campaign; no slot is given twice."""
    fits, left = Fits(seen, predicted), places(seen)
    found: list[Send] = []
    for campaign in sorted(
        seen.campaigns, key=lambda one: (one.jdl.type is not Type.TEST, one.number)
    ):
        if campaign.state is CampaignState.IN_TREATMENT:
            found += _of(campaign, seen.waiting.get(campaign.number, 0), fits, left)
    return tuple(found)


def places(seen: Seen) -> Places:
    """Return what the clusters have, less what our tasks that wait there will take."""
    free = FreeSlots(seen.room)
    may_wait = {
        name: allowed_to_wait(room.max_slots, room.flood_rate) for name, room in seen.room.items()
    }
    wishes = {
        (one.number, name): wish
        for one in seen.campaigns
        for name, wish in one.jdl.clusters.items()
    }
    for there in (one for one in seen.there if one.cluster in may_wait):
        wish = wishes.get((there.campaign, there.cluster), UNKNOWN)
        free.take(there.cluster, wish, there.waiting)
        may_wait[there.cluster] -= there.waiting
    return Places(free, may_wait)


class Fits:
    """How many tasks of a campaign fit at a cluster, whatever the order of campaigns."""

    def __init__(self, seen: Seen, predicted: Mapping[Pair, Prediction]) -> None:
        self._seen = seen
        self._predicted = predicted
        self._waiting: Counter[Pair] = Counter()
        self._listed: Counter[Pair] = Counter()
        for one in seen.there:
            self._waiting[one.campaign, one.cluster] += one.waiting
            self._listed[one.campaign, one.cluster] += one.listed

    def tasks(self, campaign: Campaign, cluster: str, left: Places) -> tuple[int, int]:
        """Return how many tasks go to free slots of a cluster now, and how many may wait there."""
        wish = campaign.jdl.clusters[cluster]
        if campaign.jdl.type is Type.TEST:
            tried = self._seen.tried.get(campaign.number, ())
            fits = left.free.of(cluster, wish) >= wish.slots and cluster not in tried
            return int(fits), 0
        one = self._predicted.get((campaign.number, cluster))
        if one is None:
            return 0, 0
        most = self._most((campaign.number, cluster), wish)
        own = self._waiting[campaign.number, cluster]
        free = left.free.of(cluster, wish) + own * wish.slots
        started = tasks_for(one.ratio, free, max(1.0, one.terms.slots))
        fitting = max(0, min(started - own, most))
        return fitting, max(0, min(left.may_wait[cluster], most - fitting))

    def _most(self, pair: Pair, wish: AtCluster) -> int:
        limit = wish.max_jobs - self._listed[pair] if wish.max_jobs else self._seen.max_tasks
        return max(0, min(limit, self._seen.max_tasks))


def _of(campaign: Campaign, left: int, fits: Fits, there: Places) -> Iterator[Send]:
    """Give a campaign what is free at its clusters, those with the most room first.

    What may wait is given after that: no task waits at one cluster that could start at another.
    """
    wishes = campaign.jdl.clusters
    by_room = sorted(wishes, key=lambda name: (-there.free.of(name, wishes[name]), name))
    waits: dict[str, int] = {}
    given: dict[str, int] = {}
    for cluster in by_room:
        fitting, waits[cluster] = fits.tasks(campaign, cluster, there)
        given[cluster] = min(left, fitting)
        left -= given[cluster]
        if given[cluster]:
            there.free.take(cluster, wishes[cluster], given[cluster])
    for cluster in by_room:
        waiting = min(left, waits[cluster])
        left -= waiting
        if waiting:
            there.may_wait[cluster] -= waiting
        if tasks := given[cluster] + waiting:
            yield Send(campaign=campaign.number, cluster=cluster, tasks=tasks)
