"""Build the components of the transfer service from a configuration, in the order of their dependencies."""

from dataclasses import dataclass, field
from functools import partial

from gridbridge.model.fixed_paths import SPOOL
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.program.cluster_observer import ClusterObserver, LastClusterSnapshots
from gridbridge.program.pushed_job_ends import OarJobEndListener, QeventJobEndReceiver
from gridbridge.program.service_disk_space import FullServiceFolderWatch, StarterTmpdirQuery
from gridbridge.program.threads_and_backoff import OwnerThreadPools
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.spool_inbox import SpoolInbox
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.answers_to_starters import UndeliveredTaskEndTracker
from gridbridge.transfer.poller.breakers import ClusterBreakers
from gridbridge.transfer.poller.decision_input_gatherer import ReusedRemoteJobIdDetector, TransferDecisionInputGatherer
from gridbridge.transfer.poller.guard_and_suspension_repair import (
    CopiedGuardRemover,
    MissingGuardRestorer,
    StaleGuardRemover,
    SuspensionReconciler,
)
from gridbridge.transfer.poller.leftover_removal import OldTransferDataSweeper, OrphanRemoteJobCleaner
from gridbridge.transfer.poller.poller_decision_journal import TransferPlanJournal
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.poller.remote_job_claims import RemoteJobClaimService
from gridbridge.transfer.poller.remote_usage_records import RemoteUsageService
from gridbridge.transfer.poller.starter_messages import StarterMessageReader
from gridbridge.transfer.poller.transfer_acts import TransferActDispatcher, TransferActRunner
from gridbridge.transfer.poller.transfer_ledger import TaskHistoryPublisher, TransferLedger
from gridbridge.transfer.poller.transfer_round import (
    ClusterAnswerProcessors,
    PollRoundActionRunner,
    PollRoundInputSources,
    PollRoundPublishers,
    PollRoundReconcilers,
    PollRoundSteps,
    StarterWakerAfterSilence,
)
from gridbridge.transfer.poller.waiting_task_recalls import WaitingTaskMoveService, WaitingTaskRecallService


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerResources:
    """The files, cluster queries, threads and clock with which the transfer service works."""

    database: StateFile
    inbox: SpoolInbox
    acts: TransferActRunner
    views: TransferStatePublisher
    observers: dict[str, ClusterObserver]
    pushes: dict[str, QeventJobEndReceiver | OarJobEndListener] = field(default_factory=dict)
    workers: OwnerThreadPools = field(default_factory=OwnerThreadPools)
    spool: str = SPOOL
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerStateComponents:
    """The components of the poller that hold state; the state file has all data that a restart needs."""

    job_history: TaskHistoryPublisher
    breakers: ClusterBreakers
    ledger: TransferLedger
    plan_journal: TransferPlanJournal
    journal: DecisionJournal
    unheard_ends: UndeliveredTaskEndTracker
    mail: StarterMessageReader
    answers: LastClusterSnapshots
    reused_ids: ReusedRemoteJobIdDetector
    usage_records: RemoteUsageService
    situations: TransferDecisionInputGatherer


def build_poller_state(policy: Policy, at: PollerResources) -> PollerStateComponents:
    """Build the components of the poller that hold state."""
    job_history = TaskHistoryPublisher(policy.site.cluster, at.database, at.views)
    breakers = ClusterBreakers(policy.breaker, at.views, at.clock)
    ledger = TransferLedger(at.database, job_history, breakers, at.clock)
    journal = DecisionJournal(at.database)
    unheard_ends = UndeliveredTaskEndTracker(at.database, at.clock)
    mail = StarterMessageReader(policy, at.inbox, ledger, at.acts.verdicts, unheard_ends, at.clock, journal)
    answers = LastClusterSnapshots(at.observers, at.database, at.views.answer, at.clock)
    reused_ids = ReusedRemoteJobIdDetector(ledger, at.acts.remote, at.workers, at.clock.steady_s)
    return PollerStateComponents(
        job_history=job_history,
        breakers=breakers,
        ledger=ledger,
        plan_journal=TransferPlanJournal(),
        journal=journal,
        unheard_ends=unheard_ends,
        mail=mail,
        answers=answers,
        reused_ids=reused_ids,
        usage_records=RemoteUsageService(policy=policy, database=at.database, views=at.views, clock=at.clock),
        situations=TransferDecisionInputGatherer(
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
class PollerActComponents:
    """The components of the poller that act for transfers."""

    claims: RemoteJobClaimService
    dispatcher: TransferActDispatcher
    late_guards: StaleGuardRemover
    actions: PollRoundActionRunner


def build_poller_act_components(
    policy: Policy, at: PollerResources, state: PollerStateComponents
) -> PollerActComponents:
    """Build the components of the poller that act for transfers."""
    claims = RemoteJobClaimService(policy, state.ledger, at.acts.claims, at.workers, at.clock)
    dispatcher = TransferActDispatcher(at.acts, at.workers, state.usage_records, at.clock.steady_s)
    late_guards = StaleGuardRemover(at.database, state.ledger, dispatcher, at.clock)
    actions = PollRoundActionRunner(
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
    return PollerActComponents(claims=claims, dispatcher=dispatcher, late_guards=late_guards, actions=actions)


def _let_go(
    state: PollerStateComponents, dispatcher: TransferActDispatcher, late_guards: StaleGuardRemover, closed: Transfer
) -> None:
    state.situations.deleted_at_home.pop(closed.name, None)
    state.ledger.forget(closed)
    state.mail.questions.with_new_starter.discard(closed.key)
    state.unheard_ends.remember(closed)
    late_guards.remember(closed)
    dispatcher.forget(closed.key)
    state.plan_journal.forget(closed.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerReconcilers:
    """The components that compare local tasks with remote jobs and act on the differences."""

    guards: MissingGuardRestorer
    copies: CopiedGuardRemover
    cleaner: OrphanRemoteJobCleaner
    recalls: WaitingTaskRecallService
    moves: WaitingTaskMoveService
    suspensions: SuspensionReconciler


def build_poller_reconcilers(
    policy: Policy, at: PollerResources, state: PollerStateComponents, acting: PollerActComponents
) -> PollerReconcilers:
    """Build the components that compare local tasks with remote jobs."""
    steady_s, act = at.clock.steady_s, acting.actions.act
    ledger, acts, workers, claims = state.ledger, at.acts, at.workers, acting.claims
    recalls = WaitingTaskRecallService(
        policy, ledger, acts.tasks, acts.verdicts, workers, claims, at.clock, state.journal
    )
    return PollerReconcilers(
        guards=MissingGuardRestorer(policy, ledger, acts.tasks, workers, act, steady_s),
        copies=CopiedGuardRemover(policy, ledger, acts.tasks, workers, steady_s),
        cleaner=OrphanRemoteJobCleaner(ledger, at.inbox, acts.remote, workers, claims, act, steady_s),
        recalls=recalls,
        moves=WaitingTaskMoveService(policy, at.database, ledger, acts.tasks, recalls, workers, at.clock),
        suspensions=SuspensionReconciler(policy, ledger, acts.verdicts, steady_s),
    )


def build_poll_round(
    policy: Policy,
    at: PollerResources,
    state: PollerStateComponents,
    acting: PollerActComponents,
    maintenance: PollerReconcilers,
) -> PollRoundSteps:
    """Build the steps of a poller's round."""
    return PollRoundSteps(
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
    policy: Policy, at: PollerResources, state: PollerStateComponents, acting: PollerActComponents
) -> PollRoundInputSources:
    answer_handlers = ClusterAnswerProcessors(
        policy=policy,
        answers=state.answers,
        ledger=state.ledger,
        unheard_ends=state.unheard_ends,
        breakers=state.breakers,
        late_guards=acting.late_guards,
        mail=state.mail,
        recovery=StarterWakerAfterSilence(at.spool),
        dispatcher=acting.dispatcher,
        reused_ids=state.reused_ids,
        situations=state.situations,
    )
    return PollRoundInputSources(
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
    state: PollerStateComponents,
    acting: PollerActComponents,
    maintenance: PollerReconcilers,
) -> PollRoundReconcilers:
    return PollRoundReconcilers(
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
    state: PollerStateComponents,
    acting: PollerActComponents,
    maintenance: PollerReconcilers,
) -> PollRoundPublishers:
    sweeper = OldTransferDataSweeper(
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
    tmpdirs = StarterTmpdirQuery(policy, at.workers, at.clock.steady_s)
    return PollRoundPublishers(
        ledger=state.ledger,
        answers=state.answers,
        observers=at.observers,
        breakers=state.breakers,
        room=FullServiceFolderWatch((at.spool, at.views.folder), at.clock.steady_s, tmpdirs.folders),
        tmpdirs=tmpdirs,
        job_history=state.job_history,
        views=at.views,
        sweeper=sweeper,
    )
