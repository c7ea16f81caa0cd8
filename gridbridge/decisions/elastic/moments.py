"""Moments that were kept, after the clock was set back: none of them is later than now."""

from dataclasses import replace
from datetime import datetime

from gridbridge.model.elastic.owned import Owned, PoolRecord
from gridbridge.model.elastic.plan import Watched


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
