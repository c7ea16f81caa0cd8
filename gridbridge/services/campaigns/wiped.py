"""What the updator has to know of the tasks that nikita deletes."""

from collections.abc import Mapping

from gridbridge.model.campaigns.campaign import Array, Attempt
from gridbridge.model.campaigns.wiping import Mark, Missed
from gridbridge.shell.clock import Clock
from gridbridge.state.database.marks import Marks


class Wiped:
    """The marks of one cycle."""

    def __init__(self, marks: Marks, clock: Clock) -> None:
        self._state = marks
        self._marks = marks.all()
        self._now = clock.now()
        self.missed: list[Missed] = []  # what has changed in this cycle

    def of(self, array: Array) -> Mapping[int, Mark]:
        """Return the marks of an array's tasks, by place."""
        return self._marks.get((array.campaign, array.number), {})

    def see(self, array: Array, missing: Mapping[Attempt, float]) -> dict[Attempt, float]:
        """Return for how long tasks are missing, by what earlier runs of the program noted, too."""
        gone = {one.place for one in missing}
        for place, mark in self.of(array).items():
            if (place in gone) != (mark.missing_since is not None):
                since = self._now if place in gone else None
                self.missed.append(
                    Missed(campaign=array.campaign, array=array.number, place=place, since=since)
                )
        return {one: max(missed_s, self._since(array, one)) for one, missed_s in missing.items()}

    def _since(self, array: Array, one: Attempt) -> float:
        mark = self.of(array).get(one.place)
        if mark is None or mark.missing_since is None:
            return 0.0
        return (self._now - mark.missing_since).total_seconds()
