"""When a round could decide otherwise than the one before, though no task came, went or started."""

import math
from collections.abc import Iterator
from datetime import datetime

from gridbridge.decisions.elastic.replay.azge import IDLE_TIMEOUT_S
from gridbridge.model.amounts import HOUR_S, MINUTE_S
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.node import ElasticNodeState
from gridbridge.model.elastic.replay_outcome import ReplayPolicy, ReplayRules


def seconds_until_rules_may_change(situation: BalanceSituation, way: ReplayPolicy) -> float:
    """Return in how many seconds a time runs out that the rules look at; infinite for never.

    A round before that decides as the last one did, as long as nothing else changes.
    """
    return min(
        (seconds for seconds in _pending_timeouts(situation, way) if seconds > 0), default=math.inf
    )


def _pending_timeouts(situation: BalanceSituation, way: ReplayPolicy) -> Iterator[float]:
    rules, demand = way.balance, way.demand
    if situation.last_change is not None:
        changed_s = (situation.now - situation.last_change).total_seconds()
        if way.rules is ReplayRules.STARCLUSTER:
            yield rules.stabilization_s - changed_s
        else:
            yield demand.grow_pause_s - changed_s
            yield demand.shrink_pause_s - changed_s
    if way.rules is ReplayRules.DEMAND and demand.target_wait_s and situation.cell.waiting:
        yield MINUTE_S  # what runs comes nearer to its end
    for row in situation.cell.waiting:
        yield from _wait_timeouts(situation, way, row.oldest_since)
    for node in situation.nodes:
        if node.state is ElasticNodeState.READY and node.idle_since is not None:
            yield from _node_timeouts(situation, way, node.idle_since, node.up_since)
    if demand.schedule:
        yield HOUR_S - situation.now.timestamp() % HOUR_S


def _wait_timeouts(
    situation: BalanceSituation, way: ReplayPolicy, since: datetime | None
) -> Iterator[float]:
    """Give when a wait is long enough; StarCluster wants it to be longer than the limit."""
    if since is None:
        return
    waited_s = (situation.now - since).total_seconds()
    if way.rules is ReplayRules.STARCLUSTER:
        yield way.balance.job_wait_time_s - waited_s + 1
    else:
        yield way.demand.wait_s - waited_s


def _node_timeouts(
    situation: BalanceSituation, way: ReplayPolicy, idle: datetime, up: datetime | None
) -> Iterator[float]:
    """Give when an idle node may be removed: after a time, or late in what is paid for."""
    idle_s = (situation.now - idle).total_seconds()
    up_s = (situation.now - up).total_seconds() if up else 0.0
    if way.rules is ReplayRules.AZGE:
        yield IDLE_TIMEOUT_S - idle_s
    elif way.rules is ReplayRules.STARCLUSTER:
        yield _until_mark(way.balance.kill_after_min * MINUTE_S, up_s, HOUR_S)
    elif way.rules in (ReplayRules.DEMAND, ReplayRules.SQUEEZE):
        yield way.demand.idle_timeout_s - idle_s
        unit_s = way.demand.billing_s
        if unit_s > MINUTE_S:
            yield _until_mark(unit_s * (1 - way.demand.billing_window), up_s, unit_s)


def _until_mark(mark_s: float, up_s: float, unit_s: float) -> float:
    """Return how long until a unit of time has a mark behind it."""
    return (mark_s - up_s) % unit_s or unit_s
