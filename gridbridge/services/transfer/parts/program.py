"""The parts of a round: what takes news in, its verbs, and what publishes the result."""

from gridbridge.model.policy import Policy
from gridbridge.services.transfer.parts.acting import TransferActParts
from gridbridge.services.transfer.parts.knowledge import TransferStateParts
from gridbridge.services.transfer.parts.maintenance import ReconcilerParts
from gridbridge.services.transfer.parts.resources import Resources
from gridbridge.services.transfer.round.answer_handlers import AnswerHandlers
from gridbridge.services.transfer.round.intake import RoundIntake
from gridbridge.services.transfer.round.program import TransferProgram
from gridbridge.services.transfer.round.publication import RoundPublication
from gridbridge.services.transfer.round.recovery import StarterWakeup
from gridbridge.services.transfer.round.sweeper import Sweeper
from gridbridge.services.transfer.round.upkeep import Reconcilers
from gridbridge.services.watch.room import RoomWatch
from gridbridge.services.watch.tmpdirs import Tmpdirs


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
