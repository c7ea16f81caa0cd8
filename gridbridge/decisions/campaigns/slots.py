"""The slots of clusters that a cycle has left to give, to ordinary tasks and to best-effort ones.

A best-effort slot is the same core as an ordinary one, so whoever gets one takes it from both:
else a cycle would send a task only to have it make way for another of its own.
"""

from collections.abc import Mapping

from gridbridge.model.campaigns.jdl import AtCluster
from gridbridge.model.campaigns.plan import Room


class FreeSlots:
    """What is left; a cluster that did not answer has none."""

    def __init__(self, room: Mapping[str, Room]) -> None:
        self._ordinary = {name: one.free_slots for name, one in room.items()}
        self._besteffort = {
            name: one.free_slots if one.besteffort_slots is None else one.besteffort_slots
            for name, one in room.items()
        }

    def of(self, cluster: str, wish: AtCluster) -> int:
        """Return how many there are for such tasks; below 0 where more were taken."""
        return (self._besteffort if wish.is_besteffort else self._ordinary).get(cluster, 0)

    def take(self, cluster: str, wish: AtCluster, tasks: int) -> None:
        """Give them to tasks."""
        for left in (self._ordinary, self._besteffort):
            left[cluster] = left.get(cluster, 0) - tasks * wish.slots
