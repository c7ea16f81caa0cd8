"""For how long tasks are missing: by the runs of the program before this one, too.

From cron each cycle is a run of its own.
"""

from collections.abc import Iterable, Set

from gridbridge.model.campaigns.campaign import Array, Attempt
from gridbridge.model.campaigns.wiping import Missed
from gridbridge.shell.clock import Clock
from gridbridge.state.database.missing import MissingTasks, Place


class Missing:
    """The tasks that their clusters don't list, and whose ends are not known."""

    def __init__(self, kept: MissingTasks, clock: Clock) -> None:
        self._kept = kept
        self._clock = clock
        self._known = kept.all()
        self._since_s: dict[Place, float] = {}  # by the steady clock, which nobody sets
        self.changed: list[Missed] = []  # in this cycle

    def begin(self) -> None:
        """Begin a cycle."""
        self._known, self.changed = self._kept.all(), []

    def see(self, array: Array, listed: Set[int]) -> None:
        """Note which places of an array are listed."""
        of = array.campaign, array.number
        for one in [one for one in self._since_s if one[:2] == of and one[2] in listed]:
            del self._since_s[one]
        for one in [one for one in self._known if one[:2] == of and one[2] in listed]:
            self._change(one, is_missing=False)

    def for_s(self, gone: Iterable[Attempt]) -> dict[Attempt, float]:
        """Return for how long attempts that are not listed now have not been."""
        now_s = self._clock.steady_s()
        return {
            one: now_s - self._since_s.setdefault(_place(one), now_s - self._before_s(one))
            for one in gone
        }

    def settle(self, gone: Iterable[Attempt], ended: Iterable[Attempt]) -> None:
        """Keep those of which that is not the end."""
        over = {_place(one) for one in ended}
        for place in over:
            self._since_s.pop(place, None)
        known = over | self._known.keys()
        for one in gone:
            if _place(one) not in known:
                self._change(_place(one), is_missing=True)

    def _before_s(self, one: Attempt) -> float:
        """Return for how long it was missing when this run of the program saw it first."""
        since = self._known.get(_place(one))
        return max(0.0, (self._clock.now() - since).total_seconds()) if since else 0.0

    def _change(self, one: Place, *, is_missing: bool) -> None:
        campaign, array, place = one
        since = self._clock.now() if is_missing else None
        self.changed.append(Missed(campaign=campaign, array=array, place=place, since=since))


def _place(one: Attempt) -> Place:
    return one.campaign, one.array, one.place
