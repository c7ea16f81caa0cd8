"""The ways to decide that a replay knows: the balancer's own code, and rules to compare with."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from gridbridge.decisions.elastic.replay import azge
from gridbridge.decisions.elastic.squeeze.squeeze_policy import rest
from gridbridge.elastic.balancer import plan_preview
from gridbridge.elastic.simulation.replay_machines import POOL, QUEUE
from gridbridge.model.elastic.balance_plan import BalancePlan, BalanceSituation, Rules
from gridbridge.model.elastic.balance_sections import Balance, Demand, Pool, Squeeze
from gridbridge.model.elastic.node import Node, NodeState
from gridbridge.model.elastic.replay_outcome import NodeTerms, ReplayPolicy, ReplayRules
from gridbridge.model.elastic.standby_hosts import STANDBY_AUTO, RestFacts

Decides = Callable[[BalanceSituation], BalancePlan]


def decides(way: ReplayPolicy, terms: NodeTerms) -> Decides | None:
    """Return how a round decides; None where nothing is ever decided."""
    if way.rules is ReplayRules.ALWAYS_ON:
        return None
    if way.rules is ReplayRules.AZGE:
        return lambda situation: azge.decide(situation, way, terms.slots)
    by_rules = Rules.STARCLUSTER if way.rules is ReplayRules.STARCLUSTER else Rules.DEMAND
    balance = replace(way.balance, policy=by_rules)
    pools = {POOL: Pool(slots=terms.slots, price=terms.price, boot_s=terms.boot_s)}
    if way.rules is ReplayRules.SQUEEZE:
        return lambda situation: _squeezed(situation, way, balance, pools)
    return lambda situation: plan_preview.planned(situation, balance, way.demand, pools)


def _squeezed(
    situation: BalanceSituation, way: ReplayPolicy, balance: Balance, pools: Mapping[str, Pool]
) -> BalancePlan:
    """Have demand decide whether, and squeeze which and how far; nodes that are off rest."""
    plan = plan_preview.planned(situation, balance, way.demand, pools)
    names = [f"resting{number:05d}" for number in range(balance.max_nodes - len(situation.nodes))]
    resting = tuple(Node(name=name, state=NodeState.STANDBY) for name in names)
    facts = RestFacts(tags=dict.fromkeys(names, (STANDBY_AUTO,)))
    standby_plan = rest(
        replace(situation, nodes=(*situation.nodes, *resting)), plan, balance, way.squeeze, facts
    )
    return replace(plan, add=len(standby_plan.on), remove=standby_plan.off)


def way_of(rules: ReplayRules, terms: NodeTerms, demand: Demand) -> ReplayPolicy:
    """Return a way with these limits, and else the usual settings."""
    limits = Balance(queue=QUEUE, max_nodes=terms.max_nodes, min_nodes=terms.min_nodes)
    return ReplayPolicy(rules=rules, balance=limits, demand=demand, squeeze=Squeeze())
