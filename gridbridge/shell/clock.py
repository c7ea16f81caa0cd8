"""The machine's clock as it is set: how far it was moved, so that durations can survive that."""

import time
from collections.abc import Callable
from datetime import timedelta

LEAST_S = 1.0  # less is adjtime's own slewing, or the time between two readings


def _steady() -> float:
    """Return seconds that nobody sets, and that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Clock:
    """Compares the clock with one that nobody sets."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _steady
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset_s = wall() - steady()

    def step(self) -> timedelta:
        """Return by how much the clock was set since the last call; nothing is the usual answer."""
        offset_s = self._wall() - self._steady()
        moved_s, self._offset_s = offset_s - self._offset_s, offset_s
        return timedelta(seconds=moved_s) if abs(moved_s) >= LEAST_S else timedelta()
