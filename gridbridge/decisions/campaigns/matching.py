"""What is left at each cluster in one cycle, and what campaigns' schedulers make of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gridbridge.decisions.campaigns.jobratio import allowed_to_wait, wide_may_wait
from gridbridge.decisions.campaigns.schedulers.protocol import Place
from gridbridge.decisions.campaigns.schedulers.registry import scheduler_of
from gridbridge.decisions.campaigns.slots import FreeArrays, FreeSlots
from gridbridge.model.campaigns.campaign import Array, Campaign
from gridbridge.model.campaigns.jdl import AtCluster
from gridbridge.model.campaigns.jobratio import Prediction
from gridbridge.model.campaigns.plan import Seen

Pair = tuple[int, str]  # a campaign and a cluster
KEPT_S = 300.0  # so long slots are kept free for a task of several that waits
UNKNOWN = AtCluster(exec_file="")  # what a campaign asks for at a cluster that it has no more


@dataclass(slots=True)
class Places:
    """What is left to be given away in one cycle, by cluster."""

    free: FreeSlots
    may_wait: dict[str, int]  # tasks
    arrays: FreeArrays
    closed_to_wide: set[str]  # clusters where no task of several slots may wait besides
    stuck: frozenset[Pair]  # campaigns whose tasks there wait for what never comes


def places(seen: Seen, campaigns: Sequence[Campaign] = (), begun: Sequence[Array] = ()) -> Places:
    """Return what the clusters have, less what our tasks that wait there, or begin, will take.

    `campaigns` are the same as in `seen` with the clusters that are closed to them.
    """
    free = FreeSlots({name: room for name, room in seen.room.items() if not room.is_closed})
    may_wait = {
        name: 0 if room.is_closed else allowed_to_wait(room.max_slots, room.flood_rate)
        for name, room in seen.room.items()
    }
    wishes = {
        (one.number, name): wish
        for one in campaigns or seen.campaigns
        for name, wish in one.jdl.clusters.items()
    }
    for array in begun:
        wish = wishes.get((array.campaign, array.cluster), UNKNOWN)
        free.take(array.cluster, wish, array.size)
    closed_to_wide = {name for name, room in seen.room.items() if room.is_closed}
    over = {(one.campaign, one.number) for one in seen.over}
    lasting = [one for one in seen.arrays if (one.campaign, one.number) not in over]
    stuck = _stuck(seen, lasting, wishes)
    for there in (one for one in seen.there if one.cluster in may_wait):
        wish = wishes.get((there.campaign, there.cluster), UNKNOWN)
        if (there.campaign, there.cluster) not in stuck:
            free.take(there.cluster, wish, there.waiting)
        may_wait[there.cluster] -= there.waiting
        if there.waiting and wish.slots > 1:
            closed_to_wide.add(there.cluster)
    arrays = FreeArrays(seen.room, lasting, seen.campaigns)
    return Places(free, may_wait, arrays, closed_to_wide, stuck)


def _stuck(
    seen: Seen, lasting: Iterable[Array], wishes: Mapping[Pair, AtCluster]
) -> frozenset[Pair]:
    """Return whose tasks of several slots have all waited for longer than slots are kept for them.

    Perhaps no host has so many: else who asks for that would keep a cluster from all others.
    """
    newest = dict[Pair, datetime]()
    for one in lasting:
        pair = (one.campaign, one.cluster)
        newest[pair] = max(one.intended_at, newest.get(pair, one.intended_at))
    return frozenset(
        pair
        for pair in ((one.campaign, one.cluster) for one in seen.there if one.waiting)
        if wishes.get(pair, UNKNOWN).slots > 1
        and (seen.at - newest.get(pair, seen.at)).total_seconds() > KEPT_S
    )


def array_tasks(seen: Seen, cluster: str) -> int:
    """Return the most tasks of one array at a cluster."""
    room = seen.room.get(cluster)
    return min(seen.max_tasks, room.limits.tasks) if room and room.limits.tasks else seen.max_tasks


class Matching:
    """What each campaign's scheduler makes of each cluster in one cycle."""

    def __init__(
        self,
        seen: Seen,
        predicted: Mapping[Pair, Prediction],
        campaigns: Sequence[Campaign] = (),
        begun: Sequence[Array] = (),
    ) -> None:
        self.left = places(seen, campaigns, begun)
        self._seen = seen
        self._predicted = predicted
        self._waiting: Counter[Pair] = Counter()
        self._listed: Counter[Pair] = Counter()
        self._arrays: Counter[Pair] = Counter()  # that were given in this cycle
        for one in seen.there:
            self._waiting[one.campaign, one.cluster] += one.waiting
            self._listed[one.campaign, one.cluster] += one.listed
        for array in begun:
            self._listed[array.campaign, array.cluster] += array.size

    def to_start(self, campaign: Campaign, cluster: str) -> int:
        """Return how many tasks of a campaign go to free slots of a cluster."""
        return scheduler_of(campaign).to_start(self._place(campaign, cluster, given=0))

    def to_wait(self, campaign: Campaign, cluster: str, given: int) -> int:
        """Return how many may wait there besides those that it was given."""
        return scheduler_of(campaign).to_wait(self._place(campaign, cluster, given))

    def wait(self, campaign: Campaign, cluster: str, tasks: int) -> None:
        """Let so many wait there."""
        self.left.may_wait[cluster] -= tasks
        if tasks and campaign.jdl.clusters[cluster].slots > 1:
            self.left.closed_to_wide.add(cluster)

    def is_wanted(self, campaign: Campaign, cluster: str, given: int) -> bool:
        """Say whether a campaign could have more tasks at a cluster, had that more slots."""
        return self._place(campaign, cluster, given).most > given

    def take_arrays(self, campaign: Campaign, cluster: str, given: int) -> None:
        """Take the arrays that a campaign needs for what it was given at a cluster."""
        needed = -(-given // array_tasks(self._seen, cluster))
        pair = (campaign.number, cluster)
        self.left.arrays.take(*pair, needed - self._arrays[pair])
        self._arrays[pair] = needed

    def arrays(self, campaign: Campaign, cluster: str) -> int:
        """Return how many arrays a campaign may have sent to a cluster in this cycle."""
        pair = (campaign.number, cluster)
        left = self._arrays[pair] + self.left.arrays.of(*pair)
        return min(self._seen.arrays_at_once, left)

    def most(self, campaign: Campaign, cluster: str) -> int:
        """Return how many tasks of a campaign may be sent to a cluster in this cycle, in arrays."""
        return array_tasks(self._seen, cluster) * self.arrays(campaign, cluster)

    def _wide_may_wait(self, cluster: str, wish: AtCluster) -> bool:
        room = self._seen.room[cluster]
        may_one = wide_may_wait(room.max_slots, room.flood_rate, wish.slots)
        return may_one and cluster not in self.left.closed_to_wide

    def _place(self, campaign: Campaign, cluster: str, given: int) -> Place:
        pair = (campaign.number, cluster)
        wish = campaign.jdl.clusters[cluster]
        at_once = self.most(campaign, cluster)
        most = wish.max_jobs - self._listed[pair] if wish.max_jobs else at_once
        return Place(
            campaign=campaign,
            cluster=cluster,
            free_slots=0 if pair in self.left.stuck else self.left.free.of(cluster, wish),
            may_wait=max(self.left.may_wait[cluster], int(self._wide_may_wait(cluster, wish))),
            most=max(0, min(most, at_once)),
            waiting=self._waiting[pair],
            given=given,
            is_tried=cluster in self._seen.tried.get(campaign.number, ()),
            predicted=self._predicted.get(pair),
        )
