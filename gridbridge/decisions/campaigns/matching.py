"""What is left at each cluster in one cycle, and what campaigns' schedulers make of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gridbridge.decisions.campaigns.free_slots import FreeArrays, FreeSlots
from gridbridge.decisions.campaigns.job_ratio_predictor import allowed_to_wait, wide_may_wait
from gridbridge.decisions.campaigns.schedulers.scheduler_protocol import SchedulingOffer
from gridbridge.decisions.campaigns.schedulers.scheduler_registry import scheduler_of
from gridbridge.model.campaigns.campaign import Array, Campaign
from gridbridge.model.campaigns.cycle_plan import CycleSituation
from gridbridge.model.campaigns.jdl import AtCluster
from gridbridge.model.campaigns.job_ratio import JobRatioPrediction

Pair = tuple[int, str]  # a campaign and a cluster
KEPT_S = 300.0  # so long slots are kept free for a task that waits
UNKNOWN = AtCluster(exec_file="")  # what a campaign asks for at a cluster that it has no more


@dataclass(slots=True)
class RemainingCapacity:
    """What is left to be given away in one cycle, by cluster."""

    free: FreeSlots
    may_wait: dict[str, int]  # tasks
    arrays: FreeArrays
    closed_to_wide: set[str]  # clusters where no task of several slots may wait besides
    stuck: frozenset[Pair]  # campaigns whose tasks there wait for what never comes
    unkept: Mapping[Pair, int]  # slots of a campaign's tasks that wait, which are free for others


def places(
    seen: CycleSituation, campaigns: Sequence[Campaign] = (), begun: Sequence[Array] = ()
) -> RemainingCapacity:
    """Return what the clusters have, less what our tasks that wait there, or begin, will take.

    What can't start takes nothing, and slots are kept for `KEPT_S`: else who holds tasks, or asks
    for what no host has, would keep a cluster from all others. Of tests that wait longer nothing
    counts, for nobody ever deletes them.
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
    tests, unkept = seen.tests, dict[Pair, int]()
    for there in (one for one in seen.there if one.cluster in may_wait):
        pair = there.campaign, there.cluster
        wish = wishes.get(pair, UNKNOWN)
        free.take(there.cluster, wish, there.able - there.old)
        unkept[pair] = (there.held + there.old) * wish.slots
        counts = there.able - (there.old if there.campaign in tests else 0)
        may_wait[there.cluster] -= counts
        if counts and wish.slots > 1:
            closed_to_wide.add(there.cluster)
    arrays = FreeArrays(seen.room, lasting, seen.campaigns)
    stuck = frozenset((one.campaign, one.cluster) for one in seen.there if one.is_stuck)
    return RemainingCapacity(free, may_wait, arrays, closed_to_wide, stuck, unkept)


def array_tasks(seen: CycleSituation, cluster: str) -> int:
    """Return the most tasks of one array at a cluster."""
    room = seen.room.get(cluster)
    return min(seen.max_tasks, room.limits.tasks) if room and room.limits.tasks else seen.max_tasks


class SchedulerMatching:
    """What each campaign's scheduler makes of each cluster in one cycle."""

    def __init__(
        self,
        seen: CycleSituation,
        predicted: Mapping[Pair, JobRatioPrediction],
        campaigns: Sequence[Campaign] = (),
        begun: Sequence[Array] = (),
    ) -> None:
        self.left = places(seen, campaigns, begun)
        self._seen = seen
        self._predicted = predicted
        self._waiting: Counter[Pair] = Counter()
        self._held: Counter[Pair] = Counter()
        self._listed: Counter[Pair] = Counter()
        self._arrays: Counter[Pair] = Counter()  # that were given in this cycle
        for one in seen.there:
            self._waiting[one.campaign, one.cluster] += one.waiting
            self._held[one.campaign, one.cluster] += one.held
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

    def _may_wait(self, pair: Pair, wish: AtCluster) -> int:
        """Return how many tasks may wait; of its own those that are held do so already."""
        cluster, held = pair[1], self._held[pair]
        room = self._seen.room[cluster]
        may_one = wide_may_wait(room.max_slots, room.flood_rate, wish.slots)
        is_wide_one = may_one and not held and cluster not in self.left.closed_to_wide
        return max(self.left.may_wait[cluster] - held, int(is_wide_one))

    def _free_slots(self, pair: Pair, wish: AtCluster) -> int:
        """Return what is free for a campaign, whose own tasks that wait come first in any case."""
        if pair in self.left.stuck:
            return 0
        return self.left.free.of(pair[1], wish) - self.left.unkept.get(pair, 0)

    def _place(self, campaign: Campaign, cluster: str, given: int) -> SchedulingOffer:
        pair = (campaign.number, cluster)
        wish = campaign.jdl.clusters[cluster]
        at_once = self.most(campaign, cluster)
        most = wish.max_jobs - self._listed[pair] if wish.max_jobs else at_once
        return SchedulingOffer(
            campaign=campaign,
            cluster=cluster,
            free_slots=self._free_slots(pair, wish),
            may_wait=self._may_wait(pair, wish),
            most=max(0, min(most, at_once)),
            waiting=self._waiting[pair],
            given=given,
            is_tried=cluster in self._seen.tried.get(campaign.number, ()),
            predicted=self._predicted.get(pair),
        )
