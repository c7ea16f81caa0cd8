"""The parts that look after jobs that are away, and after what transfers leave behind."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.services.transfer.cleaner import Cleaner
from gridbridge.services.transfer.guards.copied import CopiedGuards
from gridbridge.services.transfer.guards.missing import GuardRestorer
from gridbridge.services.transfer.moves import TaskMoves
from gridbridge.services.transfer.parts.acting import TransferActParts
from gridbridge.services.transfer.parts.knowledge import TransferStateParts
from gridbridge.services.transfer.parts.resources import Resources
from gridbridge.services.transfer.recalls import RecallService
from gridbridge.services.transfer.suspensions import Suspensions


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerParts:
    """The parts that do what no plan of a round says: guards, recalls, cleaning up."""

    guards: GuardRestorer
    copies: CopiedGuards
    cleaner: Cleaner
    recalls: RecallService
    moves: TaskMoves
    suspensions: Suspensions


def build(
    policy: Policy, at: Resources, known: TransferStateParts, acting: TransferActParts
) -> ReconcilerParts:
    """Make the parts that look after transfers, given those that know and those that act."""
    steady_s, act = at.clock.steady_s, acting.actions.act
    ledger, acts, workers, claims = known.ledger, at.acts, at.workers, acting.claims
    recalls = RecallService(
        policy, ledger, acts.tasks, acts.verdicts, workers, claims, at.clock, known.journal
    )
    return ReconcilerParts(
        guards=GuardRestorer(policy, ledger, acts.tasks, workers, act, steady_s),
        copies=CopiedGuards(policy, ledger, acts.tasks, workers, steady_s),
        cleaner=Cleaner(ledger, at.inbox, acts.remote, workers, claims, act, steady_s),
        recalls=recalls,
        moves=TaskMoves(policy, at.database, ledger, acts.tasks, recalls, workers, at.clock),
        suspensions=Suspensions(policy, ledger, acts.verdicts, steady_s),
    )
