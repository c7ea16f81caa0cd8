"""Build the reconcilers of guards, recalls, moves, suspensions and leftovers."""

from dataclasses import dataclass

from gridbridge.model.policy import Policy
from gridbridge.transfer.poller.cleaner import OrphanCleaner
from gridbridge.transfer.poller.copied_guards import CopiedGuardRemover
from gridbridge.transfer.poller.guard_restorer import GuardRestorer
from gridbridge.transfer.poller.recalls import RecallService
from gridbridge.transfer.poller.resources import PollerResources
from gridbridge.transfer.poller.suspensions import SuspensionReconciler
from gridbridge.transfer.poller.task_moves import TaskMoveService
from gridbridge.transfer.poller.wiring_acts import TransferActParts
from gridbridge.transfer.poller.wiring_state import TransferStateParts


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerParts:
    """The reconcilers of guards, recalls, moves, suspensions and leftovers."""

    guards: GuardRestorer
    copies: CopiedGuardRemover
    cleaner: OrphanCleaner
    recalls: RecallService
    moves: TaskMoveService
    suspensions: SuspensionReconciler


def build_reconciler_parts(
    policy: Policy, at: PollerResources, state: TransferStateParts, acting: TransferActParts
) -> ReconcilerParts:
    """Build the reconcilers from resources, state and acts."""
    steady_s, act = at.clock.steady_s, acting.actions.act
    ledger, acts, workers, claims = state.ledger, at.acts, at.workers, acting.claims
    recalls = RecallService(
        policy, ledger, acts.tasks, acts.verdicts, workers, claims, at.clock, state.journal
    )
    return ReconcilerParts(
        guards=GuardRestorer(policy, ledger, acts.tasks, workers, act, steady_s),
        copies=CopiedGuardRemover(policy, ledger, acts.tasks, workers, steady_s),
        cleaner=OrphanCleaner(ledger, at.inbox, acts.remote, workers, claims, act, steady_s),
        recalls=recalls,
        moves=TaskMoveService(policy, at.database, ledger, acts.tasks, recalls, workers, at.clock),
        suspensions=SuspensionReconciler(policy, ledger, acts.verdicts, steady_s),
    )
