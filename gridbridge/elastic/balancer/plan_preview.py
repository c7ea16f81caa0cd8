"""What a round would do, as plain values and as a sentence."""

from collections.abc import Mapping

from gridbridge.decisions.elastic import plan_sentence, starcluster
from gridbridge.decisions.elastic.demand import demand_policy as demanded
from gridbridge.model.elastic.balance_plan import (
    BalancePlan,
    BalanceSituation,
    Rules,
    UnservedDemand,
)
from gridbridge.model.elastic.balance_sections import Balance, Demand, Pool
from gridbridge.model.elastic.plan_report import PlanReport, ToldRefusal

USUAL_DEMAND = Demand()
NO_POOLS: Mapping[str, Pool] = {}


def decide(
    situation: BalanceSituation,
    rules: Balance,
    demand: Demand = USUAL_DEMAND,
    pools: Mapping[str, Pool] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> PlanReport:
    """Decide about a situation, and tell it."""
    return report(planned(situation, rules, demand, pools, is_faithful=is_faithful), rules, demand)


def planned(
    situation: BalanceSituation,
    rules: Balance,
    demand: Demand = USUAL_DEMAND,
    pools: Mapping[str, Pool] = NO_POOLS,
    *,
    is_faithful: bool = False,
) -> BalancePlan:
    """Decide about a situation by the policy in force."""
    if rules.policy is Rules.DEMAND and not is_faithful:
        return demanded.decide(situation, rules, demand, pools)
    return starcluster.decide(situation, rules, is_faithful=is_faithful)


def report(
    plan: BalancePlan,
    rules: Balance,
    demand: Demand = USUAL_DEMAND,
    *,
    is_alone: bool = True,
    ended: str = "",
) -> PlanReport:
    """Return a plan as the commands print it; with `is_alone=False` the round does more.

    `ended` is the master's machine, if the round ends it.
    """
    return PlanReport(
        add=plan.add,
        pool=plan.pool or None,
        remove=plan.remove,
        sentence=plan_sentence.sentence(plan, rules, demand, is_alone=is_alone, ended=ended),
        refused=tuple(_refusal(refusal, rules) for refusal in plan.refused),
    )


def _refusal(refusal: UnservedDemand, rules: Balance) -> ToldRefusal:
    return ToldRefusal(
        job=refusal.job, host=refusal.host, reason=plan_sentence.reason(refusal, rules)
    )
