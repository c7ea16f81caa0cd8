"""Find transfers whose remote job id now belongs to another job of the cluster."""

from collections.abc import Callable
from functools import partial

from gridbridge.batch.batch_adapter_table import ADAPTERS
from gridbridge.decisions.transfer import local_task_ownership
from gridbridge.decisions.transfer.local_task_ownership import RemoteJobIdentity
from gridbridge.decisions.transfer.transfer_decision_inputs import TransferDecisionInputs
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_row import Transfer, TransferKey
from gridbridge.program.watch.cluster_observer import ClusterQueryResult
from gridbridge.program.work.thread_pools import AT_ONCE, OwnerThreadPools, RepeatedBackgroundQuery
from gridbridge.transfer.acts.remote_jobs import RemoteJobActs
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


class ReusedRemoteJobIdDetector:
    """Detects reused remote job ids in job lists, and by queries about doubtful ids."""

    def __init__(
        self, ledger: TransferLedger, remote: RemoteJobActs, workers: OwnerThreadPools, clock: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._remote = remote
        self._workers = workers
        self._clock = clock
        self._known: dict[TransferKey, RemoteJobIdentity] = {}
        self._found: set[TransferKey] = set()
        self._questions: dict[str, RepeatedBackgroundQuery[dict[TransferKey, RemoteJobIdentity], dict[int, str]]] = {}

    def now(self) -> frozenset[TransferKey]:
        """Return the transfers whose remote job id now belongs to another job."""
        return frozenset(self._found)

    def note_found(self, transfers: list[Transfer]) -> None:
        """Record transfers whose remote id gridbridge-as-user found to be another job's."""
        for transfer in transfers:
            self._find(transfer.key, transfer)
        transfers.clear()

    def take_answers(
        self, came: tuple[ClusterQueryResult, ...], policy: Policy, situation: Callable[[], TransferDecisionInputs]
    ) -> None:
        """Check the job ids in new snapshots before decisions use the snapshots."""
        for answer in came:
            where = policy.clusters.get(answer.cluster)
            if where is None or not ADAPTERS[where.kind].tells_accounts:
                continue
            if answer.snapshot is None:
                self._doubt(answer.cluster)
            else:
                self._take(answer.cluster)
                self._look(answer.cluster, situation())
        self._forget()

    def _doubt(self, cluster: str) -> None:
        """Mark all job ids of a silent cluster as doubtful."""
        for transfer in self._ledger.all():
            if transfer.remote == cluster:
                self._known.pop(transfer.key, None)

    def _look(self, cluster: str, situation: TransferDecisionInputs) -> None:
        doubtful: dict[TransferKey, RemoteJobIdentity] = {}
        for transfer, job in local_task_ownership.listed_remote_jobs(self._ledger.all(), cluster, situation):
            if local_task_ownership.may_remote_id_be_reused(transfer, job, self._known):
                doubtful[transfer.key] = job
            else:
                self._known[transfer.key] = job
        if doubtful and self._question(cluster).may_ask():
            self._question(cluster).ask(dict(list(doubtful.items())[:AT_ONCE]))

    def _question(self, cluster: str) -> RepeatedBackgroundQuery[dict[TransferKey, RemoteJobIdentity], dict[int, str]]:
        if cluster not in self._questions:
            ask = partial(self._accounts, cluster)
            self._questions[cluster] = RepeatedBackgroundQuery(self._workers, cluster, "whose_id", ask, self._clock)
        return self._questions[cluster]

    def _accounts(self, cluster: str, doubtful: dict[TransferKey, RemoteJobIdentity]) -> dict[int, str]:
        return self._remote.accounts(cluster, tuple(sorted({job.job_id for job in doubtful.values()})))

    def _take(self, cluster: str) -> None:
        """Process a cluster's answer to the query about doubtful job ids."""
        doubtful, accounts = self._question(cluster).answer() or ({}, {})
        for key, job in doubtful.items():
            transfer = self._ledger.open.get(key)
            if transfer is None or job.job_id not in accounts or transfer.remote_id != job.job_id:
                continue
            if accounts[job.job_id] == transfer.name:
                self._known[key] = job
            else:
                self._find(key, transfer)

    def _find(self, key: TransferKey, transfer: Transfer) -> None:
        if key not in self._found:
            self._found.add(key)
            self._ledger.note(transfer, f"{transfer.remote} has given {transfer.remote_id} to another job")

    def _forget(self) -> None:
        """Forget the job ids of transfers that the service no longer watches."""
        living = self._ledger.open.keys() | self._ledger.ended.keys()
        self._found &= living
        for key in self._known.keys() - living:
            del self._known[key]
