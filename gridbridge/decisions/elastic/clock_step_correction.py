"""Correct the balancer's stored times after the system clock was set, so that ages stay right.

After a reboot the clock's step is unknown, and only times in the future are changed.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import TypeVar

from gridbridge.model.elastic.balance_plan import WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, PoolFailureRecord

Record = TypeVar("Record", BalancerOwnedNode, PoolFailureRecord, WaitingJobsHistory)
TimeChange = Callable[[datetime], datetime]


def shift_time_by_clock_step(at: datetime, by: timedelta) -> datetime:
    """Return a time shifted by a clock step; if the result is out of range, return the time unchanged."""
    try:
        return at + by
    except OverflowError:
        return at


def future_time_limiter(now: datetime) -> TimeChange:
    """Return a function that replaces a future time by the present time."""
    return lambda at: min(at, now)


def limit_time_to_now(at: datetime | None, now: datetime) -> datetime | None:
    """Return a time, or now if the time is in the future."""
    return None if at is None else min(at, now)


def map_record_times(record: Record, change: TimeChange) -> Record:
    """Apply a function to all times of a node, a pool's failure record or a history of waiting jobs."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    values |= {name: change(at) for name, at in values.items() if isinstance(at, datetime)}
    return replace(record, **values)
