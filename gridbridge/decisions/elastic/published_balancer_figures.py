"""Compute the figures that the balancer publishes after each round."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gridbridge.decisions.elastic.balancer_node_and_job_counts import (
    count_slots_and_startable_tasks,
    startable_waiting_jobs,
)
from gridbridge.decisions.elastic.demand.free_capacity import is_best_effort_or_transfer_queue
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation
from gridbridge.model.elastic.elastic_nodes import ElasticNodeState
from gridbridge.model.elastic.owned_nodes import BalancerOwnedNode, NodeStateCause
from gridbridge.model.elastic.published_balance import (
    BalanceRoundStatistics,
    PublishedBalancerFigures,
    PublishedNewNodeRefusalCount,
    PublishedNodeCount,
    PublishedPoolNodeCounters,
    RecentlyEndedTasks,
    TasksEndedInMinute,
    minute_since_epoch,
)

GIVEN_BACK = (ElasticNodeState.READY, ElasticNodeState.DRAINING, ElasticNodeState.REMOVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancerRoundNodeChanges:
    """The result of a balancer round: added, removed and failed nodes by pool."""

    took_s: float = 0.0
    sentence: str = ""
    is_acting: bool = False
    min_nodes: int = 0
    max_nodes: int = 0
    cost_hour: float = 0.0
    added: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)


def count_node_changes_by_pool(
    changes: Iterable[tuple[BalancerOwnedNode | None, BalancerOwnedNode]], so_far: BalancerRoundNodeChanges
) -> BalancerRoundNodeChanges:
    """Return the round's outcome with the numbers of added, removed and failed nodes by pool.

    A change is a pair of a node before (None for a new node) and after the round. A node counts
    as added when it is ready, as removed when its machine is deleted, and as failed once.
    """
    added, removed, failed = Counter[str](), Counter[str](), Counter[str]()
    for before, node in changes:
        was = before.state if before else None
        added[node.pool] += node.state is ElasticNodeState.READY and was is ElasticNodeState.JOINING
        is_lost = node.cause is NodeStateCause.VANISHED
        removed[node.pool] += node.state is ElasticNodeState.GONE and was in GIVEN_BACK and not is_lost
        is_new_cause = before is None or before.cause is not node.cause
        failed[node.pool] += is_new_cause and _is_failure(node.cause)
    return replace(so_far, added=+added, removed=+removed, failed=+failed)


def _is_failure(cause: NodeStateCause) -> bool:
    return cause.is_boot_failure or cause in (NodeStateCause.VANISHED, NodeStateCause.SILENT)


def balancer_figures_if_cell_observed(
    before: PublishedBalancerFigures | None,
    cluster: str,
    situation: BalanceSituation,
    plan: BalancePlan,
    numbers: BalanceRoundStatistics,
    outcome: BalancerRoundNodeChanges,
) -> PublishedBalancerFigures:
    """Return the published figures after a round that observed the whole cell."""
    last = _begun(before, cluster, situation.now)
    figures = plan.figures
    return replace(
        last,
        at=situation.now,
        seen_at=situation.now,
        took_s=outcome.took_s,
        trouble="",
        sentence=outcome.sentence,
        is_acting=outcome.is_acting,
        rounds=last.rounds + 1,
        statistics=numbers,
        wanted_slots=figures.wanted,
        free_slots=figures.free,
        longest_wait_s=figures.waited_s,
        min_nodes=figures.least if figures.least is not None else outcome.min_nodes,
        max_nodes=figures.most if figures.most is not None else outcome.max_nodes,
        cost_hour=outcome.cost_hour,
        cost_month=situation.spent,
        nodes=_nodes(situation),
        pools=_pools(last, outcome),
        refused=_refused(plan),
    )


def balancer_figures_if_cell_unobserved(
    before: PublishedBalancerFigures | None, cluster: str, now: datetime, trouble: str
) -> PublishedBalancerFigures:
    """Return the published figures after a round that could not observe the cell.

    All other figures stay as they were.
    """
    last = _begun(before, cluster, now)
    return replace(
        last, at=now, took_s=0.0, trouble=trouble, rounds=last.rounds + 1, blind_rounds=last.blind_rounds + 1
    )


def _begun(before: PublishedBalancerFigures | None, cluster: str, now: datetime) -> PublishedBalancerFigures:
    """Return the previous round's figures; new figures if the cluster has no previous round."""
    if before and before.cluster == cluster:
        return before
    return PublishedBalancerFigures(cluster=cluster, at=now)


def _nodes(situation: BalanceSituation) -> tuple[PublishedNodeCount, ...]:
    counts = Counter((node.pool, node.state.value) for node in situation.nodes)
    return tuple(
        PublishedNodeCount(pool=pool, state=state, nodes=counts[pool, state]) for pool, state in sorted(counts)
    )


def _pools(last: PublishedBalancerFigures, outcome: BalancerRoundNodeChanges) -> tuple[PublishedPoolNodeCounters, ...]:
    pools = {pool.pool: pool for pool in last.pools}
    names = sorted({*pools, *outcome.added, *outcome.removed, *outcome.failed})
    return tuple(_grown(pools.get(name, PublishedPoolNodeCounters(pool=name)), outcome) for name in names)


def _grown(pool: PublishedPoolNodeCounters, outcome: BalancerRoundNodeChanges) -> PublishedPoolNodeCounters:
    return PublishedPoolNodeCounters(
        pool=pool.pool,
        added=pool.added + outcome.added.get(pool.pool, 0),
        removed=pool.removed + outcome.removed.get(pool.pool, 0),
        failed=pool.failed + outcome.failed.get(pool.pool, 0),
    )


def _refused(plan: BalancePlan) -> tuple[PublishedNewNodeRefusalCount, ...]:
    counts = Counter(refusal.cause.name.lower() for refusal in plan.refused if refusal.job)
    return tuple(PublishedNewNodeRefusalCount(cause=cause, jobs=counts[cause]) for cause in sorted(counts))


LOOKBACK = timedelta(minutes=180)


def count_balancer_round_figures(
    situation: BalanceSituation, ends: RecentlyEndedTasks, queue: str, lookback: timedelta = LOOKBACK
) -> BalanceRoundStatistics:
    """Count the figures of a round; means cover the tasks that ended in the lookback.

    Best-effort tasks and transferred tasks are not counted as running. A parallel task counts
    on each of its hosts, as in qstat. Hosts that report no load are left out of the mean.
    """
    lately = tasks_ended_in_lookback(ends, situation, lookback)
    tasks = sum(minute.tasks for minute in lately)
    loads = [host.load for host in situation.cell.hosts if host.load is not None]
    return BalanceRoundStatistics(
        at=situation.now,
        hosts=len(situation.cell.hosts),
        running=sum(
            len(instance.running)
            for instance in situation.cell.instances
            if not is_best_effort_or_transfer_queue(instance.queue, situation, instance.host)
        ),
        queued=sum(row.tasks for row in startable_waiting_jobs(situation.cell.waiting)),
        slots=count_slots_and_startable_tasks(situation, queue).slots,
        duration_s=_mean_s(sum(minute.run_s for minute in lately), tasks),
        wait_s=_mean_s(sum(minute.wait_s for minute in lately), tasks),
        load=sum(loads) / len(loads) if loads else 0.0,
    )


def tasks_ended_in_lookback(
    ends: RecentlyEndedTasks, situation: BalanceSituation, lookback: timedelta = LOOKBACK
) -> tuple[TasksEndedInMinute, ...]:
    """Return the tasks that ended within the lookback, minute by minute."""
    since = minute_since_epoch(situation.now - lookback)
    return tuple(ended for ended in ends.minutes if since < ended.minute <= minute_since_epoch(situation.now))


def _mean_s(total_s: float, tasks: int) -> int:
    """Return a mean in whole seconds."""
    return round(total_s / tasks) if tasks else 0
