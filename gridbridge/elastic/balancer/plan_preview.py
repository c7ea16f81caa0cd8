"""What a round would do, as plain values and as a sentence."""

from collections.abc import Mapping

from gridbridge.decisions.elastic import plan_sentence
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


def decide(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandSection = USUAL_DEMAND,
    pools: Mapping[str, PoolSection] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> BalancePlanReport:
    """Decide about a situation, and tell it."""
    return report(planned(situation, rules, demand, pools, is_faithful=is_faithful), rules, demand)


def planned(
    situation: BalanceSituation,
    rules: BalanceSection,
    demand: DemandSection = USUAL_DEMAND,
    pools: Mapping[str, PoolSection] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> BalancePlan:
    """Decide about a situation by the policy in force."""
    if rules.policy is BalancePolicyName.DEMAND and not is_faithful:
        return demanded.decide_by_demand(situation, rules, demand, pools)
    return decide_by_starcluster(situation, rules, is_faithful=is_faithful)


def report(
    plan: BalancePlan,
    rules: BalanceSection,
    demand: DemandSection = USUAL_DEMAND,
    *,
    is_alone: bool = True,
    ended: str = "",
) -> BalancePlanReport:
    """Return a plan as the commands print it; with `is_alone=False` the round does more.

    `ended` is the master's machine, if the round ends it.
    """
    return BalancePlanReport(
        add=plan.add,
        pool=plan.pool or None,
        remove=plan.remove,
        sentence=plan_sentence.describe_balance_plan(
            plan, rules, demand, is_alone=is_alone, ended=ended
        ),
        refused=tuple(_refusal(refusal, rules) for refusal in plan.refused),
    )


def _refusal(refusal: BalanceRefusal, rules: BalanceSection) -> RefusalReport:
    return RefusalReport(
        job=refusal.job,
        host=refusal.host,
        reason=plan_sentence.describe_balance_refusal(refusal, rules),
    )
