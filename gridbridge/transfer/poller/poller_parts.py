"""Build the parts of the poller: state, acts, reconcilers and the round."""

from dataclasses import dataclass
from functools import partial

from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.program.journal import DecisionJournal
from gridbridge.program.watch.last_answers import LastClusterSnapshots
from gridbridge.program.watch.service_folders import DiskSpaceWatch, TmpdirFolderQuery
from gridbridge.transfer.poller.breakers import ClusterBreakers
from gridbridge.transfer.poller.claims import TransferClaims
from gridbridge.transfer.poller.dispatcher import ActDispatcher
from gridbridge.transfer.poller.history_publication import JobHistoryPublisher
from gridbridge.transfer.poller.home_guards import (
    CopiedGuardRemover,
    GuardRestorer,
    StaleGuardRemover,
)
from gridbridge.transfer.poller.inbox_reader import InboxReader
from gridbridge.transfer.poller.leftover_removal import OldDataSweeper, OrphanCleaner
from gridbridge.transfer.poller.recalls import RecallService
from gridbridge.transfer.poller.resources import PollerResources
from gridbridge.transfer.poller.reused_ids import ReusedIdDetector
from gridbridge.transfer.poller.round_actions import RoundActions
from gridbridge.transfer.poller.situation_gatherer import TransferSituations
from gridbridge.transfer.poller.suspensions import SuspensionReconciler
from gridbridge.transfer.poller.task_moves import TaskMoveService
from gridbridge.transfer.poller.transfer_journal import TransferPlanJournal
from gridbridge.transfer.poller.transfer_ledger import TransferLedger
from gridbridge.transfer.poller.transfer_round import (
    AnswerHandlers,
    RoundIntake,
    RoundPublication,
    StarterWakeup,
    TransferProgram,
    TransferReconcilers,
)
from gridbridge.transfer.poller.undelivered_ends import UndeliveredEndTracker
from gridbridge.transfer.poller.usage_records import RemoteUsageService


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStateParts:
    """The parts that hold state; the state file has all data that must survive."""

    job_history: JobHistoryPublisher
    breakers: ClusterBreakers
    ledger: TransferLedger
    plan_journal: TransferPlanJournal
    journal: DecisionJournal
    unheard_ends: UndeliveredEndTracker
    mail: InboxReader
    answers: LastClusterSnapshots
    reused_ids: ReusedIdDetector
    usage_records: RemoteUsageService
    situations: TransferSituations


def build_state_parts(policy: Policy, at: PollerResources) -> TransferStateParts:
    """Build the parts that hold state from a configuration and resources."""
    job_history = JobHistoryPublisher(policy.site.cluster, at.database, at.views)
    breakers = ClusterBreakers(policy.breaker, at.views, at.clock)
    ledger = TransferLedger(at.database, job_history, breakers, at.clock)
    journal = DecisionJournal(at.database)
    unheard_ends = UndeliveredEndTracker(at.database, at.clock)
    mail = InboxReader(policy, at.inbox, ledger, at.acts.verdicts, unheard_ends, at.clock, journal)
    answers = LastClusterSnapshots(at.observers, at.database, at.views.answer, at.clock)
    reused_ids = ReusedIdDetector(ledger, at.acts.remote, at.workers, at.clock.steady_s)
    return TransferStateParts(
        job_history=job_history,
        breakers=breakers,
        ledger=ledger,
        plan_journal=TransferPlanJournal(),
        journal=journal,
        unheard_ends=unheard_ends,
        mail=mail,
        answers=answers,
        reused_ids=reused_ids,
        usage_records=RemoteUsageService(
            policy=policy, database=at.database, views=at.views, clock=at.clock
        ),
        situations=TransferSituations(
            policy=policy,
            ledger=ledger,
            answers=answers,
            questions=mail.questions,
            reused_ids=reused_ids,
            spool=at.spool,
            clock=at.clock,
        ),
    )


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
