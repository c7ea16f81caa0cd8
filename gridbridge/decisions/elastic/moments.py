"""Moments that were kept, after the clock was set.

By how much it was set is known as long as the machine was not started anew: then they are moved by
as much, so that their age stays right. In any case none of them is later than now.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.elastic.clocks import Clocks
from gridbridge.model.elastic.owned import Owned, PoolRecord
from gridbridge.model.elastic.plan import Watched

LEAST_S = 60.0  # a smaller step changes no decision


def step(before: Clocks | None, now: Clocks) -> timedelta:
    """Return by how much the clock was set; nothing where that can't be known, or is little."""
    if before is None or not now.boot or before.boot != now.boot:
        return timedelta()
    set_by = now.wall - before.wall - timedelta(seconds=now.steady_s - before.steady_s)
    return set_by if abs(set_by.total_seconds()) >= LEAST_S else timedelta()


def moved(at: datetime, by: timedelta) -> datetime:
    """Return a moment by a clock that was set by so much; as it is where there is no such time."""
    try:
        return at + by
    except OverflowError:
        return at


def node_moved(node: Owned, by: timedelta) -> Owned:
    """Return a node whose moments were moved."""
    return replace(
        node,
        since=moved(node.since, by),
        up_since=_moved(node.up_since, by),
        idle_since=_moved(node.idle_since, by),
    )


def record_moved(record: PoolRecord, by: timedelta) -> PoolRecord:
    """Return what went wrong with a pool, moved."""
    return replace(
        record,
        failed_at=_moved(record.failed_at, by),
        no_capacity_at=_moved(record.no_capacity_at, by),
    )


def watched_moved(one: Watched, by: timedelta) -> Watched:
    """Return how waiting jobs were seen, moved."""
    return replace(
        one,
        at=moved(one.at, by),
        room_since=_moved(one.room_since, by),
        stuck_since=_moved(one.stuck_since, by),
    )


def _moved(at: datetime | None, by: timedelta) -> datetime | None:
    return None if at is None else moved(at, by)


def by_now(at: datetime | None, now: datetime) -> datetime | None:
    """Return a moment, or now if it would be in the future."""
    return None if at is None else min(at, now)


def node_by_now(node: Owned, now: datetime) -> Owned:
    """Return a node of which nothing begins in the future."""
    return replace(
        node,
        since=min(node.since, now),
        up_since=by_now(node.up_since, now),
        idle_since=by_now(node.idle_since, now),
    )


def record_by_now(record: PoolRecord, now: datetime) -> PoolRecord:
    """Return what went wrong with a pool, until now."""
    return replace(
        record,
        failed_at=by_now(record.failed_at, now),
        no_capacity_at=by_now(record.no_capacity_at, now),
    )


def watched_by_now(one: Watched, now: datetime) -> Watched:
    """Return how waiting jobs were seen, until now."""
    return replace(
        one,
        at=min(one.at, now),
        room_since=by_now(one.room_since, now),
        stuck_since=by_now(one.stuck_since, now),
    )
