"""The rule of CycleCloud's autoscaler for Grid Engine, to compare with.

Each round puts all waiting tasks into free, booting and new nodes, adds the new ones at once, and
removes each node to which nothing was matched for so long (idle_timeout, 300 s). In our own words,
as cyclecloud-gridengine 2.0 decides for one kind of node.
"""

from gridbridge.decisions.elastic.replay.bin_packing import (
    count_replay_figures,
    pack_waiting_tasks_into_nodes,
    replayed_idle_nodes,
)
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation, BalanceVerdict
from gridbridge.model.elastic.replay_outcome import ReplayPolicy

IDLE_TIMEOUT_S = 300.0


def decide_like_cyclecloud(
    situation: BalanceSituation, way: ReplayPolicy, slots: int
) -> BalancePlan:
    """Return what a round does: min_nodes <= nodes - removed, nodes + added <= max_nodes."""
    rules, nodes = way.balance, len(situation.nodes)
    bins = pack_waiting_tasks_into_nodes(situation, slots)
    short = max(bins.new, rules.min_nodes - nodes)
    add = max(0, min(short, rules.max_nodes - nodes))
    since = {node.name: node.idle_since for node in situation.nodes}
    timed_out = [
        name
        for name in replayed_idle_nodes(situation)
        if name not in bins.matched
        and (idle := since[name]) is not None
        and (situation.now - idle).total_seconds() >= IDLE_TIMEOUT_S
    ]
    remove = tuple(timed_out[: max(0, nodes - rules.min_nodes)])
    verdict = (
        BalanceVerdict.MORE_WANTED
        if add
        else BalanceVerdict.IDLE
        if remove
        else BalanceVerdict.NO_NEED
    )
    return BalancePlan(
        verdict=verdict,
        figures=count_replay_figures(situation),
        add=add,
        remove=remove if not add else (),
    )
