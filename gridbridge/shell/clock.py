"""The clock of a program: the time of day, and a steady clock that nobody can set."""

import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar

from gridbridge.model.host_clocks import HostClockReadings

BOOT_ID = "/proc/sys/kernel/random/boot_id"
LEAST_S = 1.0  # smaller steps are ignored: they come from slewing, or from the time between two readings

K = TypeVar("K")
V = TypeVar("V")


def _read_steady_clock_s() -> float:
    """Return CLOCK_BOOTTIME, which nobody can set, and which runs while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class TimesShiftedWithClock(dict[K, V]):
    """A dictionary of recorded times that shift when someone sets the clock, so that ages stay right."""

    __slots__ = ("__weakref__", "moved")

    def __init__(self, shift_value: Callable[[V, timedelta], V]) -> None:
        super().__init__()
        self.moved = shift_value


class Clock:
    """The time of day, with a steady clock that shows whether someone has set the time of day."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = _read_steady_clock_s
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset_s = wall() - steady()
        self._dated: list[weakref.ref[TimesShiftedWithClock[Any, Any]]] = []

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        return datetime.fromtimestamp(self._wall(), UTC)

    def now_s(self) -> float:
        """Return the time of day in epoch seconds."""
        return self._wall()

    def steady_s(self) -> float:
        """Return the seconds of the steady clock; only differences have a meaning."""
        return self._steady()

    def time_of_day_at(self, steady_s: float) -> datetime:
        return self.now() - timedelta(seconds=self._steady() - steady_s)

    def read_host_clocks(self) -> HostClockReadings:
        """Return the readings of both clocks and the kernel's boot id; an unreadable boot id is empty."""
        boot = ""
        with suppress(OSError), open(BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
        return HostClockReadings(boot=boot, wall=self.now(), steady_s=self.steady_s())

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def make_clock_shifted_dictionary(self, shift_value: Callable[[V, timedelta], V]) -> TimesShiftedWithClock[Any, V]:
        """Return an empty dictionary of recorded times; `shift_value` shifts a value after a clock step."""
        values = TimesShiftedWithClock[Any, V](shift_value)
        self._dated = [reference for reference in self._dated if reference() is not None]
        self._dated.append(weakref.ref(values))
        return values

    def detect_clock_step(self) -> timedelta:
        """Return how far the clock was set forward since the last call, and shift all recorded times."""
        offset_s = self._wall() - self._steady()
        moved_s, self._offset_s = offset_s - self._offset_s, offset_s
        if abs(moved_s) < LEAST_S:
            return timedelta()
        step = timedelta(seconds=moved_s)
        for reference in self._dated:
            if (values := reference()) is not None:
                for key, value in values.items():
                    values[key] = values.moved(value, step)
        return step


LOCAL_TIME_ZONE = "/etc/localtime"


def is_time_zone(name: str) -> bool:
    """Say whether the time zone database (tzdata) of this host has this time zone."""
    from zoneinfo import ZoneInfo  # imported here, because few programs need time zones

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def time_zone_named(name: str) -> tzinfo:
    """Return a time zone; an empty name means the time zone of this host, or UTC if the host has none."""
    from zoneinfo import ZoneInfo

    if name and is_time_zone(name):
        return ZoneInfo(name)
    with suppress(OSError, ValueError), open(LOCAL_TIME_ZONE, "rb") as file:
        return ZoneInfo.from_file(file)
    return UTC
