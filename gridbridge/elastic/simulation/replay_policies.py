"""The policies of replays: the balancer's own code, and other rules for comparison."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from gridbridge.decisions.elastic.replay_decisions import plan_balance_like_cyclecloud
from gridbridge.decisions.elastic.standby_host_policy import plan_hosts_to_sleep_or_wake
from gridbridge.elastic.balancer import round_decision
from gridbridge.elastic.simulation.simulated_nodes_and_queue import POOL, QUEUE
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePolicyName, BalanceSituation
from gridbridge.model.elastic.balance_sections import (
    BalanceSection,
    DemandPolicySection,
    NodePoolSection,
    SqueezeSection,
)
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.elastic.replay_outcome import ComparedReplayRules, ReplayNodePropertiesAndPrices, ReplayPolicy
from gridbridge.model.elastic.standby_hosts import STANDBY_AUTO, HostTagsAndMovableTasks

Decides = Callable[[BalanceSituation], BalancePlan]


def replay_decision_function(way: ReplayPolicy, terms: ReplayNodePropertiesAndPrices) -> Decides | None:
    """Return the function by which a replay's round decides; None for a policy without rounds."""
    if way.rules is ComparedReplayRules.ALWAYS_ON:
        return None
    if way.rules is ComparedReplayRules.AZGE:
        return lambda situation: plan_balance_like_cyclecloud(situation, way, terms.slots)
    by_rules = (
        BalancePolicyName.STARCLUSTER if way.rules is ComparedReplayRules.STARCLUSTER else BalancePolicyName.DEMAND
    )
    balance = replace(way.balance, policy=by_rules)
    pools = {POOL: NodePoolSection(slots=terms.slots, price=terms.price, boot_s=terms.boot_s)}
    if way.rules is ComparedReplayRules.SQUEEZE:
        return lambda situation: _squeezed(situation, way, balance, pools)
    return lambda situation: round_decision.decide_balance_plan(situation, balance, way.demand, pools)


def _squeezed(
    situation: BalanceSituation, way: ReplayPolicy, balance: BalanceSection, pools: Mapping[str, NodePoolSection]
) -> BalancePlan:
    """Decide by policy demand, then let a squeeze choose the hosts; missing nodes count as off."""
    plan = round_decision.decide_balance_plan(situation, balance, way.demand, pools)
    names = [f"resting{number:05d}" for number in range(balance.max_nodes - len(situation.nodes))]
    resting = tuple(ElasticNode(name=name, state=ElasticNodeState.STANDBY) for name in names)
    facts = HostTagsAndMovableTasks(tags=dict.fromkeys(names, (STANDBY_AUTO,)))
    standby_plan = plan_hosts_to_sleep_or_wake(
        replace(situation, nodes=(*situation.nodes, *resting)), plan, balance, way.squeeze, facts
    )
    return replace(plan, add=len(standby_plan.on), remove=standby_plan.off)


def make_replay_policy(
    rules: ComparedReplayRules, terms: ReplayNodePropertiesAndPrices, demand: DemandPolicySection
) -> ReplayPolicy:
    """Return a replay policy with these node limits and otherwise default settings."""
    limits = BalanceSection(queue=QUEUE, max_nodes=terms.max_nodes, min_nodes=terms.min_nodes)
    return ReplayPolicy(rules=rules, balance=limits, demand=demand, squeeze=SqueezeSection())
