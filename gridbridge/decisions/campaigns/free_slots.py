"""What clusters have left to give in a cycle: slots to ordinary and best-effort tasks, and arrays.

A best-effort slot is the same core as an ordinary one, so whoever gets one takes it from both:
else a cycle would send a task only to have it make way for another of its own.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from gridbridge.model.campaigns.campaign import Array, Campaign
from gridbridge.model.campaigns.cycle_plan import NO_LIMITS, ClusterRoom
from gridbridge.model.campaigns.jdl import AtCluster

UNLIMITED = 1_000_000  # arrays; no call sends so many


class FreeSlots:
    """What is left; a cluster that did not answer has none."""

    def __init__(self, room: Mapping[str, ClusterRoom]) -> None:
        self._ordinary = {name: cluster_room.free_slots for name, cluster_room in room.items()}
        self._besteffort = {
            name: cluster_room.free(is_besteffort=True) for name, cluster_room in room.items()
        }

    def of(self, cluster: str, request: AtCluster) -> int:
        """Return how many there are for such tasks; below 0 where more were taken."""
        return (self._besteffort if request.is_besteffort else self._ordinary).get(cluster, 0)

    def take(self, cluster: str, request: AtCluster, tasks: int) -> None:
        """Give them to tasks."""
        for free in (self._ordinary, self._besteffort):
            free[cluster] = free.get(cluster, 0) - tasks * request.slots


class FreeArrays:
    """How many more arrays clusters take from campaigns' owners; what else they sent is unknown."""

    def __init__(
        self,
        room: Mapping[str, ClusterRoom],
        arrays: Iterable[Array],
        campaigns: Iterable[Campaign],
    ) -> None:
        self._limits = {name: cluster_room.limits for name, cluster_room in room.items()}
        self._owners = {campaign.number: campaign.uid for campaign in campaigns}
        self._of_person: Counter[tuple[int | None, str]] = Counter()
        self._of_all: Counter[str] = Counter()
        for array in arrays:
            self.take(array.campaign, array.cluster, 1)

    def of(self, campaign: int, cluster: str) -> int:
        """Return how many there are for a campaign."""
        limits = self._limits.get(cluster, NO_LIMITS)
        of_person = self._of_person[self._owners.get(campaign), cluster]
        used = ((limits.of_person, of_person), (limits.of_all, self._of_all[cluster]))
        return max(0, min((most - in_use for most, in_use in used if most), default=UNLIMITED))

    def take(self, campaign: int, cluster: str, arrays: int) -> None:
        """Give them to a campaign."""
        self._of_person[self._owners.get(campaign), cluster] += arrays
        self._of_all[cluster] += arrays
