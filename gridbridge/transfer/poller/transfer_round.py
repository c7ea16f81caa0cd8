"""Run a round of the poller: gather answers and messages, decide about transfers, act and publish."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass

from gridbridge.decisions.transfer import transfer_decisions
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferDecisionInputs
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import (
    WORDS,
    Transfer,
    TransferAction,
    TransferActKind,
    TransferKey,
    TransferRoundPlan,
)
from gridbridge.model.transfer_message import StarterPhase, TransferFailureCause, TransferMessage
from gridbridge.program.cluster_observer import ClusterObserver, ClusterQueryResult, LastClusterSnapshots
from gridbridge.program.pushed_job_ends import OarJobEndListener, QeventJobEndReceiver
from gridbridge.program.service_disk_space import FullServiceFolderWatch, StarterTmpdirQuery
from gridbridge.shell.clock import Clock
from gridbridge.state import spool
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.transfer.poller.answers_to_starters import UndeliveredTaskEndTracker, VerdictFilesAndStarterFifos
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
from gridbridge.transfer.poller.starter_messages import StarterMessageReader, UnconfirmedTransferQuota
from gridbridge.transfer.poller.transfer_acts import (
    TransferActDispatcher,
    disputed_end_verdict,
    untraceable_job_verdict,
)
from gridbridge.transfer.poller.transfer_ledger import TaskHistoryPublisher, TransferLedger
from gridbridge.transfer.poller.waiting_task_recalls import WaitingTaskMoveService, WaitingTaskRecallService


@dataclass(slots=True, kw_only=True)
class PollRoundActionRunner:
    """Does the acts that a round has planned; one act never runs twice at the same time."""

    policy: Policy
    ledger: TransferLedger
    verdicts: VerdictFilesAndStarterFifos
    dispatcher: TransferActDispatcher
    usage_records: RemoteUsageService
    claims: RemoteJobClaimService
    late_guards: StaleGuardRemover
    asked: Container[str]  # clusters that the poller queries
    over: Callable[[Transfer], None]  # is called with each closed transfer
    clock: Clock

    def follow(self, policy: Policy) -> None:
        """Use a changed configuration."""
        self.policy = policy

    def act(self, action: TransferAction) -> None:
        """Do a quick act at once; begin an act that needs a command in a thread of the job's owner."""
        transfer = action.transfer
        if action.act is TransferActKind.CLOSE:
            self._close(action.transfer, action.why)
        elif action.act is TransferActKind.PUBLISH:
            self.usage_records.tell_end(transfer)
            self.verdicts.publish(action)
        elif transfer.remote in self.asked and self.dispatcher.may_begin(action):
            self.ledger.note(transfer, f"{WORDS[action.act]}: {action.why}")
            self.dispatcher.begin(action)

    def look_up(self, cluster: str, ids: frozenset[int]) -> None:
        """Look up at once the end of each job whose end the cluster has announced."""
        for action in transfer_decisions.plan_pushed_end_lookups(self.ledger.all(), cluster, ids):
            self.dispatcher.forget(action.transfer.key)
            self.act(action)

    def take_results(self) -> list[TransferKey]:
        """Record the results of finished acts; return the transfers that changed."""
        changed = []
        for action, verdict in self.dispatcher.take_done():
            transfer = self.ledger.find(action.transfer.key)
            if action.transfer.is_over and action.act is TransferActKind.RELEASE_LOCAL:
                self.late_guards.forget_released(action.transfer)
            elif transfer and not transfer.is_over and self._take_result(action, transfer, verdict):
                changed.append(transfer.key)
        self._tell_not_deleted()
        return changed

    def _tell_not_deleted(self) -> None:
        for action_of, why in self.dispatcher.not_deleted:
            if (transfer := self.ledger.find(action_of.key)) and not transfer.is_over:
                self.ledger.keep(transfer.but(reason=why))
                self.ledger.note(transfer, why)
        self.dispatcher.not_deleted.clear()

    def _take_result(self, action: TransferAction, transfer: Transfer, verdict: TransferMessage | None) -> bool:
        """Record the result of an act; return whether the transfer needs a new decision."""
        if action.act is TransferActKind.RELEASE_LOCAL:
            self._close(transfer, action.why)
            return False
        if action.act is TransferActKind.GUARD_LOCAL:
            return False
        if action.act in (TransferActKind.ADOPT_LOCAL, TransferActKind.UNPIN):
            self.ledger.keep(transfer.but(pinned=action.act is TransferActKind.ADOPT_LOCAL))
            return False
        verdict = self._end(action, transfer, verdict)
        if verdict:
            verdict = self.claims.limited(transfer, verdict)
            verdict = transfer.verdict or verdict
            now = self.clock.now()
            self.ledger.keep(transfer.but(verdict=verdict, cause=verdict.cause, updated_at=now))
        return verdict is not None

    def _end(
        self, action: TransferAction, transfer: Transfer, verdict: TransferMessage | None
    ) -> TransferMessage | None:
        """Return the result of a job that a look-up found; an error if the look-ups have failed for too long."""
        is_sought = action.act is TransferActKind.LOOK_UP_END
        if is_disputed := is_sought and transfer.key in self.dispatcher.disputed:
            self.ledger.note(transfer, disputed_end_verdict(action).reason)
        if (
            verdict is None
            and is_sought
            and transfer_decisions.is_job_end_search_over(transfer, self.policy.poller, self.clock.now())
        ):
            return disputed_end_verdict(action) if is_disputed else untraceable_job_verdict(action)
        return verdict

    def _close(self, transfer: Transfer, why: str) -> None:
        now = self.clock.now()
        closed = transfer.but(closed_at=now, updated_at=now, reason=why)
        self.ledger.keep(closed)
        self.ledger.note(closed, why)
        self.forget(closed)

    def forget(self, closed: Transfer) -> None:
        """Remove the published result and the FIFO of a closed transfer."""
        self.over(closed)
        self.verdicts.tidy(closed)


class StarterWakerAfterSilence:
    """Wakes starters that wait to submit to a silent cluster, once the cluster answers again."""

    def __init__(self, folder: str) -> None:
        self._silent: set[str] = set()
        self._folder = folder

    def take_answer(self, answer: ClusterQueryResult, transfers: Iterable[Transfer]) -> bool:
        """Wake starters if the answer ends the cluster's silence; return whether the silence ended."""
        if answer.snapshot is None:
            self._silent.add(answer.cluster)
        elif answer.cluster in self._silent:
            self._silent.discard(answer.cluster)
            self._wake(transfer for transfer in transfers if transfer.remote == answer.cluster)
            return True
        return False

    def _wake(self, transfers: Iterable[Transfer]) -> None:
        for transfer in transfers:
            if transfer.phase == StarterPhase.SUBMITTING:
                spool.wake_starter(transfer.wake, self._folder, owner=transfer.uid)


@dataclass(slots=True, kw_only=True)
class ClusterAnswerProcessors:
    """The components of the service that process the clusters' answers."""

    policy: Policy
    answers: LastClusterSnapshots
    ledger: TransferLedger
    unheard_ends: UndeliveredTaskEndTracker
    breakers: ClusterBreakers
    late_guards: StaleGuardRemover
    mail: StarterMessageReader
    recovery: StarterWakerAfterSilence
    dispatcher: TransferActDispatcher
    reused_ids: ReusedRemoteJobIdDetector
    situations: TransferDecisionInputGatherer

    def follow(self, policy: Policy) -> None:
        """Use a changed configuration."""
        self.policy = policy

    def take(self, came: tuple[ClusterQueryResult, ...]) -> None:
        """Process the clusters' answers, and the reused remote job ids that acts have found."""
        self.reused_ids.note_found(self.dispatcher.not_ours)
        for answer in came:
            if answer.snapshot and answer.cluster == self.policy.site.cluster:
                self._take_home(answer.snapshot)
            if self.recovery.take_answer(answer, self.ledger.all()):
                self.dispatcher.recover()
        if came:
            self.reused_ids.take_answers(came, self.policy, lambda: self.situations.gather(()))

    def _take_home(self, snapshot: ClusterSnapshot) -> None:
        for transfer in self.unheard_ends.take_answer(snapshot, frozenset(self.policy.queues)):
            self.ledger.reopen(transfer)
        for transfer in self.unheard_ends.prove(snapshot):
            self.ledger.prove(transfer)
        self.breakers.prove(snapshot, self.ledger.all())
        self.late_guards.take_answer(snapshot)
        self.mail.take_answer(snapshot, self.answers.good)


@dataclass(slots=True, kw_only=True)
class PollRoundInputSources:
    """The components from which a round gets its input."""

    answers: LastClusterSnapshots
    mail: StarterMessageReader
    usage_records: RemoteUsageService
    pushes: dict[str, QeventJobEndReceiver | OarJobEndListener]
    actions: PollRoundActionRunner
    answer_handlers: ClusterAnswerProcessors

    def take(self) -> tuple[tuple[ClusterQueryResult, ...], list[TransferKey]]:
        """Return the new answers of clusters, and the transfers that messages and acts have changed."""
        came = self.answers.take()  # first, because messages must be newer than the answers
        changed = [*self._take_messages(at_once=bool(came)), *self.actions.take_results()]
        self.usage_records.take()
        self._take_pushes()
        self.answer_handlers.take(came)
        return came, changed

    def _take_messages(self, at_once: bool) -> list[TransferKey]:
        changed = self.mail.take(at_once)
        for transfer in changed:
            if transfer.is_over:
                self.actions.forget(transfer)
        return [transfer.key for transfer in changed]

    def _take_pushes(self) -> None:
        for cluster, push in self.pushes.items():
            if ids := push.ended():
                self.actions.look_up(cluster, ids)


@dataclass(slots=True, kw_only=True)
class PollRoundReconcilers:
    """The components that compare local tasks with remote jobs and act on the differences."""

    policy: Policy
    ledger: TransferLedger
    unproved: UnconfirmedTransferQuota
    situations: TransferDecisionInputGatherer
    guards: MissingGuardRestorer
    copies: CopiedGuardRemover
    cleaner: OrphanRemoteJobCleaner
    claims: RemoteJobClaimService
    recalls: WaitingTaskRecallService
    moves: WaitingTaskMoveService
    suspensions: SuspensionReconciler
    views: TransferStatePublisher
    breakers: ClusterBreakers

    def follow(self, policy: Policy) -> None:
        """Use a changed configuration."""
        self.policy = policy

    def take_answers(self, came: tuple[ClusterQueryResult, ...]) -> None:
        """Compare local tasks with remote jobs, once the transfers have their new states."""
        self.guards.take_answers(came, self.policy.site.cluster)
        self.copies.take_answers(came)
        self.cleaner.clean(self.situations.gather(()), self.unproved.names())
        everything = self.situations.gather(self.ledger.all())
        self.claims.decide(everything)
        self.recalls.decide(everything, self.views.troubles(self.breakers.why()))
        self.moves.decide(everything)
        self.suspensions.decide(everything, self.recalls.out())

    def send(self) -> None:
        """Send to clusters what the state file has recorded: permissions to run, holds and start times."""
        self.claims.send()
        self.guards.send()


@dataclass(slots=True, kw_only=True)
class PollRoundPublishers:
    """The components that publish what a round has changed."""

    ledger: TransferLedger
    answers: LastClusterSnapshots
    observers: Mapping[str, ClusterObserver]
    breakers: ClusterBreakers
    room: FullServiceFolderWatch
    tmpdirs: StarterTmpdirQuery
    job_history: TaskHistoryPublisher
    views: TransferStatePublisher
    sweeper: OldTransferDataSweeper

    def publish(self, is_news: bool) -> None:
        """Publish load values and histories, and with `is_news` the open transfers."""
        closed = self.breakers.closed(self.ledger.all()) | self.answers.silent()
        self.views.load(self.answers.good, self.observers, closed, self.room.lacks())
        self.job_history.publish()
        if is_news:
            self.views.transfers(self.ledger.all(), self.answers.good)
        self.sweeper.sweep_if_due()


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRoundInput:
    """A round's input: new answers of clusters, and the transfers to decide about."""

    came: tuple[ClusterQueryResult, ...]
    is_news: bool  # whether a cluster has answered or a transfer has changed
    concerned: tuple[Transfer, ...]
    situation: TransferDecisionInputs | None  # None: nothing to decide


@dataclass(slots=True, kw_only=True)
class PollRoundSteps:
    """The steps of a round of the poller: gather, decide, store the decision, and act."""

    policy: Policy
    journal: DecisionJournal
    ledger: TransferLedger
    intake: PollRoundInputSources
    situations: TransferDecisionInputGatherer
    plan_journal: TransferPlanJournal
    actions: PollRoundActionRunner
    upkeep: PollRoundReconcilers
    publication: PollRoundPublishers

    def follow(self, policy: Policy) -> None:
        """Use a changed configuration."""
        self.policy = policy

    def gather(self) -> PollRoundInput:
        """Gather a round's input; the answer of any cluster concerns all open transfers."""
        came, changed = self.intake.take()
        concerned = tuple(self.ledger.all()) if came else self.ledger.among(changed)
        return PollRoundInput(
            came=came,
            is_news=bool(came or changed),
            concerned=concerned,
            situation=self.situations.gather(concerned) if concerned else None,
        )

    def decide(self, round_input: PollRoundInput) -> TransferRoundPlan:
        """Plan the acts for the transfers that a round's input concerns."""
        if round_input.situation is None:
            return TransferRoundPlan()
        return transfer_decisions.update_and_plan_transfers(
            round_input.concerned, round_input.situation, self.policy.poller
        )

    def entry(self, round_input: PollRoundInput, plan: TransferRoundPlan) -> DecisionJournalEntry | None:
        """Return a journal entry of the round's new decisions; None if nothing new was decided."""
        if round_input.situation is None:
            return None
        return self.plan_journal.entry(round_input.concerned, round_input.situation, self.policy.poller, plan)

    def apply(self, round_input: PollRoundInput, plan: TransferRoundPlan) -> None:
        """Store changed transfers, do the planned acts, compare tasks with remote jobs, and publish."""
        if round_input.situation:
            self._note(round_input.concerned, plan, round_input.situation)
        for action in plan.actions:
            self.actions.act(action)
        if round_input.came:
            self.upkeep.take_answers(round_input.came)
        self.publication.publish(round_input.is_news)

    def _note(
        self, concerned: tuple[Transfer, ...], plan: TransferRoundPlan, situation: TransferDecisionInputs
    ) -> None:
        self.situations.note_deleted(plan.transfers, situation)
        for before, transfer in zip(concerned, plan.transfers, strict=True):
            if before != transfer:
                self.ledger.keep(transfer)
            if before.cause != transfer.cause == TransferFailureCause.DROPPED:
                self.ledger.note(transfer, transfer.reason)
