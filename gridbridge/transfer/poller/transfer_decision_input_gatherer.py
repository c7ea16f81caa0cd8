"""Gather the inputs of decisions about transfers, and detect remote job ids that now belong to another job."""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import transfer_act_decisions, transfers_in_job_lists
from gridbridge.decisions.transfer.transfers_in_job_lists import TransferSituation
from gridbridge.model.cluster_snapshot import ClusterJobListRow
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferKey
from gridbridge.program.cluster_observer import ClusterQueryResult, LastClusterSnapshots
from gridbridge.program.threads_and_backoff import AT_ONCE, OwnerThreadPools, RepeatedBackgroundQuery
from gridbridge.shell.clock import Clock
from gridbridge.state import spool
from gridbridge.transfer.local_task_acts import ReloadablePollerComponent
from gridbridge.transfer.poller.answers_to_starters import RestartedTaskQuestionResponder
from gridbridge.transfer.poller.transfer_acts import RemoteJobActs
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


@dataclass(eq=False)
class ReusedRemoteJobIdDetector:
    """Detects transfers whose remote job id now belongs to another job, as after a reset of job numbers."""

    _ledger: TransferLedger
    _remote: RemoteJobActs
    _workers: OwnerThreadPools
    _clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._known: dict[TransferKey, ClusterJobListRow] = {}
        self._found: set[TransferKey] = set()
        self._questions: dict[str, RepeatedBackgroundQuery[dict[TransferKey, ClusterJobListRow], dict[int, str]]] = {}

    def transfers_with_reused_id(self) -> frozenset[TransferKey]:
        return frozenset(self._found)

    def record_reused_job_ids(self, transfers: list[Transfer]) -> None:
        """Record transfers for which gridbridge-as-user found another job under the remote job id."""
        for transfer in transfers:
            self._record_reused_remote_job_id(transfer.transfer_key, transfer)
        transfers.clear()

    def detect_reused_ids(
        self, came: tuple[ClusterQueryResult, ...], policy: Policy, situation: Callable[[], TransferSituation]
    ) -> None:
        """Detect remote job ids that now belong to other jobs, before decisions use the new job lists."""
        for answer in came:
            where = policy.clusters.get(answer.cluster)
            if where is None or not ADAPTERS[where.kind].query_job_accounts:
                continue
            if answer.snapshot is None:
                for transfer in self._ledger.open_transfers():
                    if transfer.remote == answer.cluster:
                        self._known.pop(transfer.transfer_key, None)
            else:
                self._compare_answered_accounts_with_transfers(answer.cluster)
                self._query_accounts_of_doubtful_jobs(answer.cluster, situation())
        living = self._ledger.open.keys() | self._ledger.ended.keys()
        self._found &= living
        for key in self._known.keys() - living:
            del self._known[key]

    def _query_accounts_of_doubtful_jobs(self, cluster: str, situation: TransferSituation) -> None:
        doubtful: dict[TransferKey, ClusterJobListRow] = {}
        for transfer, job in transfers_in_job_lists.transfers_with_listed_remote_job(
            self._ledger.open_transfers(), cluster, situation
        ):
            if transfers_in_job_lists.may_remote_id_be_reused(transfer, job, self._known):
                doubtful[transfer.transfer_key] = job
            else:
                self._known[transfer.transfer_key] = job
        if doubtful and self._account_strings_query_of_cluster(cluster).is_query_due():
            self._account_strings_query_of_cluster(cluster).start_query(dict(list(doubtful.items())[:AT_ONCE]))

    def _account_strings_query_of_cluster(
        self, cluster: str
    ) -> RepeatedBackgroundQuery[dict[TransferKey, ClusterJobListRow], dict[int, str]]:
        if cluster not in self._questions:

            def query_account_strings(doubtful: dict[TransferKey, ClusterJobListRow]) -> dict[int, str]:
                return self._remote.query_remote_job_accounts(
                    cluster, tuple(sorted({row.job_id for row in doubtful.values()}))
                )

            self._questions[cluster] = RepeatedBackgroundQuery(
                self._workers, cluster, "whose_id", query_account_strings, self._clock
            )
        return self._questions[cluster]

    def _compare_answered_accounts_with_transfers(self, cluster: str) -> None:
        doubtful, accounts = self._account_strings_query_of_cluster(cluster).take_query_result() or ({}, {})
        for key, job in doubtful.items():
            transfer = self._ledger.open.get(key)
            if transfer is None or job.job_id not in accounts or transfer.remote_id != job.job_id:
                continue
            if accounts[job.job_id] == transfer.name:
                self._known[key] = job
            else:
                self._record_reused_remote_job_id(key, transfer)

    def _record_reused_remote_job_id(self, key: TransferKey, transfer: Transfer) -> None:
        if key not in self._found:
            self._found.add(key)
            self._ledger.add_history_line(transfer, f"{transfer.remote} has given {transfer.remote_id} to another job")


PAUSE_S = 10.0  # a longer time between two rounds means that the process was stopped


@dataclass(slots=True)
class TransferDecisionInputGatherer(ReloadablePollerComponent):
    policy: Policy
    ledger: TransferLedger
    answers: LastClusterSnapshots
    questions: RestartedTaskQuestionResponder
    reused_ids: ReusedRemoteJobIdDetector
    spool: str
    clock: Clock
    since_s: float = field(init=False)  # queries have run without interruption since this time
    looked_at_s: float = field(init=False)
    deleted_at_home: dict[str, datetime] = field(init=False)  # deletion time by transfer name

    def __post_init__(self) -> None:
        self.since_s = self.looked_at_s = self.clock.steady_s()
        self.deleted_at_home = self.clock.make_clock_shifted_dictionary(operator.add)

    def restart_silence_measurement(self) -> None:
        """Measure all clusters' silence anew, because a cluster is queried for the first time."""
        self.since_s = self.clock.steady_s()

    def notice_process_pause(self) -> None:
        """Measure all clusters' silence anew, if this process was stopped for a while."""
        now_s = self.clock.steady_s()
        if now_s - self.looked_at_s > PAUSE_S:
            self.since_s = now_s
        self.looked_at_s = now_s

    def gather_inputs(self, concerned: Iterable[Transfer]) -> TransferSituation:
        transfers = tuple(concerned)
        is_asleep = spool.is_starter_asleep
        asleep = (each.wake for each in transfers if is_asleep(each.wake, each.uid, self.spool))
        return TransferSituation(
            home=self.policy.site.cluster,
            now=self.clock.now(),
            snapshots=dict(self.answers.good),
            asleep=frozenset(asleep),
            requeued_jobs=transfer_act_decisions.rescheduled_jobs_with_transfer(self.ledger.open_transfers()),
            dropped=self.unconfigured_clusters(),
            queues=frozenset(self.policy.queues),
            with_new_starter=frozenset(self.questions.with_new_starter),
            since=self.clock.time_of_day_at(self.since_s),
            deleted_at_home=self.deleted_at_home,
            reused_ids=self.reused_ids.transfers_with_reused_id(),
        )

    def unconfigured_clusters(self) -> frozenset[str]:
        """Return the clusters that have open transfers but no section in gridbridge.toml."""
        return self.ledger.remote_clusters() - self.policy.clusters.keys()

    def record_home_deletions(self, transfers: Iterable[Transfer], situation: TransferSituation) -> None:
        """Record for each transfer when home began to delete its task, or stopped listing it."""
        for transfer in transfers:
            if transfer_act_decisions.is_home_task_deleted(transfer, situation):
                self.deleted_at_home.setdefault(transfer.name, situation.now)
            else:
                self.deleted_at_home.pop(transfer.name, None)
