"""Correct the balancer's stored times after the system clock was set.

Stored times are shifted by the clock's step, so that ages stay right. After a reboot the step is unknown, and
only times in the future are changed.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.elastic.balance_plan import WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import (
    BalancerHostClocks,
    BalancerOwnedNode,
    PoolFailureRecord,
)

TimeChange = Callable[[datetime], datetime]

LEAST_S = 60.0  # smaller clock steps change no decision and are ignored


def measure_clock_step(before: BalancerHostClocks | None, now: BalancerHostClocks) -> timedelta:
    """Return the step by which the clock was set; zero for an unknown step, or a step under a minute."""
    if before is None or not now.boot or before.boot != now.boot:
        return timedelta()
    set_by = now.wall - before.wall - timedelta(seconds=now.steady_s - before.steady_s)
    return set_by if abs(set_by.total_seconds()) >= LEAST_S else timedelta()


def shift_time(at: datetime, by: timedelta) -> datetime:
    """Return a time shifted by a clock step; a time out of range is returned unchanged."""
    try:
        return at + by
    except OverflowError:
        return at


def time_shifter(by: timedelta) -> TimeChange:
    """Return a function that shifts times by a clock step."""
    return lambda at: shift_time(at, by)


def future_time_limiter(now: datetime) -> TimeChange:
    """Return a function that replaces future times by now."""
    return lambda at: min(at, now)


def limit_time_to_now(at: datetime | None, now: datetime) -> datetime | None:
    """Return a time, or now if the time is in the future."""
    return _changed(at, future_time_limiter(now))


def change_node_times(node: BalancerOwnedNode, change: TimeChange) -> BalancerOwnedNode:
    """Apply a function to all times of a node."""
    return replace(
        node,
        since=change(node.since),
        up_since=_changed(node.up_since, change),
        idle_since=_changed(node.idle_since, change),
    )


def change_pool_failure_times(record: PoolFailureRecord, change: TimeChange) -> PoolFailureRecord:
    """Apply a function to all times in a pool's failure record."""
    return replace(
        record, failed_at=_changed(record.failed_at, change), no_capacity_at=_changed(record.no_capacity_at, change)
    )


def change_waiting_job_history_times(history: WaitingJobsHistory, change: TimeChange) -> WaitingJobsHistory:
    """Apply a function to all times in the history of waiting jobs."""
    return replace(
        history,
        at=change(history.at),
        room_since=_changed(history.room_since, change),
        stuck_since=_changed(history.stuck_since, change),
    )


def _changed(at: datetime | None, change: TimeChange) -> datetime | None:
    return None if at is None else change(at)
