"""Compare balancing policies on one workload, and find the Pareto-optimal settings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gridbridge.elastic.simulation.replay_engine import WorkloadReplay
from gridbridge.model.elastic.replay_outcome import (
    ReplayNodeTerms,
    ReplayOutcome,
    ReplayPolicy,
    ReplayRules,
    ReplayTask,
)

IDLE_S = (0.0, 60.0, 300.0, 900.0, 1800.0)
SPARE_NODES = (0, 1, 2)  # times the slots of a node
RESERVES = ((0.0, 0.0), (0.0, 1.0), (1.0, 2.0), (2.0, 3.0))  # of each working host
WAITS_S = (60.0, 300.0, 900.0)


def replay_by_each_policy(
    tasks: Sequence[ReplayTask], terms: ReplayNodeTerms, ways: Iterable[ReplayPolicy]
) -> tuple[ReplayOutcome, ...]:
    """Replay the same tasks by each policy."""
    return tuple(WorkloadReplay(tasks, terms, way).run() for way in ways)


def vary_policy_settings(way: ReplayPolicy) -> Iterator[ReplayPolicy]:
    """Yield variants of a policy whose settings trade waiting time for cost."""
    if way.rules is ReplayRules.DEMAND:
        yield from _of_demand(way)
    elif way.rules is ReplayRules.SQUEEZE:
        for least, target in RESERVES:
            squeeze = replace(way.squeeze, minimal_reserve=least, target_reserve=target)
            words = f"minimal_reserve {least:g}, target_reserve {target:g}"
            yield replace(way, squeeze=squeeze, settings=words)
    elif way.rules is ReplayRules.STARCLUSTER:
        for wait_s in WAITS_S:
            balance = replace(way.balance, job_wait_time_s=wait_s)
            yield replace(way, balance=balance, settings=f"job_wait_time_s {wait_s:g}")
    else:
        yield way


def _of_demand(way: ReplayPolicy) -> Iterator[ReplayPolicy]:
    for idle_s in IDLE_S:
        for spare in SPARE_NODES:
            demand = replace(way.demand, idle_timeout_s=idle_s, spare_nodes=spare)
            words = f"idle_timeout_s {idle_s:g}, spare_nodes {spare}"
            yield replace(way, demand=demand, settings=words)


def find_cost_wait_frontier(outcomes: Iterable[ReplayOutcome]) -> tuple[ReplayOutcome, ...]:
    """Return the outcomes that no other outcome beats in both cost and mean wait.

    The cheapest outcome comes first.
    """
    front, best_s = list[ReplayOutcome](), float("inf")
    for outcome in sorted(outcomes, key=lambda outcome: (outcome.cost, outcome.wait_mean_s)):
        if outcome.wait_mean_s < best_s:
            front.append(outcome)
            best_s = outcome.wait_mean_s
    return tuple(front)
