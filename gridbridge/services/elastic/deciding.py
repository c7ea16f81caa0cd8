"""What a round would do, as plain values and as a sentence."""

from gridbridge.decisions.elastic import sentences, starcluster
from gridbridge.model.elastic.plan import Plan, Refused, Situation
from gridbridge.model.elastic.sections import Balance
from gridbridge.model.elastic.told import Told, ToldRefusal


def decide(seen: Situation, rules: Balance, *, is_faithful: bool = False) -> Told:
    """Decide about a situation, and tell it."""
    return told(starcluster.decide(seen, rules, is_faithful=is_faithful), rules)


def told(plan: Plan, rules: Balance) -> Told:
    """Tell a plan as the commands print it."""
    return Told(
        add=plan.add,
        pool=plan.pool or None,
        remove=plan.remove,
        sentence=sentences.sentence(plan, rules),
        refused=tuple(_refusal(one, rules) for one in plan.refused),
    )


def _refusal(one: Refused, rules: Balance) -> ToldRefusal:
    return ToldRefusal(job=one.job, host=one.host, reason=sentences.reason(one, rules))
