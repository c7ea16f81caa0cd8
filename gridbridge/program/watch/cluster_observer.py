"""Query one cluster regularly in a thread, with a limited share of its time."""

import logging
from collections.abc import Callable, Collection
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from gridbridge.batch.adapters import status_adapter
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.route import Away
from gridbridge.model.settings import Users
from gridbridge.model.snapshot import ClusterSnapshot, JobStatus, SentJob
from gridbridge.model.vocabulary import ClusterVocabulary
from gridbridge.program.watch.shared_answers import (
    identify_cluster_query,
    query_result_to_share,
    snapshot_without_jobs,
)
from gridbridge.program.work.threads import ThreadNotStarted, ThreadPool
from gridbridge.shell.clock import Clock
from gridbridge.state.database.snapshots import LastClusterQuery

ROUND_S = 2.0  # the next round shares a result

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueryResult:
    """The result of one query: a snapshot, or the reason why it failed."""

    cluster: str
    took_s: float = 0.0
    snapshot: ClusterSnapshot | None = None
    vocabulary: ClusterVocabulary | None = None  # None in most queries
    trouble: str = ""
    shared: LastClusterQuery | None = None  # set if other programs need the result


class ClusterQueryLimits(Protocol):
    """How often a cluster may be queried, from gridbridge.toml."""

    @property
    def interval_s(self) -> float:
        """Seconds between two status queries of a cluster."""
        ...

    @property
    def query_share(self) -> float:
        """The share of the time that queries of a cluster may take at most."""
        ...

    @property
    def stale_s(self) -> float:
        """The age of a snapshot at which the cluster's queues close."""
        ...

    @property
    def vocabulary_s(self) -> float:
        """Seconds between two queries for the names that a cluster offers."""
        ...


def _none(_cluster: str) -> SentJob:
    return SentJob()


def query_interval_within_share(usual_s: float, pace: ClusterQueryLimits) -> float:
    """Return the query interval for a cluster that usually takes this long to answer.

    Queries take at most `query_share` of the time. The interval stays short enough that the queues
    do not close between two answers.
    """
    longest_s = pace.stale_s / 2
    return max(pace.interval_s, min(usual_s / pace.query_share, longest_s))


class ClusterObserver:
    """Queries one cluster regularly in a thread."""

    def __init__(
        self,
        cluster: str,
        where: Away,
        pace: ClusterQueryLimits,
        clock: Clock,
        users: Users | None = None,
        transfer_queues: Collection[str] = (),
    ) -> None:
        self.cluster = cluster
        self.interval_s = pace.interval_s
        self._threads = ThreadPool(max_workers=1, thread_name_prefix=cluster)
        self._where = where
        self._pace = pace
        self._clock = clock
        self._users = users or Users()
        self._transfer_queues = transfer_queues
        self._due = clock.steady_s()
        self._asked_at = clock.steady_s()
        self._asked: Future[ClusterQueryResult] | None = None
        self._last_took_s = 0.0
        self._usual_s = 0.0
        self._words_due = clock.steady_s()

    def follow(
        self, where: Away, pace: ClusterQueryLimits, transfer_queues: Collection[str]
    ) -> None:
        """Use another configuration for the same cluster from now on.

        The cluster's names are queried again, because the cluster often changed as well.
        """
        self._where = where
        self._pace = pace
        self._transfer_queues = transfer_queues
        self._keep_to_interval()
        self._words_due = self._clock.steady_s()

    def ask_if_due(
        self,
        job_ids: Callable[[], frozenset[int]],
        sent: Callable[[str], SentJob] = _none,
    ) -> None:
        """Start a query if it is due and none is running.

        `job_ids` returns the jobs to keep in the snapshot. `sent` returns the jobs that campaigns
        submitted, which do not count as pending.
        """
        if self._asked is None and self._clock.steady_s() >= self._due:
            self._asked_at = self._clock.steady_s()
            self._due = self._asked_at + self.interval_s
            self._asked = self._threads.submit(self._ask, job_ids(), sent(self.cluster))

    def answer(self) -> ClusterQueryResult | None:
        """Return the result of a finished query once; None if there is none.

        Failed queries do not lengthen the interval, because their time says nothing about the load.
        Nor does a single slow answer, because a qmaster may have paused for a moment.
        """
        if self._asked is None or not self._asked.done():
            return None
        answer = self._came(self._asked)
        self._asked = None
        self._usual_s = min(answer.took_s, self._last_took_s) if answer.snapshot else 0.0
        self._last_took_s = answer.took_s
        self._keep_to_interval()
        return self._dated(answer)

    def _came(self, future: "Future[ClusterQueryResult]") -> ClusterQueryResult:
        try:
            return future.result()
        except ThreadNotStarted as error:
            return ClusterQueryResult(cluster=self.cluster, trouble=describe_error(error))

    def _keep_to_interval(self) -> None:
        """Schedule the next query after the last one."""
        interval_s = query_interval_within_share(self._usual_s, self._pace)
        self._due += interval_s - self.interval_s
        self.interval_s = interval_s

    def _dated(self, answer: ClusterQueryResult) -> ClusterQueryResult:
        """Date a result by its age, because the wall clock may have been set meanwhile."""
        taken_at = self._clock.moment(self._asked_at)
        shared = answer.shared and replace(
            answer.shared, asked_at=taken_at, every_s=self.interval_s + answer.took_s + ROUND_S
        )
        snapshot = answer.snapshot and replace(answer.snapshot, taken_at=taken_at)
        return replace(answer, snapshot=snapshot, shared=shared)

    def dismiss(self) -> None:
        """Stop querying; a running query finishes by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, job_ids: frozenset[int], sent: SentJob) -> ClusterQueryResult:
        """Query status and names at once; campaign jobs are only in the shared copy."""
        answer = self._answered(job_ids, sent)
        snapshot = answer.snapshot
        if sent.is_watched:
            location = identify_cluster_query(self._where, self._transfer_queues)
            shared = query_result_to_share(
                snapshot, sent, location, self._clock.now(), trouble=answer.trouble
            )
            answer = replace(answer, shared=shared)
        return replace(
            answer, snapshot=snapshot and snapshot_without_jobs(snapshot, sent.jobs - job_ids)
        )

    def _answered(self, job_ids: frozenset[int], sent: SentJob) -> ClusterQueryResult:
        try:
            snapshot, took_s = status_adapter(self._where).query_cluster_snapshot(
                self._where, self.cluster, job_ids | sent.jobs, self._transfer_queues, sent.jobs
            )
        except (GridbridgeError, OSError) as error:
            return ClusterQueryResult(cluster=self.cluster, trouble=describe_error(error))
        except Exception as error:  # an unexpected answer must not end the service
            _log.exception("event=fault cluster=%s", self.cluster)
            return ClusterQueryResult(
                cluster=self.cluster, trouble=f"{type(error).__name__}: {error}"
            )
        return ClusterQueryResult(
            cluster=self.cluster,
            took_s=took_s,
            snapshot=self._owned(snapshot),
            vocabulary=self._vocabulary(),
        )

    def _vocabulary(self) -> ClusterVocabulary | None:
        """Query the offered names when due; after a failure the last names stay valid."""
        if self._clock.steady_s() < self._words_due:
            return None
        self._words_due = self._clock.steady_s() + self._pace.vocabulary_s
        try:
            return status_adapter(self._where).query_request_vocabulary(self._where)
        except Exception as error:  # as for the status query
            _log.warning(
                "event=no_vocabulary cluster=%s why=%r", self.cluster, describe_error(error)
            )
            return None

    def _owned(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Replace each job owner's remote account by the local person's name."""
        if self._where.login is None:
            return snapshot
        jobs = {job: self._called(rows) for job, rows in snapshot.jobs.items()}
        return replace(snapshot, jobs=jobs, copies=self._called(snapshot.copies))

    def _called(self, rows: tuple[JobStatus, ...]) -> tuple[JobStatus, ...]:
        person_of = self._users.person_of
        return tuple(replace(row, owner=person_of(row.owner, self.cluster)) for row in rows)
