"""What a squeeze makes of a round: which hosts, what is done to them, and a sentence."""

from collections.abc import Mapping, Set
from dataclasses import replace

from gridbridge.decisions.elastic.host_power_steps import (
    describe_standby_plan,
    standby_steps_of_plan,
)
from gridbridge.decisions.elastic.squeeze_policy import plan_standby_hosts, wakeable_standby_nodes
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceRefusal,
    BalanceRefusalCause,
    BalanceSituation,
    BalanceVerdict,
)
from gridbridge.model.elastic.balance_sections import BalanceSection, SqueezeSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode, ElasticNodeState
from gridbridge.model.elastic.published_balance import BalancePlanReport
from gridbridge.model.elastic.standby_hosts import HostStandbyStep, StandbyHostFacts, StandbyPlan

UNSAID = {
    BalanceVerdict.SPARE: BalanceVerdict.NO_NEED,
    BalanceVerdict.IDLE: BalanceVerdict.NONE_IDLE,
}  # where none is left


def decide(
    situation: BalanceSituation,
    plan: BalancePlan,
    rules: BalanceSection,
    squeeze: SqueezeSection,
    facts: StandbyHostFacts,
) -> tuple[StandbyPlan, tuple[HostStandbyStep, ...], str]:
    """Decide about a situation for which a policy has a plan."""
    standby_plan = plan_standby_hosts(situation, plan, rules, squeeze, facts)
    return (
        standby_plan,
        standby_steps_of_plan(standby_plan, facts),
        describe_standby_plan(standby_plan),
    )


def only(situation: BalanceSituation, own: Set[str], retry_s: float) -> BalanceSituation:
    """Return a situation in which no other node rests or is woken than the site's own hosts.

    One that did not come up is left alone for as long as a pool that had no node to give. None is
    left out: the cell lists hosts that rest too, and who is no node there counts as one that works.
    """
    return replace(
        situation, nodes=tuple(_shown(node, own, situation, retry_s) for node in situation.nodes)
    )


def _shown(
    node: ElasticNode, own: Set[str], situation: BalanceSituation, retry_s: float
) -> ElasticNode:
    if node.state is not ElasticNodeState.STANDBY:
        return node if node.name in own else replace(node, is_kept=True)
    since = node.failed_at
    is_failed = since is not None and (situation.now - since).total_seconds() < retry_s
    return replace(node, is_drained=node.is_drained or is_failed or node.name not in own)


def standby_of(
    situation: BalanceSituation, own: Set[str], retry_s: float, tags: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return the hosts of the site's own that may be woken now, in the order of waking."""
    resting = wakeable_standby_nodes(
        only(situation, own, retry_s).nodes, StandbyHostFacts(tags=tags)
    )
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
        refused = (
            *refused,
            BalanceRefusal(host=standby_plan.last, cause=BalanceRefusalCause.LAST_AT_WORK),
        )
    verdict = plan.verdict if remaining else UNSAID.get(plan.verdict, plan.verdict)
    if verdict is BalanceVerdict.NO_NEED and plan.figures.tasks:
        verdict = BalanceVerdict.ALL_FIT
    add = 0 if standby_plan.on else plan.add
    return replace(plan, add=add, remove=remaining, verdict=verdict, refused=refused)


def told_too(report: BalancePlanReport, standby_plan: StandbyPlan | None) -> BalancePlanReport:
    """Return what is told with what a squeeze makes of it."""
    if standby_plan is None:
        return report
    return replace(
        report, sentence=f"{report.sentence}; squeeze: {describe_standby_plan(standby_plan)}"
    )
