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
        self._ordinary = {name: one.free_slots for name, one in room.items()}
        self._besteffort = {name: one.free(is_besteffort=True) for name, one in room.items()}

    def of(self, cluster: str, wish: AtCluster) -> int:
        """Return how many there are for such tasks; below 0 where more were taken."""
        return (self._besteffort if wish.is_besteffort else self._ordinary).get(cluster, 0)

    def take(self, cluster: str, wish: AtCluster, tasks: int) -> None:
        """Give them to tasks."""
        for left in (self._ordinary, self._besteffort):
            left[cluster] = left.get(cluster, 0) - tasks * wish.slots


class FreeArrays:
    """How many more arrays clusters take from campaigns' owners; what else they sent is unknown."""

    def __init__(
        self,
        room: Mapping[str, ClusterRoom],
        arrays: Iterable[Array],
        campaigns: Iterable[Campaign],
    ) -> None:
        self._limits = {name: one.limits for name, one in room.items()}
        self._owners = {one.number: one.uid for one in campaigns}
        self._of_person: Counter[tuple[int | None, str]] = Counter()
        self._of_all: Counter[str] = Counter()
        for one in arrays:
            self.take(one.campaign, one.cluster, 1)

    def of(self, campaign: int, cluster: str) -> int:
        """Return how many there are for a campaign."""
        limits = self._limits.get(cluster, NO_LIMITS)
        of_person = self._of_person[self._owners.get(campaign), cluster]
        used = ((limits.of_person, of_person), (limits.of_all, self._of_all[cluster]))
        return max(0, min((most - there for most, there in used if most), default=UNLIMITED))

    def take(self, campaign: int, cluster: str, arrays: int) -> None:
        """Give them to a campaign."""
        self._of_person[self._owners.get(campaign), cluster] += arrays
        self._of_all[cluster] += arrays
