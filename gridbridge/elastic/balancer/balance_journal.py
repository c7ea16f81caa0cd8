"""Records the balancer's decisions with their inputs, and replays recorded decisions."""

from collections.abc import Mapping
from typing import Any

from gridbridge.decisions.elastic import node_acts_from_balance_plan
from gridbridge.decisions.elastic.node_acts_from_balance_plan import AdministratorNodeRequests
from gridbridge.decisions.elastic.node_and_master_lifecycle import NodeLifecycleTimeouts
from gridbridge.elastic.balancer.balancer_round_decision import BalancerRoundPlan
from gridbridge.model.elastic.balance_plan import BalancePlan
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import BalancerNodesSnapshot
from gridbridge.model.elastic.standby_and_wake_plan import StandbyOrWakePlan
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.state.decision_journal import DecisionJournalEntry, make_journal_entry

PROGRAM = "balance"


def balancer_round_journal_entry(
    world: BalancerNodesSnapshot,
    plan: BalancerRoundPlan,
    rules: BalanceSection,
    patience: NodeLifecycleTimeouts,
    requests: AdministratorNodeRequests,
) -> DecisionJournalEntry | None:
    """Return the journal entry of a round for `gridbridge replay`; None for a round without acts."""
    if not plan.acts_in_words:
        return None
    inputs = {
        "world": model_value_to_json(world),
        "patience": model_value_to_json(patience),
        "plan": model_value_to_json(plan.plan),
        "rules": model_value_to_json(rules),
        "asked": model_value_to_json(requests),
        "rest": model_value_to_json(plan.rest) if plan.rest else None,
        "ended": list(plan.master_destruction_in_words),
        "done": list(plan.acts_in_words),
    }
    return make_journal_entry(
        PROGRAM, world.now, inputs, list(plan.acts_in_words), [plan.decision_sentence, *plan.acts_in_words]
    )


def replay_balancer_round_decision(situation: Mapping[str, Any]) -> list[str]:
    due = node_acts_from_balance_plan.plan_due_node_acts(
        model_value_from_json(situation["world"], BalancerNodesSnapshot),
        model_value_from_json(situation["plan"], BalancePlan),
        model_value_from_json(situation["rules"], BalanceSection),
        model_value_from_json(situation["patience"], NodeLifecycleTimeouts),
        model_value_from_json(situation["asked"] or {}, AdministratorNodeRequests),
        model_value_from_json(situation["rest"], StandbyOrWakePlan) if situation["rest"] else None,
    )
    return [*(act.act_in_words for act in due if act.is_act_or_deletion), *situation["ended"]]
