"""Decide a round's plan by the policy in force, and describe it in one sentence."""

from collections.abc import Mapping

from gridbridge.decisions.elastic import balance_plan_sentence
from gridbridge.decisions.elastic.demand import demand_policy as demanded
from gridbridge.decisions.elastic.starcluster_policy import decide_by_starcluster
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalancePolicyName,
    BalanceRefusal,
    BalanceSituation,
)
from gridbridge.model.elastic.balance_sections import BalanceSection, DemandSection, PoolSection
from gridbridge.model.elastic.published_balance import BalancePlanReport, RefusalReport

USUAL_DEMAND = DemandSection()
NO_POOLS: Mapping[str, PoolSection] = {}


def decide_plan_report(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandSection = USUAL_DEMAND,
    pools: Mapping[str, PoolSection] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> BalancePlanReport:
    """Decide about a situation, and return the report of the plan."""
    return build_plan_report(
        decide_balance_plan(situation, rules, demand, pools, is_faithful=is_faithful), rules, demand
    )


def decide_balance_plan(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandSection = USUAL_DEMAND,
    pools: Mapping[str, PoolSection] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> BalancePlan:
    """Decide by the configured policy how many nodes to add and which nodes to remove."""
    if rules.policy is BalancePolicyName.DEMAND and not is_faithful:
        return demanded.decide_by_demand(situation, rules, demand, pools)
    return decide_by_starcluster(situation, rules, is_faithful=is_faithful)


def build_plan_report(
    plan: BalancePlan,
    rules: BalanceSection,
    demand: DemandSection = USUAL_DEMAND,
    *,
    is_alone: bool = True,
    ended: str = "",
) -> BalancePlanReport:
    """Return a plan's report as the commands print it.

    With `is_alone=False` the round acts beyond this plan. `ended` is the master's machine, if the
    round destroys it.
    """
    return BalancePlanReport(
        add=plan.add,
        pool=plan.pool or None,
        remove=plan.remove,
        sentence=balance_plan_sentence.describe_balance_plan(
            plan, rules, demand, is_alone=is_alone, ended=ended
        ),
        refused=tuple(_refusal(refusal, rules) for refusal in plan.refused),
    )


def _refusal(refusal: BalanceRefusal, rules: BalanceSection) -> RefusalReport:
    return RefusalReport(
        job=refusal.job,
        host=refusal.host,
        reason=balance_plan_sentence.describe_balance_refusal(refusal, rules),
    )
