"""Correct ages of tasks for jumps of the clock, so that no task is killed too early.

A time stored before a forward jump looks too old by the length of the jump. A pause in which the
host was off also counts as a jump, since its length is unknown. Corrected ages are never too large.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.campaigns.nikita_deletion_values import ClockJump, HostClockReadings

MIN_JUMP_S = 60.0  # jumps shorter than this are ignored, since no timeout is that precise
JUMP_RETENTION = timedelta(days=30)  # age at which jumps are forgotten; arrays never get this old


def record_clock_jumps(before: HostClockReadings | None, now: HostClockReadings) -> HostClockReadings:
    """Return the present clock readings with all known jumps.

    A clock that is set back cancels the last jumps.
    """
    if before is None:
        return now
    passed_s = now.steady_s - (before.steady_s if now.boot == before.boot else 0.0)
    by_s = (now.wall - before.wall).total_seconds() - passed_s
    jumps = tuple(jump for jump in before.leaps if now.wall - jump.at < JUMP_RETENTION)
    if by_s >= MIN_JUMP_S:
        jumps = (*jumps, ClockJump(at=now.wall, by_s=by_s))
    return replace(now, leaps=_without(jumps, -by_s) if by_s <= -MIN_JUMP_S else jumps)


def shift_past_time_by_clock_jumps(since: datetime, leaps: Iterable[ClockJump]) -> datetime:
    """Return a past time as the present clock would have recorded it."""
    later_s = sum(jump.by_s for jump in leaps if jump.at > since)
    return since + timedelta(seconds=later_s)


def sum_clock_jumps(leaps: Iterable[ClockJump]) -> timedelta:
    """Return the sum of clock jumps: the most by which a time can look too old."""
    return timedelta(seconds=sum(jump.by_s for jump in leaps))


def _without(leaps: tuple[ClockJump, ...], back_s: float) -> tuple[ClockJump, ...]:
    if not leaps or back_s <= 0:
        return leaps
    *first, last = leaps
    if last.by_s - back_s >= MIN_JUMP_S:
        return (*first, replace(last, by_s=last.by_s - back_s))
    return _without(tuple(first), back_s - last.by_s)
