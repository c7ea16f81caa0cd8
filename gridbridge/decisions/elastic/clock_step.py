"""Moments that were kept, after the clock was set.

By how much it was set is known as long as the machine was not started anew: then they are moved by
as much, so that their age stays right. In any case none of them is later than now.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.elastic.balance_plan import WatchedWaitingJobs
from gridbridge.model.elastic.owned_nodes import BalancerHostClocks, OwnedNode, PoolFailureRecord

TimeChange = Callable[[datetime], datetime]

LEAST_S = 60.0  # a smaller step changes no decision


def measure_clock_step(before: BalancerHostClocks | None, now: BalancerHostClocks) -> timedelta:
    """Return by how much the clock was set; nothing where that can't be known, or is little."""
    if before is None or not now.boot or before.boot != now.boot:
        return timedelta()
    set_by = now.wall - before.wall - timedelta(seconds=now.steady_s - before.steady_s)
    return set_by if abs(set_by.total_seconds()) >= LEAST_S else timedelta()


def shift_time(at: datetime, by: timedelta) -> datetime:
    """Return a moment by a clock that was set by so much; as it is where there is no such time."""
    try:
        return at + by
    except OverflowError:
        return at


def time_shifter(by: timedelta) -> TimeChange:
    """Return what moves a moment as far as the clock was set."""
    return lambda at: shift_time(at, by)


def future_time_limiter(now: datetime) -> TimeChange:
    """Return what makes a moment of the future now."""
    return lambda at: min(at, now)


def limit_time_to_now(at: datetime | None, now: datetime) -> datetime | None:
    """Return a moment, or now if it would be in the future."""
    return _changed(at, future_time_limiter(now))


def change_node_times(node: OwnedNode, change: TimeChange) -> OwnedNode:
    """Return a node whose moments were changed."""
    return replace(
        node,
        since=change(node.since),
        up_since=_changed(node.up_since, change),
        idle_since=_changed(node.idle_since, change),
    )


def change_pool_record_times(record: PoolFailureRecord, change: TimeChange) -> PoolFailureRecord:
    """Return what went wrong with a pool, its moments changed."""
    return replace(
        record,
        failed_at=_changed(record.failed_at, change),
        no_capacity_at=_changed(record.no_capacity_at, change),
    )


def change_watched_job_times(history: WatchedWaitingJobs, change: TimeChange) -> WatchedWaitingJobs:
    """Return how waiting jobs were seen, its moments changed."""
    return replace(
        history,
        at=change(history.at),
        room_since=_changed(history.room_since, change),
        stuck_since=_changed(history.stuck_since, change),
    )


def _changed(at: datetime | None, change: TimeChange) -> datetime | None:
    return None if at is None else change(at)
