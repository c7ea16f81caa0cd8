"""Moments that were kept, after the clock was set.

By how much it was set is known as long as the machine was not started anew: then they are moved by
as much, so that their age stays right. In any case none of them is later than now.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.elastic.balance_plan import Watched
from gridbridge.model.elastic.clocks import HostClocks
from gridbridge.model.elastic.owned_nodes import OwnedNode, PoolRecord

Change = Callable[[datetime], datetime]

LEAST_S = 60.0  # a smaller step changes no decision


def step(before: HostClocks | None, now: HostClocks) -> timedelta:
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


def set_by(by: timedelta) -> Change:
    """Return what moves a moment as far as the clock was set."""
    return lambda at: moved(at, by)


def until(now: datetime) -> Change:
    """Return what makes a moment of the future now."""
    return lambda at: min(at, now)


def by_now(at: datetime | None, now: datetime) -> datetime | None:
    """Return a moment, or now if it would be in the future."""
    return _changed(at, until(now))


def of_node(node: OwnedNode, change: Change) -> OwnedNode:
    """Return a node whose moments were changed."""
    return replace(
        node,
        since=change(node.since),
        up_since=_changed(node.up_since, change),
        idle_since=_changed(node.idle_since, change),
    )


def of_record(record: PoolRecord, change: Change) -> PoolRecord:
    """Return what went wrong with a pool, its moments changed."""
    return replace(
        record,
        failed_at=_changed(record.failed_at, change),
        no_capacity_at=_changed(record.no_capacity_at, change),
    )


def of_watched(history: Watched, change: Change) -> Watched:
    """Return how waiting jobs were seen, its moments changed."""
    return replace(
        history,
        at=change(history.at),
        room_since=_changed(history.room_since, change),
        stuck_since=_changed(history.stuck_since, change),
    )


def _changed(at: datetime | None, change: Change) -> datetime | None:
    return None if at is None else change(at)
