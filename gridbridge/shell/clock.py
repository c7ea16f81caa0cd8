"""The one clock of a program: the time of day, and steady seconds that nobody can set.

Noted moments are kept here. When the clock is set, they are moved by as much, so that their age
stays right.
"""

import time
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

LEAST_S = 1.0  # a smaller step is adjtime's slewing, or the time between two readings

K = TypeVar("K")
V = TypeVar("V")


def _steady() -> float:
    """Return seconds that nobody sets, and that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class TimedValues(dict[K, V]):
    """Values that have moments, each under its key."""

    __slots__ = ("__weakref__", "_moved")

    def __init__(self, moved: Callable[[V, timedelta], V]) -> None:
        super().__init__()
        self._moved = moved

    def follow(self, step: timedelta) -> None:
        """Keep how long ago everything was by a clock that was set by so much."""
        for key, value in self.items():
            self[key] = self._moved(value, step)


class Clock:
    """Tells the time, and compares it with a clock that nobody sets."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _steady
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset_s = wall() - steady()
        self._dated: list[weakref.ref[TimedValues[Any, Any]]] = []

    def now(self) -> datetime:
        """Return the time as it is set, in UTC."""
        return datetime.fromtimestamp(self._wall(), UTC)

    def now_s(self) -> float:
        """Return the same in seconds since 1970, as files and messages have it."""
        return self._wall()

    def steady_s(self) -> float:
        """Return seconds by which pauses are measured; only their differences say something."""
        return self._steady()

    def moment(self, steady_s: float) -> datetime:
        """Return the time of a steady second, by the clock as it is set now."""
        return self.now() - timedelta(seconds=self._steady() - steady_s)

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        time.sleep(seconds)

    def dated(self, moved: Callable[[V, timedelta], V]) -> TimedValues[Any, V]:
        """Return an empty dictionary, whose values `moved` moves when the clock was set."""
        values = TimedValues[Any, V](moved)
        self._dated = [reference for reference in self._dated if reference() is not None]
        self._dated.append(weakref.ref(values))
        return values

    def step(self) -> timedelta:
        """Move what is kept by as much as the clock was set since the last call; return that.

        Nothing is the usual answer.
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
