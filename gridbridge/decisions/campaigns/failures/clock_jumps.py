"""What a clock that was set forward does to ages: nothing, so that no task is killed for it.

A moment before a leap looks older by as much. Nobody can say how long a machine was switched off,
so that counts as a leap, too. Ages may come out too small by this, never too great.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.campaigns.cancellation import CancellationClocks, ClockJump

LEAST_S = 60.0  # less is an age that nobody's patience notices
KEPT = timedelta(days=30)  # no array is as old


def with_jumps(before: CancellationClocks | None, now: CancellationClocks) -> CancellationClocks:
    """Return what the clocks say now, with the leaps that are known by then.

    A clock that is set back takes the last leaps back.
    """
    if before is None:
        return now
    passed_s = now.steady_s - (before.steady_s if now.boot == before.boot else 0.0)
    by_s = (now.wall - before.wall).total_seconds() - passed_s
    jumps = tuple(jump for jump in before.leaps if now.wall - jump.at < KEPT)
    if by_s >= LEAST_S:
        jumps = (*jumps, ClockJump(at=now.wall, by_s=by_s))
    return replace(now, leaps=_without(jumps, -by_s) if by_s <= -LEAST_S else jumps)


def moved(since: datetime, leaps: Iterable[ClockJump]) -> datetime:
    """Return a moment as it would be noted had the clock always been as it is now."""
    later_s = sum(jump.by_s for jump in leaps if jump.at > since)
    return since + timedelta(seconds=later_s)


def ahead(leaps: Iterable[ClockJump]) -> timedelta:
    """Return by how much at most a moment looks older than it is."""
    return timedelta(seconds=sum(jump.by_s for jump in leaps))


def _without(leaps: tuple[ClockJump, ...], back_s: float) -> tuple[ClockJump, ...]:
    if not leaps or back_s <= 0:
        return leaps
    *first, last = leaps
    if last.by_s - back_s >= LEAST_S:
        return (*first, replace(last, by_s=last.by_s - back_s))
    return _without(tuple(first), back_s - last.by_s)
