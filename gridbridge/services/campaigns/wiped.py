"""What the updator has to know of the tasks that nikita deletes."""

from collections.abc import Collection, Iterable, Mapping

from gridbridge.decisions.campaigns.outcomes import AGAIN, MOST_ATTEMPTS
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

    def times(self, ended: Iterable[Attempt]) -> dict[int, dict[int, int]]:
        """Return how often tasks were wiped whose next attempt depends on it, by campaign."""
        found: dict[int, dict[int, int]] = {}
        for one in _last_of_many(ended):
            times = self._state.wiped(one.campaign, one.task)
            found.setdefault(one.campaign, {})[one.task] = times
        return found

    def _since(self, array: Array, one: Attempt) -> float:
        mark = self.of(array).get(one.place)
        if mark is None or mark.missing_since is None:
            return 0.0
        return (self._now - mark.missing_since).total_seconds()


def _last_of_many(ended: Iterable[Attempt]) -> Collection[Attempt]:
    return [one for one in ended if one.outcome in AGAIN and one.attempt >= MOST_ATTEMPTS]
