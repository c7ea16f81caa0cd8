"""What a squeeze makes of a round: which hosts, what is done to them, and a sentence."""

from gridbridge.decisions.elastic.squeeze.deeds import deeds, sentence
from gridbridge.decisions.elastic.squeeze.resting import rest
from gridbridge.model.elastic.plan import Plan, Situation
from gridbridge.model.elastic.sections import Balance, Squeeze
from gridbridge.model.elastic.standby import Deed, Marks, Rest


def decide(
    seen: Situation, plan: Plan, rules: Balance, squeeze: Squeeze, marks: Marks
) -> tuple[Rest, tuple[Deed, ...], str]:
    """Decide about a situation for which a policy has a plan."""
    found = rest(seen, plan, rules, squeeze, marks)
    return found, deeds(found, marks), sentence(found)
