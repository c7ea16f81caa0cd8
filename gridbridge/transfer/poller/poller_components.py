"""Build the components of the transfer service from a configuration, in the order of their dependencies."""

from dataclasses import dataclass, field

from gridbridge.model.fixed_paths import SPOOL
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.program.cluster_observer import ClusterObserver, LastClusterSnapshots
from gridbridge.program.pushed_job_end_receivers import JobEndListener, QeventJobEndReceiver
from gridbridge.program.service_disk_space import FullServiceFolderWatch, StarterTmpdirQuery
from gridbridge.program.threads_and_backoff import OwnerThreadPools
from gridbridge.shell.clock import Clock
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.spool_inbox import StarterMessageInbox
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller import home_start_guard_and_suspension_repair as repair
from gridbridge.transfer.poller.answers_to_starters import StarterWakerAfterClusterSilence, UndeliveredTaskEndTracker
from gridbridge.transfer.poller.cluster_failure_breakers import ClusterFailureBreakers
from gridbridge.transfer.poller.leftover_remote_job_removal import OldTransferDataSweeper, OrphanRemoteJobCleaner
from gridbridge.transfer.poller.planned_transfer_act_runner import PlannedTransferActRunner
from gridbridge.transfer.poller.poller_decision_journal import TransferPlanJournal
from gridbridge.transfer.poller.published_transfers import TransferStatePublisher
from gridbridge.transfer.poller.remote_job_claims import RemoteJobClaimService
from gridbridge.transfer.poller.remote_usage_records import RemoteUsageService
from gridbridge.transfer.poller.starter_message_reader import StarterMessageReader
from gridbridge.transfer.poller.transfer_acts import TransferActDispatcher, TransferActRunner
from gridbridge.transfer.poller.transfer_decision_input_gatherer import (
    ReusedRemoteJobIdDetector,
    TransferDecisionInputGatherer,
)
from gridbridge.transfer.poller.transfer_ledger import TaskHistoryPublisher, TransferLedger
from gridbridge.transfer.poller.waiting_task_recalls_and_moves import WaitingTaskMoveService, WaitingTaskRecallService


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerResources:
    database: StateFile
    inbox: StarterMessageInbox
    acts: TransferActRunner
    views: TransferStatePublisher
    observers: dict[str, ClusterObserver]
    pushes: dict[str, QeventJobEndReceiver | JobEndListener] = field(default_factory=dict)
    workers: OwnerThreadPools = field(default_factory=OwnerThreadPools)
    spool: str = SPOOL
    clock: Clock = field(default_factory=Clock)


class PollerComponents:
    """The components of the transfer service; the state file has all data that a restart needs."""

    def __init__(self, policy: Policy, resources: PollerResources) -> None:
        self.policy = policy
        self.resources = resources
        self._build_state_components(policy, resources)
        self._build_act_components(policy, resources)
        self._build_comparing_and_cleaning_components(policy, resources)

    def _build_state_components(self, policy: Policy, at: PollerResources) -> None:
        self.job_history = TaskHistoryPublisher(policy.site.cluster, at.database, at.views)
        self.breakers = ClusterFailureBreakers(policy.breaker, at.views, at.clock)
        self.ledger = TransferLedger(at.database, self.job_history, self.breakers, at.clock)
        self.plan_journal = TransferPlanJournal()
        self.journal = DecisionJournal(at.database)
        self.unheard_ends = UndeliveredTaskEndTracker(at.database, at.clock)
        self.mail = StarterMessageReader(
            policy, at.inbox, self.ledger, at.acts.verdicts, self.unheard_ends, at.clock, self.journal
        )
        self.answers = LastClusterSnapshots(at.observers, at.database, at.views.publish_cluster_answer, at.clock)
        self.waker = StarterWakerAfterClusterSilence(at.spool)
        self.reused_ids = ReusedRemoteJobIdDetector(self.ledger, at.acts.remote, at.workers, at.clock.steady_s)
        self.usage_records = RemoteUsageService(policy=policy, database=at.database, views=at.views, clock=at.clock)
        self.situations = TransferDecisionInputGatherer(
            policy, self.ledger, self.answers, self.mail.questions, self.reused_ids, at.spool, at.clock
        )

    def _build_act_components(self, policy: Policy, at: PollerResources) -> None:
        self.claims = RemoteJobClaimService(policy, self.ledger, at.acts.claims, at.workers, at.clock)
        self.dispatcher = TransferActDispatcher(at.acts, at.workers, self.usage_records, at.clock.steady_s)
        self.home_task_releaser = repair.ClosedTransferHomeTaskReleaser(
            at.database, self.ledger, self.dispatcher, at.clock
        )
        self.actions = PlannedTransferActRunner(
            *(policy, self.ledger, at.acts.verdicts, self.dispatcher, self.usage_records, self.claims),
            *(self.home_task_releaser, at.observers, self._forget_closed_transfer, at.clock),
        )

    def _build_comparing_and_cleaning_components(self, policy: Policy, at: PollerResources) -> None:
        ledger, acts, workers, steady_s = self.ledger, at.acts, at.workers, at.clock.steady_s
        do_act = self.actions.do_or_begin_act
        self.guards = repair.MissingGuardRestorer(policy, ledger, acts.tasks, workers, do_act, steady_s)
        self.copies = repair.ResubmittedJobGuardRemover(policy, ledger, acts.tasks, workers, steady_s)
        self.suspensions = repair.SuspensionReconciler(policy, ledger, acts.verdicts, steady_s)
        self.cleaner = OrphanRemoteJobCleaner(ledger, at.inbox, acts.remote, workers, self.claims, do_act, steady_s)
        self.recalls = WaitingTaskRecallService(
            policy, ledger, acts.tasks, acts.verdicts, workers, self.claims, at.clock, self.journal
        )
        self.moves = WaitingTaskMoveService(policy, at.database, ledger, acts.tasks, self.recalls, workers, at.clock)
        self.tmpdirs = StarterTmpdirQuery(policy, workers, steady_s)
        self.room = FullServiceFolderWatch((at.spool, at.views.folder), steady_s, self.tmpdirs.queried_tmpdir_folders)
        self.sweeper = OldTransferDataSweeper(
            *(policy, at.database, at.inbox, acts.verdicts, ledger, self.job_history, self.cleaner),
            *(self.claims, self.usage_records, at.clock),
        )

    def use_changed_configuration(self, policy: Policy) -> None:
        self.policy = policy
        at, acts = self.resources, self.resources.acts
        at.inbox.limit_per_uid = policy.poller.spool_files_per_uid
        for component in (
            *(acts.verdicts, acts.claims, acts.tasks, acts.remote, at.views),
            *(self.breakers, self.mail, self.usage_records),
            *(self.situations, self.actions, self.claims, self.guards, self.recalls, self.moves, self.suspensions),
            *(self.sweeper, self.tmpdirs),
        ):
            component.use_changed_configuration(policy)

    def _forget_closed_transfer(self, closed: Transfer) -> None:
        self.situations.deleted_at_home.pop(closed.name, None)
        self.ledger.move_to_ended(closed)
        self.mail.questions.with_new_starter.discard(closed.transfer_key)
        self.unheard_ends.watch_closed_transfer(closed)
        self.home_task_releaser.watch_guard_of_closed_transfer(closed)
        self.dispatcher.forget_pauses_of_transfer(closed.transfer_key)
        self.plan_journal.forget_transfer(closed.transfer_key)
