"""Finds remote ids that belong to other jobs by now; what clusters list under them is ignored."""

from collections.abc import Callable
from functools import partial

from gridbridge.batch.adapters import ADAPTERS
from gridbridge.decisions.transfer import reused_id_check
from gridbridge.decisions.transfer.reused_id_check import ListedJob
from gridbridge.decisions.transfer.situation import TransferSituation
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_row import Key, Transfer
from gridbridge.program.watch.cluster_observer import ClusterAnswer
from gridbridge.program.work.background_query import AT_ONCE, BackgroundQuery
from gridbridge.program.work.workers import OwnerThreads
from gridbridge.transfer.acts.remote_jobs import RemoteJobs
from gridbridge.transfer.poller.transfer_ledger import TransferLedger


class ReusedIds:
    """Knows whose job has an id that a cluster lists; asks the cluster only in doubt."""

    def __init__(
        self,
        ledger: TransferLedger,
        remote: RemoteJobs,
        workers: OwnerThreads,
        clock: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._remote = remote
        self._workers = workers
        self._clock = clock
        self._known: dict[Key, ListedJob] = {}
        self._found: set[Key] = set()
        self._questions: dict[
            str, BackgroundQuery[dict[Key, ListedJob], dict[int, str]]
        ] = {}  # by cluster

    def now(self) -> frozenset[Key]:
        """Return the transfers whose ids other jobs have."""
        return frozenset(self._found)

    def note_found(self, told: list[Transfer]) -> None:
        """Note the other jobs that gridbridge-as-user has found."""
        for one in told:
            self._find(one.key, one)
        told.clear()

    def take_answers(
        self,
        came: tuple[ClusterAnswer, ...],
        policy: Policy,
        situation: Callable[[], TransferSituation],
    ) -> None:
        """Check the ids in these answers, before anything is decided by them."""
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
        """Doubt all ids of a cluster that was silent."""
        for one in self._ledger.all():
            if one.remote == cluster:
                self._known.pop(one.key, None)

    def _look(self, cluster: str, situation: TransferSituation) -> None:
        doubtful: dict[Key, ListedJob] = {}
        for one, seen in reused_id_check.listed_jobs(self._ledger.all(), cluster, situation):
            if reused_id_check.is_doubtful(one, seen, self._known):
                doubtful[one.key] = seen
            else:
                self._known[one.key] = seen
        if doubtful and self._question(cluster).may_ask():
            self._question(cluster).ask(dict(list(doubtful.items())[:AT_ONCE]))

    def _question(self, cluster: str) -> BackgroundQuery[dict[Key, ListedJob], dict[int, str]]:
        if cluster not in self._questions:
            ask = partial(self._accounts, cluster)
            self._questions[cluster] = BackgroundQuery(
                self._workers, cluster, "whose_id", ask, self._clock
            )
        return self._questions[cluster]

    def _accounts(self, cluster: str, some: dict[Key, ListedJob]) -> dict[int, str]:
        return self._remote.accounts(cluster, tuple(sorted({one.job_id for one in some.values()})))

    def _take(self, cluster: str) -> None:
        """Take a cluster's answer about the jobs that were in doubt."""
        some, accounts = self._question(cluster).answer() or ({}, {})
        for each, seen in some.items():
            one = self._ledger.open.get(each)
            if one is None or seen.job_id not in accounts or one.remote_id != seen.job_id:
                continue
            if accounts[seen.job_id] == one.name:
                self._known[each] = seen
            else:
                self._find(each, one)

    def _find(self, each: Key, one: Transfer) -> None:
        if each not in self._found:
            self._found.add(each)
            self._ledger.note(one, f"{one.remote} has given {one.remote_id} to another job")

    def _forget(self) -> None:
        """Forget transfers that the service no longer looks after."""
        living = self._ledger.open.keys() | self._ledger.ended.keys()
        self._found &= living
        for each in self._known.keys() - living:
            del self._known[each]
