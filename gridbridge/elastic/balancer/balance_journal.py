"""What the balancer decided about nodes, kept with what it looked at, and decided again."""

from collections.abc import Mapping, Sequence
from typing import Any

from gridbridge.decisions.elastic import round_acts
from gridbridge.decisions.elastic.node_lifecycle import NodeLifecycleTimeouts
from gridbridge.decisions.elastic.round_acts import (
    NO_ADMINISTRATOR_REQUESTS,
    AdministratorNodeRequests,
)
from gridbridge.elastic.balancer.round_parts import RoundPlan
from gridbridge.model.elastic.balance_plan import BalancePlan
from gridbridge.model.elastic.balance_sections import BalanceSection
from gridbridge.model.elastic.owned_nodes import BalancerNodesSnapshot
from gridbridge.model.elastic.standby_hosts import StandbyPlan
from gridbridge.program.encoding import decode, encode
from gridbridge.program.journal import JournalEntry, telling

PROGRAM = "balance"
Kept = Mapping[str, Any]


def entry(
    world: BalancerNodesSnapshot,
    plan: RoundPlan,
    rules: BalanceSection,
    patience: NodeLifecycleTimeouts,
    requests: AdministratorNodeRequests,
) -> JournalEntry | None:
    """Tell a round with its rows; nothing for one that does nothing.

    What becomes of each node, of new ones too, is decided again from the rows. How many are wanted,
    which the policy gives back and which hosts rest is kept as it was decided.
    """
    if not plan.done:
        return None
    inputs = {
        "world": encode(world),
        "patience": encode(patience),
        "plan": encode(plan.plan),
        "rules": encode(rules),
        "asked": encode(requests),
        "rest": encode(plan.rest) if plan.rest else None,
        "ended": list(plan.master_ended),
        "done": list(plan.done),
    }
    return telling(PROGRAM, world.now, inputs, list(plan.done), [plan.sentence, *plan.done])


def again(situation: Kept) -> list[str]:
    """Decide again from what was kept."""
    world, patience = (
        decode(situation["world"], BalancerNodesSnapshot),
        decode(situation["patience"], NodeLifecycleTimeouts),
    )
    due = round_acts.plan_due_node_acts(
        world,
        decode(situation["plan"], BalancePlan),
        decode(situation["rules"], BalanceSection),
        patience,
        decode(situation["asked"], AdministratorNodeRequests)
        if situation["asked"]
        else NO_ADMINISTRATOR_REQUESTS,
        decode(situation["rest"], StandbyPlan) if situation["rest"] else None,
    )
    return [*(act.words for act in due if act.is_done), *situation["ended"]]


def said(actions: Sequence[str]) -> list[str]:
    """Say them as they are kept."""
    return list(actions)
