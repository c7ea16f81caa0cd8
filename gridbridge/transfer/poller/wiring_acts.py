"""Build the parts of the service that act for transfers."""

from dataclasses import dataclass
from functools import partial

from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.transfer.poller.claims import TransferClaims
from gridbridge.transfer.poller.dispatcher import ActDispatcher
from gridbridge.transfer.poller.resources import PollerResources
from gridbridge.transfer.poller.round.round_actions import RoundActions
from gridbridge.transfer.poller.stale_guards import StaleGuardRemover
from gridbridge.transfer.poller.wiring_state import TransferStateParts


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferActParts:
    """The parts of the service that act for transfers."""

    claims: TransferClaims
    dispatcher: ActDispatcher
    late_guards: StaleGuardRemover
    actions: RoundActions


def build_act_parts(
    policy: Policy, at: PollerResources, state: TransferStateParts
) -> TransferActParts:
    """Build the parts that act for transfers from resources and state."""
    claims = TransferClaims(policy, state.ledger, at.acts.claims, at.workers, at.clock)
    dispatcher = ActDispatcher(at.acts, at.workers, state.usage_records, at.clock.steady_s)
    late_guards = StaleGuardRemover(at.database, state.ledger, dispatcher, at.clock)
    actions = RoundActions(
        policy=policy,
        ledger=state.ledger,
        verdicts=at.acts.verdicts,
        dispatcher=dispatcher,
        usage_records=state.usage_records,
        claims=claims,
        late_guards=late_guards,
        asked=at.observers,
        over=partial(_let_go, state, dispatcher, late_guards),
        clock=at.clock,
    )
    return TransferActParts(
        claims=claims, dispatcher=dispatcher, late_guards=late_guards, actions=actions
    )


def _let_go(
    state: TransferStateParts,
    dispatcher: ActDispatcher,
    late_guards: StaleGuardRemover,
    closed: Transfer,
) -> None:
    """Tell all parts that keep data of a transfer that the transfer is over."""
    state.situations.deleted_at_home.pop(closed.name, None)
    state.ledger.forget(closed)
    state.mail.questions.with_new_starter.discard(closed.key)
    state.unheard_ends.remember(closed)
    late_guards.remember(closed)
    dispatcher.forget(closed.key)
    state.plan_journal.forget(closed.key)
