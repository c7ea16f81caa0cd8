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


def remaining_capacity(
    situation: CycleSituation, campaigns: Sequence[Campaign] = (), begun: Sequence[Array] = ()
) -> RemainingCapacity:
    """Return what the clusters have, less what our tasks that wait there, or begin, will take.

    What can't start takes nothing, and slots are kept for `KEPT_S`: else who holds tasks, or asks
    for what no host has, would keep a cluster from all others. Of tests that wait longer nothing
    counts, for nobody ever deletes them.
    `campaigns` are the same as in `seen` with the clusters that are closed to them.
    """
    free = FreeSlots({name: room for name, room in situation.room.items() if not room.is_closed})
    may_wait = {
        name: 0 if room.is_closed else allowed_to_wait(room.max_slots, room.flood_rate)
        for name, room in situation.room.items()
    }
    requests = {
        (campaign.number, name): request
        for campaign in campaigns or situation.campaigns
        for name, request in campaign.jdl.clusters.items()
    }
    for array in begun:
        request = requests.get((array.campaign, array.cluster), UNKNOWN)
        free.take(array.cluster, request, array.size)
    closed_to_wide = {name for name, room in situation.room.items() if room.is_closed}
    over = {(array.campaign, array.number) for array in situation.over}
    lasting = [array for array in situation.arrays if (array.campaign, array.number) not in over]
    tests, unkept = situation.tests, dict[Pair, int]()
    for view in (view for view in situation.there if view.cluster in may_wait):
        pair = view.campaign, view.cluster
        request = requests.get(pair, UNKNOWN)
        free.take(view.cluster, request, view.able - view.old)
        unkept[pair] = (view.held + view.old) * request.slots
        counts = view.able - (view.old if view.campaign in tests else 0)
        may_wait[view.cluster] -= counts
        if counts and request.slots > 1:
            closed_to_wide.add(view.cluster)
    arrays = FreeArrays(situation.room, lasting, situation.campaigns)
    stuck = frozenset((view.campaign, view.cluster) for view in situation.there if view.is_stuck)
    return RemainingCapacity(free, may_wait, arrays, closed_to_wide, stuck, unkept)


def array_tasks(situation: CycleSituation, cluster: str) -> int:
    """Return the most tasks of one array at a cluster."""
    room = situation.room.get(cluster)
    return (
        min(situation.max_tasks, room.limits.tasks)
        if room and room.limits.tasks
        else situation.max_tasks
    )


class SchedulerMatching:
    """What each campaign's scheduler makes of each cluster in one cycle."""

    def __init__(
        self,
        situation: CycleSituation,
        predicted: Mapping[Pair, JobRatioPrediction],
        campaigns: Sequence[Campaign] = (),
        begun: Sequence[Array] = (),
    ) -> None:
        self.left = remaining_capacity(situation, campaigns, begun)
        self._situation = situation
        self._predicted = predicted
        self._waiting: Counter[Pair] = Counter()
        self._held: Counter[Pair] = Counter()
        self._listed: Counter[Pair] = Counter()
        self._arrays: Counter[Pair] = Counter()  # that were given in this cycle
        for view in situation.there:
            self._waiting[view.campaign, view.cluster] += view.waiting
            self._held[view.campaign, view.cluster] += view.held
            self._listed[view.campaign, view.cluster] += view.listed
        for array in begun:
            self._listed[array.campaign, array.cluster] += array.size

    def to_start(self, campaign: Campaign, cluster: str) -> int:
        """Return how many tasks of a campaign go to free slots of a cluster."""
        return scheduler_of(campaign).to_start(self._offer(campaign, cluster, allotted=0))

    def to_wait(self, campaign: Campaign, cluster: str, allotted: int) -> int:
        """Return how many may wait there besides those that it was given."""
        return scheduler_of(campaign).to_wait(self._offer(campaign, cluster, allotted))

    def wait(self, campaign: Campaign, cluster: str, tasks: int) -> None:
        """Let so many wait there."""
        self.left.may_wait[cluster] -= tasks
        if tasks and campaign.jdl.clusters[cluster].slots > 1:
            self.left.closed_to_wide.add(cluster)

    def is_wanted(self, campaign: Campaign, cluster: str, allotted: int) -> bool:
        """Say whether a campaign could have more tasks at a cluster, had that more slots."""
        return self._offer(campaign, cluster, allotted).most > allotted

    def take_arrays(self, campaign: Campaign, cluster: str, allotted: int) -> None:
        """Take the arrays that a campaign needs for what it was given at a cluster."""
        needed = -(-allotted // array_tasks(self._situation, cluster))
        pair = (campaign.number, cluster)
        self.left.arrays.take(*pair, needed - self._arrays[pair])
        self._arrays[pair] = needed

    def arrays(self, campaign: Campaign, cluster: str) -> int:
        """Return how many arrays a campaign may have sent to a cluster in this cycle."""
        pair = (campaign.number, cluster)
        most = self._arrays[pair] + self.left.arrays.of(*pair)
        return min(self._situation.arrays_at_once, most)

    def most(self, campaign: Campaign, cluster: str) -> int:
        """Return how many tasks of a campaign may be sent to a cluster in this cycle, in arrays."""
        return array_tasks(self._situation, cluster) * self.arrays(campaign, cluster)

    def _may_wait(self, pair: Pair, request: AtCluster) -> int:
        """Return how many tasks may wait; of its own those that are held do so already."""
        cluster, held = pair[1], self._held[pair]
        room = self._situation.room[cluster]
        may_one = wide_may_wait(room.max_slots, room.flood_rate, request.slots)
        is_wide_one = may_one and not held and cluster not in self.left.closed_to_wide
        return max(self.left.may_wait[cluster] - held, int(is_wide_one))

    def _free_slots(self, pair: Pair, request: AtCluster) -> int:
        """Return what is free for a campaign, whose own tasks that wait come first in any case."""
        if pair in self.left.stuck:
            return 0
        return self.left.free.of(pair[1], request) - self.left.unkept.get(pair, 0)

    def _offer(self, campaign: Campaign, cluster: str, allotted: int) -> SchedulingOffer:
        pair = (campaign.number, cluster)
        request = campaign.jdl.clusters[cluster]
        at_once = self.most(campaign, cluster)
        most = request.max_jobs - self._listed[pair] if request.max_jobs else at_once
        return SchedulingOffer(
            campaign=campaign,
            cluster=cluster,
            free_slots=self._free_slots(pair, request),
            may_wait=self._may_wait(pair, request),
            most=max(0, min(most, at_once)),
            waiting=self._waiting[pair],
            given=allotted,
            is_tried=cluster in self._situation.tried.get(campaign.number, ()),
            predicted=self._predicted.get(pair),
        )
