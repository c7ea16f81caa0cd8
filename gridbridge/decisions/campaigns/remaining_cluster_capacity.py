"""Count the slots and arrays that clusters can still give to campaigns in one cycle of the runner."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor

from gridbridge.decisions.campaigns.file_server_task_limits import RemainingTasksByLimit
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignCluster
from gridbridge.model.campaigns.campaign_cycle_plan import (
    NO_LIMITS,
    CampaignCycleSituation,
    ClusterCapacityForCampaigns,
)
from gridbridge.model.campaigns.jdl import JdlSettingsAtCluster

UNLIMITED = 1_000_000  # number of arrays; more than any cluster accepts


NO_SEMI_SLOTS: Mapping[str, int] = {}


class FreeClusterSlots:
    """The free ordinary slots and best-effort slots of each cluster.

    Each task takes a slot of both kinds, so that no ordinary task preempts a best-effort task of the same cycle.
    """

    def __init__(
        self, room: Mapping[str, ClusterCapacityForCampaigns], semi_slots: Mapping[str, int] = NO_SEMI_SLOTS
    ) -> None:
        """`semi_slots`: how many more slots ordinary tasks of type semi-best-effort may use, by cluster."""
        self._semi = dict(semi_slots)
        self._ordinary = {name: cluster_room.free_slots for name, cluster_room in room.items()}
        self._besteffort = {name: cluster_room.free_besteffort_slots for name, cluster_room in room.items()}

    def free_slots_for_request(self, cluster: str, request: JdlSettingsAtCluster) -> int:
        """Return a cluster's free slots for a request; 0 if the cluster is silent, negative if too many were taken."""
        ordinary, besteffort = self._ordinary.get(cluster, 0), self._besteffort.get(cluster, 0)
        if request.is_partly_ordinary:
            return max(besteffort, min(ordinary, self._semi.get(cluster, 0)))
        return besteffort if request.is_besteffort else ordinary

    def take_slots(self, cluster: str, request: JdlSettingsAtCluster, tasks: int) -> None:
        for free in (self._ordinary, self._besteffort, *([self._semi] if request.is_partly_ordinary else [])):
            free[cluster] = free.get(cluster, 0) - tasks * request.slots


class RemainingArraysByCluster:
    """The number of additional arrays that each cluster accepts from each campaign owner, and from all owners."""

    def __init__(
        self,
        room: Mapping[str, ClusterCapacityForCampaigns],
        arrays: Iterable[CampaignArray],
        campaigns: Iterable[Campaign],
    ) -> None:
        self._limits = {name: cluster_room.limits for name, cluster_room in room.items()}
        self._owners = {campaign.number: campaign.uid for campaign in campaigns}
        self._of_person: Counter[tuple[int | None, str]] = Counter()
        self._of_all: Counter[str] = Counter()
        for array in arrays:
            self.take_accepted_arrays(array.campaign, array.cluster, 1)

    def remaining_arrays(self, campaign: int, cluster: str) -> int:
        limits = self._limits.get(cluster, NO_LIMITS)
        of_person = self._of_person[self._owners.get(campaign), cluster]
        used = ((limits.of_person, of_person), (limits.of_all, self._of_all[cluster]))
        return max(0, min((most - in_use for most, in_use in used if most), default=UNLIMITED))

    def take_accepted_arrays(self, campaign: int, cluster: str, arrays: int) -> None:
        self._of_person[self._owners.get(campaign), cluster] += arrays
        self._of_all[cluster] += arrays


ROUNDING = 1e-9  # added to a floating-point product before rounding down, because 0.29 * 100 is below 29


def round_down(product: float) -> int:
    return floor(product + ROUNDING)


def max_waiting_tasks(max_slots: int, flood_rate: float) -> int:
    """Return how many tasks of campaigns may wait at a cluster (CiGri: FLOOD_RATE of the resources)."""
    return round_down(max_slots * flood_rate)


def may_multislot_task_wait(max_slots: int, flood_rate: float, slots: int) -> bool:
    """Say whether one multi-slot task may wait above the flood rate; otherwise it might never start."""
    return flood_rate > 0 and 1 < slots <= max_slots


SLOT_KEPT_S = 300.0  # for this time free slots are kept for a waiting task
UNKNOWN_REQUEST = JdlSettingsAtCluster(exec_file="")  # settings for a cluster whose name is not in the campaign's JDL


@dataclass(slots=True)
class RemainingClusterCapacity:
    free: FreeClusterSlots
    may_wait: dict[str, int]  # number of additional tasks that may wait at the cluster
    arrays: RemainingArraysByCluster
    tasks: RemainingTasksByLimit
    closed_to_wide: set[str]
    # pairs (campaign, cluster) whose startable tasks all waited longer than SLOT_KEPT_S
    stuck: frozenset[CampaignCluster]
    unkept: Mapping[CampaignCluster, int]  # slots of waiting tasks for which no free slots are kept


def semi_besteffort_slots_left(situation: CampaignCycleSituation, campaigns: Sequence[Campaign] = ()) -> dict[str, int]:
    """Return how many more slots of each cluster ordinary tasks of type semi-best-effort may use."""
    slots = {
        (campaign.number, name): request.slots
        for campaign in campaigns or situation.campaigns
        for name, request in campaign.jdl.clusters.items()
        if request.is_partly_ordinary
    }
    left = {name: room.semi_slots for name, room in situation.room.items()} if slots else {}
    for view in situation.there if left else ():
        left[view.cluster] = left.get(view.cluster, 0) - view.ordinary * slots.get(view.campaign_and_cluster, 1)
    for array in situation.unfinished_arrays if left else ():
        if array.is_ordinary and array.state is not ArraySubmissionState.RELEASED:
            used = array.size * slots.get((array.campaign, array.cluster), 1)
            left[array.cluster] = left.get(array.cluster, 0) - used
    return {name: max(0, tasks) for name, tasks in left.items()}


def remaining_capacity_of_clusters(
    situation: CampaignCycleSituation,
    tasks: RemainingTasksByLimit,
    campaigns: Sequence[Campaign] = (),
    begun_arrays: Sequence[CampaignArray] = (),
) -> RemainingClusterCapacity:
    """Return the clusters' free capacity without the slots of waiting tasks and of tasks in `begun_arrays` arrays.

    Slots are kept only for `SLOT_KEPT_S`; otherwise tasks that fit no host would block a cluster. The JDLs in
    `campaigns` still name the closed clusters.
    """
    free = FreeClusterSlots(
        {name: room for name, room in situation.room.items() if not room.is_closed},
        semi_besteffort_slots_left(situation, campaigns),
    )
    may_wait = {
        name: 0 if room.is_closed else max_waiting_tasks(room.max_slots, room.flood_rate)
        for name, room in situation.room.items()
    }
    requests = {
        (campaign.number, name): request
        for campaign in campaigns or situation.campaigns
        for name, request in campaign.jdl.clusters.items()
    }
    for array in begun_arrays:
        request = requests.get((array.campaign, array.cluster), UNKNOWN_REQUEST)
        free.take_slots(array.cluster, request, array.size)
    closed_to_wide = {name for name, room in situation.room.items() if room.is_closed}
    tests, unkept = situation.test_campaigns, dict[CampaignCluster, int]()
    for view in (view for view in situation.there if view.cluster in may_wait):
        request = requests.get(view.campaign_and_cluster, UNKNOWN_REQUEST)
        free.take_slots(view.cluster, request, view.startable_task_count - view.old)
        unkept[view.campaign_and_cluster] = (view.held + view.old) * request.slots
        counts = view.startable_task_count - (view.old if view.campaign in tests else 0)
        may_wait[view.cluster] -= counts
        if counts and request.slots > 1:
            closed_to_wide.add(view.cluster)
    arrays = RemainingArraysByCluster(situation.room, situation.unfinished_arrays, situation.campaigns)
    stuck = frozenset(view.campaign_and_cluster for view in situation.there if view.have_tasks_waited_too_long)
    return RemainingClusterCapacity(free, may_wait, arrays, tasks, closed_to_wide, stuck, unkept)


def max_tasks_per_array(situation: CampaignCycleSituation, cluster: str) -> int:
    room = situation.room.get(cluster)
    return min(situation.max_tasks, room.limits.tasks) if room and room.limits.tasks else situation.max_tasks
