"""Finds out by how much a host's wall clock was set, to correct stored times accordingly."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

MIN_JUMP_S = 60.0  # smaller jumps are ignored, because no timeout or decision needs more precision


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump:
    """A forward jump of a host's wall clock."""

    at: datetime  # wall clock time just after the jump
    by_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClockReadings:
    boot: str  # the kernel's id of the boot; empty: unknown
    wall: datetime
    steady_s: float  # seconds since the boot, suspended time included
    leaps: tuple[ClockJump, ...] = ()


def measure_clock_step(before: HostClockReadings | None, now: HostClockReadings) -> timedelta:
    """Return by how much the clock was set between two readings; zero if unknown or less than a minute."""
    if before is None or not now.boot or before.boot != now.boot:
        return timedelta()
    set_by = now.wall - before.wall - timedelta(seconds=now.steady_s - before.steady_s)
    return set_by if abs(set_by.total_seconds()) >= MIN_JUMP_S else timedelta()


def record_clock_jumps(before: HostClockReadings | None, now: HostClockReadings) -> HostClockReadings:
    """Return the readings `now` with all forward jumps of the wall clock up to now.

    A backward jump cancels the last forward jumps. The time in which the host was off counts as a jump.
    """
    if before is None:
        return now
    passed_s = now.steady_s - (before.steady_s if now.boot == before.boot else 0.0)
    by_s = (now.wall - before.wall).total_seconds() - passed_s
    jumps = tuple(jump for jump in before.leaps if now.wall - jump.at < timedelta(days=30))
    if by_s >= MIN_JUMP_S:
        jumps = (*jumps, ClockJump(at=now.wall, by_s=by_s))
    return replace(now, leaps=_clock_jumps_minus_backward_step(jumps, -by_s) if by_s <= -MIN_JUMP_S else jumps)


def shift_past_time_by_clock_jumps(since: datetime, leaps: Iterable[ClockJump]) -> datetime:
    later_s = sum(jump.by_s for jump in leaps if jump.at > since)
    return since + timedelta(seconds=later_s)


def sum_clock_jumps(leaps: Iterable[ClockJump]) -> timedelta:
    """Return the sum of all clock jumps: a stored time looks too old by at most this sum."""
    return timedelta(seconds=sum(jump.by_s for jump in leaps))


def _clock_jumps_minus_backward_step(leaps: tuple[ClockJump, ...], back_s: float) -> tuple[ClockJump, ...]:
    if not leaps or back_s <= 0:
        return leaps
    *first, last = leaps
    if last.by_s - back_s >= MIN_JUMP_S:
        return (*first, replace(last, by_s=last.by_s - back_s))
    return _clock_jumps_minus_backward_step(tuple(first), back_s - last.by_s)
