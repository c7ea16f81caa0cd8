"""What a squeeze makes of a round: which hosts, what is done to them, and a sentence."""

from collections.abc import Mapping, Set
from dataclasses import replace

from gridbridge.decisions.elastic.squeeze.power_actions import deeds, sentence
from gridbridge.decisions.elastic.squeeze.squeeze_policy import rest, standby
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    DemandVerdict,
    RefusalKind,
    UnservedDemand,
)
from gridbridge.model.elastic.balance_sections import Balance, Squeeze
from gridbridge.model.elastic.node import Node, NodeState
from gridbridge.model.elastic.plan_report import PlanReport
from gridbridge.model.elastic.standby_hosts import HostStandbyStep, RestFacts, StandbyPlan

UNSAID = {
    DemandVerdict.SPARE: DemandVerdict.NO_NEED,
    DemandVerdict.IDLE: DemandVerdict.NONE_IDLE,
}  # where none is left


def decide(
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: Balance,
    squeeze: Squeeze,
    facts: RestFacts,
) -> tuple[StandbyPlan, tuple[HostStandbyStep, ...], str]:
    """Decide about a situation for which a policy has a plan."""
    standby_plan = rest(situation, plan, rules, squeeze, facts)
    return standby_plan, deeds(standby_plan, facts), sentence(standby_plan)


def only(situation: BalanceSituation, own: Set[str], retry_s: float) -> BalanceSituation:
    """Return a situation in which no other node rests or is woken than the site's own hosts.

    One that did not come up is left alone for as long as a pool that had no node to give. None is
    left out: the cell lists hosts that rest too, and who is no node there counts as one that works.
    """
    return replace(
        situation, nodes=tuple(_shown(node, own, situation, retry_s) for node in situation.nodes)
    )


def _shown(node: Node, own: Set[str], situation: BalanceSituation, retry_s: float) -> Node:
    if node.state is not NodeState.STANDBY:
        return node if node.name in own else replace(node, is_kept=True)
    since = node.failed_at
    is_failed = since is not None and (situation.now - since).total_seconds() < retry_s
    return replace(node, is_drained=node.is_drained or is_failed or node.name not in own)


def standby_of(
    situation: BalanceSituation, own: Set[str], retry_s: float, tags: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the hosts of the site's own that may be woken now, in the order of waking."""
    resting = standby(only(situation, own, retry_s).nodes, RestFacts(tags=tags))
    return tuple(node.name for node in resting)


def without(plan: BalancePlan, standby_plan: StandbyPlan | None, own: Set[str]) -> BalancePlan:
    """Return what a policy's plan leaves to do: waking comes before buying, and resting is ours.

    Never both in a round: hosts that are woken are seen before nodes are bought.
    """
    if standby_plan is None:
        return plan
    remaining = tuple(name for name in plan.remove if name not in own and name != standby_plan.last)
    refused = plan.refused
    if standby_plan.last:
        refused = (*refused, UnservedDemand(host=standby_plan.last, cause=RefusalKind.LAST_AT_WORK))
    verdict = plan.verdict if remaining else UNSAID.get(plan.verdict, plan.verdict)
    if verdict is DemandVerdict.NO_NEED and plan.figures.tasks:
        verdict = DemandVerdict.ALL_FIT
    add = 0 if standby_plan.on else plan.add
    return replace(plan, add=add, remove=remaining, verdict=verdict, refused=refused)


def told_too(report: PlanReport, standby_plan: StandbyPlan | None) -> PlanReport:
    """Return what is told with what a squeeze makes of it."""
    if standby_plan is None:
        return report
    return replace(report, sentence=f"{report.sentence}; squeeze: {sentence(standby_plan)}")
