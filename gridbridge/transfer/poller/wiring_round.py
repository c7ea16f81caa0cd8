"""The parts of a round: what takes news in, its verbs, and what publishes the result."""

from gridbridge.model.policy import Policy
from gridbridge.program.watch.disk_space_watch import RoomWatch
from gridbridge.program.watch.tmpdirs import Tmpdirs
from gridbridge.transfer.poller.resources import Resources
from gridbridge.transfer.poller.round.answer_handlers import AnswerHandlers
from gridbridge.transfer.poller.round.reconcilers import Reconcilers
from gridbridge.transfer.poller.round.round_intake import RoundIntake
from gridbridge.transfer.poller.round.round_publication import RoundPublication
from gridbridge.transfer.poller.round.starter_wakeup import StarterWakeup
from gridbridge.transfer.poller.round.sweeper import Sweeper
from gridbridge.transfer.poller.round.transfer_round import TransferProgram
from gridbridge.transfer.poller.wiring_acts import TransferActParts
from gridbridge.transfer.poller.wiring_reconcilers import ReconcilerParts
from gridbridge.transfer.poller.wiring_state import TransferStateParts


def build(
    policy: Policy,
    at: Resources,
    known: TransferStateParts,
    acting: TransferActParts,
    maintenance: ReconcilerParts,
) -> TransferProgram:
    """Make a round's program of all that there is."""
    return TransferProgram(
        policy=policy,
        journal=known.journal,
        ledger=known.ledger,
        intake=_intake(policy, at, known, acting),
        situations=known.situations,
        plan_journal=known.plan_journal,
        actions=acting.actions,
        upkeep=_upkeep(policy, at, known, acting, maintenance),
        publication=_publication(policy, at, known, acting, maintenance),
    )


def _intake(
    policy: Policy, at: Resources, known: TransferStateParts, acting: TransferActParts
) -> RoundIntake:
    answer_handlers = AnswerHandlers(
        policy=policy,
        answers=known.answers,
        ledger=known.ledger,
        unheard_ends=known.unheard_ends,
        breakers=known.breakers,
        late_guards=acting.late_guards,
        mail=known.mail,
        recovery=StarterWakeup(at.spool),
        dispatcher=acting.dispatcher,
        reused_ids=known.reused_ids,
        situations=known.situations,
    )
    return RoundIntake(
        answers=known.answers,
        mail=known.mail,
        usage_records=known.usage_records,
        pushes=at.pushes,
        actions=acting.actions,
        answer_handlers=answer_handlers,
    )


def _upkeep(
    policy: Policy,
    at: Resources,
    known: TransferStateParts,
    acting: TransferActParts,
    maintenance: ReconcilerParts,
) -> Reconcilers:
    return Reconcilers(
        policy=policy,
        ledger=known.ledger,
        unproved=known.mail.unproved,
        situations=known.situations,
        guards=maintenance.guards,
        copies=maintenance.copies,
        cleaner=maintenance.cleaner,
        claims=acting.claims,
        recalls=maintenance.recalls,
        moves=maintenance.moves,
        suspensions=maintenance.suspensions,
        views=at.views,
        breakers=known.breakers,
    )


def _publication(
    policy: Policy,
    at: Resources,
    known: TransferStateParts,
    acting: TransferActParts,
    maintenance: ReconcilerParts,
) -> RoundPublication:
    sweeper = Sweeper(
        policy=policy,
        database=at.database,
        inbox=at.inbox,
        verdicts=at.acts.verdicts,
        ledger=known.ledger,
        job_history=known.job_history,
        cleaner=maintenance.cleaner,
        claims=acting.claims,
        usage_records=known.usage_records,
        clock=at.clock,
    )
    tmpdirs = Tmpdirs(policy, at.workers, at.clock.steady_s)
    return RoundPublication(
        ledger=known.ledger,
        answers=known.answers,
        observers=at.observers,
        breakers=known.breakers,
        room=RoomWatch((at.spool, at.views.folder), at.clock.steady_s, tmpdirs.folders),
        tmpdirs=tmpdirs,
        job_history=known.job_history,
        views=at.views,
        sweeper=sweeper,
    )
