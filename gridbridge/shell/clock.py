"""The clock of a program: the time of day, and a steady clock that nobody can set.

The clock also keeps dictionaries of recorded times. When somebody sets the time of day, all
recorded times are shifted by the same amount, so that their ages stay right.
"""

import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

LEAST_S = 1.0  # smaller differences come from clock slewing or the time between two readings

K = TypeVar("K")
V = TypeVar("V")


def _steady() -> float:
    """Return CLOCK_BOOTTIME, which nobody can set and which continues while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ClockShiftedDictionary(dict[K, V]):
    """A dictionary of recorded times, which are shifted when somebody sets the clock."""

    __slots__ = ("__weakref__", "_moved")

    def __init__(self, moved: Callable[[V, timedelta], V]) -> None:
        super().__init__()
        self._moved = moved

    def follow(self, step: timedelta) -> None:
        """Shift the times of all values by a clock step, so that their ages stay the same."""
        for key, value in self.items():
            self[key] = self._moved(value, step)


class Clock:
    """Returns the time of day, and detects when it was set, by comparison with a steady clock."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _steady) -> None:
        self._wall = wall
        self._steady = steady
        self._offset_s = wall() - steady()
        self._dated: list[weakref.ref[ClockShiftedDictionary[Any, Any]]] = []

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        return datetime.fromtimestamp(self._wall(), UTC)

    def now_s(self) -> float:
        """Return the time of day in seconds since 1970, as files and messages have it."""
        return self._wall()

    def steady_s(self) -> float:
        """Return the steady clock's seconds; only differences are meaningful."""
        return self._steady()

    def moment(self, steady_s: float) -> datetime:
        """Return the time of day at which the steady clock showed these seconds."""
        return self.now() - timedelta(seconds=self._steady() - steady_s)

    def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""
        time.sleep(seconds)

    def dated(self, moved: Callable[[V, timedelta], V]) -> ClockShiftedDictionary[Any, V]:
        """Return an empty dictionary of times; `moved` shifts its values after a clock step."""
        values = ClockShiftedDictionary[Any, V](moved)
        self._dated = [reference for reference in self._dated if reference() is not None]
        self._dated.append(weakref.ref(values))
        return values

    def step(self) -> timedelta:
        """Return by how much the clock was set since the last call, and shift recorded times.

        The result is zero if nobody has set the clock.
        """
        offset_s = self._wall() - self._steady()
        moved_s, self._offset_s = offset_s - self._offset_s, offset_s
        if abs(moved_s) < LEAST_S:
            return timedelta()
        step = timedelta(seconds=moved_s)
        for reference in self._dated:
            if (values := reference()) is not None:
                values.follow(step)
        return step
