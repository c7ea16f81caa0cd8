"""Build the parts of a poll round: intake, actions, upkeep and publication."""

from gridbridge.model.policy import Policy
from gridbridge.program.watch.disk_space_watch import DiskSpaceWatch
from gridbridge.program.watch.tmpdirs import TmpdirFolderQuery
from gridbridge.transfer.poller.resources import PollerResources
from gridbridge.transfer.poller.round.answer_handlers import AnswerHandlers
from gridbridge.transfer.poller.round.reconcilers import TransferReconcilers
from gridbridge.transfer.poller.round.round_intake import RoundIntake
from gridbridge.transfer.poller.round.round_publication import RoundPublication
from gridbridge.transfer.poller.round.starter_wakeup import StarterWakeup
from gridbridge.transfer.poller.round.sweeper import OldDataSweeper
from gridbridge.transfer.poller.round.transfer_round import TransferProgram
from gridbridge.transfer.poller.wiring_acts import TransferActParts
from gridbridge.transfer.poller.wiring_reconcilers import ReconcilerParts
from gridbridge.transfer.poller.wiring_state import TransferStateParts


def build_round_program(
    policy: Policy,
    at: PollerResources,
    state: TransferStateParts,
    acting: TransferActParts,
    maintenance: ReconcilerParts,
) -> TransferProgram:
    """Build a poll round's program from resources, state, acts and reconcilers."""
    return TransferProgram(
        policy=policy,
        journal=state.journal,
        ledger=state.ledger,
        intake=_intake(policy, at, state, acting),
        situations=state.situations,
        plan_journal=state.plan_journal,
        actions=acting.actions,
        upkeep=_upkeep(policy, at, state, acting, maintenance),
        publication=_publication(policy, at, state, acting, maintenance),
    )


def _intake(
    policy: Policy, at: PollerResources, state: TransferStateParts, acting: TransferActParts
) -> RoundIntake:
    answer_handlers = AnswerHandlers(
        policy=policy,
        answers=state.answers,
        ledger=state.ledger,
        unheard_ends=state.unheard_ends,
        breakers=state.breakers,
        late_guards=acting.late_guards,
        mail=state.mail,
        recovery=StarterWakeup(at.spool),
        dispatcher=acting.dispatcher,
        reused_ids=state.reused_ids,
        situations=state.situations,
    )
    return RoundIntake(
        answers=state.answers,
        mail=state.mail,
        usage_records=state.usage_records,
        pushes=at.pushes,
        actions=acting.actions,
        answer_handlers=answer_handlers,
    )


def _upkeep(
    policy: Policy,
    at: PollerResources,
    state: TransferStateParts,
    acting: TransferActParts,
    maintenance: ReconcilerParts,
) -> TransferReconcilers:
    return TransferReconcilers(
        policy=policy,
        ledger=state.ledger,
        unproved=state.mail.unproved,
        situations=state.situations,
        guards=maintenance.guards,
        copies=maintenance.copies,
        cleaner=maintenance.cleaner,
        claims=acting.claims,
        recalls=maintenance.recalls,
        moves=maintenance.moves,
        suspensions=maintenance.suspensions,
        views=at.views,
        breakers=state.breakers,
    )


def _publication(
    policy: Policy,
    at: PollerResources,
    state: TransferStateParts,
    acting: TransferActParts,
    maintenance: ReconcilerParts,
) -> RoundPublication:
    sweeper = OldDataSweeper(
        policy=policy,
        database=at.database,
        inbox=at.inbox,
        verdicts=at.acts.verdicts,
        ledger=state.ledger,
        job_history=state.job_history,
        cleaner=maintenance.cleaner,
        claims=acting.claims,
        usage_records=state.usage_records,
        clock=at.clock,
    )
    tmpdirs = TmpdirFolderQuery(policy, at.workers, at.clock.steady_s)
    return RoundPublication(
        ledger=state.ledger,
        answers=state.answers,
        observers=at.observers,
        breakers=state.breakers,
        room=DiskSpaceWatch((at.spool, at.views.folder), at.clock.steady_s, tmpdirs.folders),
        tmpdirs=tmpdirs,
        job_history=state.job_history,
        views=at.views,
        sweeper=sweeper,
    )
