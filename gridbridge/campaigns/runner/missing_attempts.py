"""For how long tasks are missing, and which of them ran: by the runs before this one, too.

From cron each cycle is a run of its own.
"""

import json
import logging
from collections.abc import Iterable, Set

from gridbridge.campaigns.store.missing_tasks import MissingTasks, Place
from gridbridge.errors import ParseError, StateError
from gridbridge.model.campaigns.attempt_numbers import ranges_of, read_places, write_places
from gridbridge.model.campaigns.campaign import Array, Attempt
from gridbridge.model.campaigns.cancellation import MissingSince
from gridbridge.model.places import RUNNER_RAN
from gridbridge.shell import files
from gridbridge.shell.clock import Clock

MAX_BYTES = 64 << 20

Key = tuple[int, int]  # of an array: its campaign and number

_log = logging.getLogger(__name__)


class MissingAttempts:
    """The tasks that their clusters don't list, and whose ends are not known."""

    def __init__(
        self, kept: MissingTasks, clock: Clock, path: str = RUNNER_RAN, *, is_dry: bool = False
    ) -> None:
        """Know what the runs before this one have kept; `path` is where it is kept what ran."""
        self._is_dry = is_dry
        self._kept = kept
        self._path = path
        self._clock = clock
        self._known = kept.all()
        self._of: dict[Key, set[Place]] = {}  # of each array those that are known
        self._since_s: dict[Key, dict[Place, float]] = {}  # by the steady clock, which nobody sets
        self._ran: dict[Key, Set[int]] = _read(path)  # places of each array, when last listed
        self._told_ran = b""  # as it was kept last
        self.changed: list[MissingSince] = []  # in this cycle

    def begin(self) -> None:
        """Begin a cycle."""
        self._known, self.changed, self._of = self._kept.all(), [], {}
        for place in self._known:
            self._of.setdefault(place[:2], set()).add(place)

    def see(self, array: Array, listed: Set[int], running: Set[int]) -> None:
        """Note which places of an array are listed, and which of those run."""
        of = array.campaign, array.number
        self._keep_ran(of, (self._ran.get(of, frozenset()) - listed) | running)
        if since_s := self._since_s.get(of):
            self._keep_since(of, {one: at for one, at in since_s.items() if one[2] not in listed})
        for one in self._of.get(of, ()):
            if one[2] in listed:
                self._change(one, is_missing=False)

    def ran(self, array: Array) -> Set[int]:
        """Return the places of an array that ran when they were listed last."""
        return self._ran.get((array.campaign, array.number), frozenset())

    def keep(self, arrays: Iterable[Array]) -> None:
        """Keep which places of these arrays ran, for the next run of the program."""
        if self._is_dry:
            return
        of = {(one.campaign, one.number) for one in arrays}
        self._ran = {each: places for each, places in self._ran.items() if each in of}
        told = {
            f"{campaign}.{array}": write_places(ranges_of(places))
            for (campaign, array), places in self._ran.items()
        }
        raw = json.dumps(told).encode()
        try:
            if raw != self._told_ran:
                files.replace(self._path, raw)
                self._told_ran = raw
        except StateError as error:
            _log.warning("event=not_kept why=%r", str(error))

    def for_s(self, gone: Iterable[Attempt]) -> dict[Attempt, float]:
        """Return for how long attempts that are not listed now have not been."""
        now_s = self._clock.steady_s()
        found = {}
        for one in gone:
            since_s = self._since_s.setdefault((one.campaign, one.array), {})
            found[one] = now_s - since_s.setdefault(_place(one), now_s - self._before_s(one))
        return found

    def settle(self, gone: Iterable[Attempt], ended: Iterable[Attempt]) -> None:
        """Keep those of which that is not the end."""
        over = {_place(one) for one in ended}
        for of in {place[:2] for place in over}:
            since_s = self._since_s.get(of, {})
            self._keep_since(of, {one: at for one, at in since_s.items() if one not in over})
            self._keep_ran(of, self._ran.get(of, frozenset()) - {place[2] for place in over})
        for place in map(_place, gone):
            if place not in over and place not in self._known:
                self._change(place, is_missing=True)

    def _keep_since(self, of: Key, since_s: dict[Place, float]) -> None:
        if since_s:
            self._since_s[of] = since_s
        else:
            self._since_s.pop(of, None)

    def _keep_ran(self, of: Key, places: Set[int]) -> None:
        if places:
            self._ran[of] = places
        else:
            self._ran.pop(of, None)

    def _before_s(self, one: Attempt) -> float:
        """Return for how long it was missing when this run of the program saw it first."""
        since = self._known.get(_place(one))
        return max(0.0, (self._clock.now() - since).total_seconds()) if since else 0.0

    def _change(self, one: Place, *, is_missing: bool) -> None:
        campaign, array, place = one
        since = self._clock.now() if is_missing else None
        self.changed.append(MissingSince(campaign=campaign, array=array, place=place, since=since))


def _place(one: Attempt) -> Place:
    return one.campaign, one.array, one.place


def _read(path: str) -> dict[Key, Set[int]]:
    """Return which places of arrays ran when a run before this one listed them last."""
    try:
        told = json.loads(files.read(path, MAX_BYTES)[0])
        return {_array(of): _places(str(places)) for of, places in told.items()}
    except (OSError, StateError, ParseError, ValueError, AttributeError):
        return {}


def _array(of: str) -> Key:
    campaign, _, number = of.partition(".")
    return int(campaign), int(number)


def _places(text: str) -> frozenset[int]:
    return frozenset(place for some in read_places(text) for place in some)
