"""Queries each cluster regularly in a thread, and shares the snapshots among gridbridge's programs."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gridbridge import __version__
from gridbridge.batch.batch_adapter_table import cluster_status_reader
from gridbridge.decisions.transfer.transfer_job_refusal_reasons import find_local_only_queues
from gridbridge.errors import ClusterStateUnknown, GridbridgeError, describe_error
from gridbridge.model.cluster_snapshot import CampaignJobsSentBeforeListing, ClusterJobListRow, ClusterSnapshot
from gridbridge.model.config_key_descriptions import AccountByUser
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster, encode_non_forwarding_queues
from gridbridge.model.transfer.transfer_config_sections import PollerSection
from gridbridge.model.transfer_route import AnyClusterAccessSettings, SshLogin
from gridbridge.program.threads_and_backoff import ThreadNotStarted, ThreadPool
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import cluster_query_tables, published_file_formats
from gridbridge.state.cluster_query_tables import ClusterQueryLog, LastClusterQueryResult, LastClusterQueryRows
from gridbridge.state.published_files import publish_file
from gridbridge.state.state_file import StateFile

_log = logging.getLogger(__name__)

ROUND_S = 2.0  # other programs get a result within this time after its query

AHEAD_S = 1.0  # another program's clock may be ahead by this much, because clocks are slewed


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterQueryResult:
    cluster: str
    took_s: float = 0.0
    snapshot: ClusterSnapshot | None = None
    vocabulary: NamesOfferedByCluster | None = None  # None: the names were not queried this time
    trouble: str = ""
    shared: LastClusterQueryResult | None = None  # the result as stored for other programs


@contextmanager
def unexpected_answer_as_error(cluster: str) -> Iterator[None]:
    """Raise GridbridgeError or OSError for any exception of a query: a cluster's answer must not end a service."""
    try:
        yield
    except (GridbridgeError, OSError):
        raise
    except Exception as error:
        _log.exception("event=fault cluster=%s", cluster)
        raise ClusterStateUnknown(f"{type(error).__name__}: {error}") from error


def query_interval_by_answer_time(usual_s: float, pace: PollerSection) -> float:
    """Return the time between two queries of a cluster that usually takes `usual_s` to answer.

    Queries take at most `query_share` of the time, unless transfer queues would then close.
    """
    longest_s = pace.stale_s / 2
    return max(pace.interval_s, min(usual_s / pace.query_share, longest_s))


class ClusterObserver:
    """Queries a cluster regularly in a thread."""

    def __init__(
        self,
        cluster: str,
        access: AnyClusterAccessSettings,
        pace: PollerSection,
        clock: Clock,
        users: AccountByUser | None = None,
        transfer_queues: Collection[str] = (),
    ) -> None:
        self.cluster = cluster
        self.interval_s = pace.interval_s
        self._threads = ThreadPool(max_workers=1, thread_name_prefix=cluster)
        self._where = access
        self._pace = pace
        self._clock = clock
        self._users = users or AccountByUser()
        self._transfer_queues = transfer_queues
        self._due = clock.steady_s()
        self._asked_at = clock.steady_s()
        self._asked: Future[ClusterQueryResult] | None = None
        self._last_took_s = 0.0
        self._usual_s = 0.0
        self._words_due = clock.steady_s()

    def use_changed_configuration(
        self, access: AnyClusterAccessSettings, pace: PollerSection, transfer_queues: Collection[str]
    ) -> None:
        """Use a changed configuration from now on; query the cluster's offered names at once."""
        self._where = access
        self._pace = pace
        self._transfer_queues = transfer_queues
        self._adapt_query_interval()
        self._words_due = self._clock.steady_s()

    def start_query_if_due(
        self,
        job_ids: Callable[[], frozenset[int]],
        sent: Callable[[str], CampaignJobsSentBeforeListing] = lambda _: CampaignJobsSentBeforeListing(),
    ) -> None:
        """Start a query if the pause is over and no query runs.

        `job_ids` returns jobs that the snapshot must contain, `sent` campaigns' jobs, which do not count as waiting.
        """
        if self._asked is None and self._clock.steady_s() >= self._due:
            self._asked_at = self._clock.steady_s()
            self._due = self._asked_at + self.interval_s
            self._asked = self._threads.submit(self._query_cluster, job_ids(), sent(self.cluster))

    def take_query_result(self) -> ClusterQueryResult | None:
        """Return the result of a finished query, but only once; None if there is no new result."""
        if self._asked is None or not self._asked.done():
            return None
        try:
            answer = self._asked.result()
        except ThreadNotStarted as error:
            answer = ClusterQueryResult(cluster=self.cluster, trouble=describe_error(error))
        self._asked = None
        self._usual_s = min(answer.took_s, self._last_took_s) if answer.snapshot else 0.0
        self._last_took_s = answer.took_s
        self._adapt_query_interval()
        return self._date_query_result(answer)

    def _adapt_query_interval(self) -> None:
        interval_s = query_interval_by_answer_time(self._usual_s, self._pace)
        self._due += interval_s - self.interval_s
        self.interval_s = interval_s

    def _date_query_result(self, answer: ClusterQueryResult) -> ClusterQueryResult:
        """Date a result at its query's start; use the steady clock, because the clock may have been set meanwhile."""
        taken_at = self._clock.time_of_day_at(self._asked_at)
        shared = answer.shared and replace(
            answer.shared, asked_at=taken_at, every_s=self.interval_s + answer.took_s + ROUND_S
        )
        snapshot = answer.snapshot and replace(answer.snapshot, taken_at=taken_at)
        return replace(answer, snapshot=snapshot, shared=shared)

    def shut_down_threads(self) -> None:
        """Stop querying the cluster after the present query."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _query_cluster(self, job_ids: frozenset[int], sent_jobs: CampaignJobsSentBeforeListing) -> ClusterQueryResult:
        answer = self._query_cluster_snapshot(job_ids | sent_jobs.jobs, sent_jobs.jobs)
        snapshot = answer.snapshot
        if sent_jobs.is_watched:
            location = identify_cluster_query(self._where, self._transfer_queues)
            shared = query_result_to_share(snapshot, sent_jobs, location, self._clock.now(), trouble=answer.trouble)
            answer = replace(answer, shared=shared)
        others = sent_jobs.jobs - job_ids
        if snapshot and others & snapshot.jobs.keys():
            jobs = {number: rows for number, rows in snapshot.jobs.items() if number not in others}
            answer = replace(answer, snapshot=replace(snapshot, jobs=jobs))
        return answer

    def _query_cluster_snapshot(self, jobs: frozenset[int], campaign_jobs: frozenset[int]) -> ClusterQueryResult:
        try:
            with unexpected_answer_as_error(self.cluster):
                snapshot, took_s = cluster_status_reader(self._where).query_cluster_snapshot(
                    self._where, self.cluster, jobs, self._transfer_queues, campaign_jobs
                )
        except (GridbridgeError, OSError) as error:
            return ClusterQueryResult(cluster=self.cluster, trouble=describe_error(error))
        if self._where.has_own_accounts:
            listed = {job: self._replace_accounts_by_owners(rows) for job, rows in snapshot.jobs.items()}
            snapshot = replace(snapshot, jobs=listed, copies=self._replace_accounts_by_owners(snapshot.copies))
        return ClusterQueryResult(
            cluster=self.cluster, took_s=took_s, snapshot=snapshot, vocabulary=self._offered_names_if_due()
        )

    def _offered_names_if_due(self) -> NamesOfferedByCluster | None:
        if self._clock.steady_s() < self._words_due:
            return None
        self._words_due = self._clock.steady_s() + self._pace.vocabulary_s
        try:
            return cluster_status_reader(self._where).query_requestable_names(self._where)
        except Exception as error:  # an unexpected answer must not end the service
            _log.warning("event=no_vocabulary cluster=%s why=%r", self.cluster, describe_error(error))
            return None

    def _replace_accounts_by_owners(self, rows: tuple[ClusterJobListRow, ...]) -> tuple[ClusterJobListRow, ...]:
        person_of = self._users.user_of_remote_account
        return tuple(replace(row, owner=person_of(row.owner, self.cluster)) for row in rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedClusterSnapshot:
    snapshot: ClusterSnapshot | None = None
    trouble: str = ""
    is_regular: bool = False  # whether the poller, which queries regularly, shared the snapshot


class ClusterSnapshotSharing:
    def __init__(self, database: StateFile, clock: Clock, *, is_dry: bool = False) -> None:
        """Open the table of shared snapshots; a dry run stores nothing."""
        self._answers = LastClusterQueryRows(database)
        self._clock = clock
        self._is_dry = is_dry

    def share_query_result(self, cluster: str, answer: LastClusterQueryResult) -> None:
        if not self._is_dry:
            self._answers.store_last_query_result(cluster, answer)

    def find_recent_snapshot(
        self, cluster: str, location: str, released: frozenset[str], limit_s: float
    ) -> SharedClusterSnapshot | None:
        """Return a recent shared snapshot that contains the released jobs; None if there is none.

        A snapshot is recent until its age reaches `limit_s` or the query interval, whichever is longer.
        """
        last = self._answers.find_last_query_result(cluster)
        if last is None or last.place != location or not released <= last.covers:
            return None
        age_s = (self._clock.now() - last.asked_at).total_seconds()
        if not -AHEAD_S <= age_s < max(limit_s, last.every_s):
            return None
        if last.trouble:
            return SharedClusterSnapshot(trouble=last.trouble, is_regular=last.every_s > 0)
        try:
            snapshot = cluster_query_tables.decode_cluster_snapshot(last.content, cluster, last.asked_at)
        except Exception as error:  # an unreadable stored answer costs only a new query
            _log.warning("event=not_shared cluster=%s why=%r", cluster, describe_error(error))
            return None
        return SharedClusterSnapshot(snapshot=snapshot, is_regular=last.every_s > 0)


def query_result_to_share(
    snapshot: ClusterSnapshot | None,
    sent_jobs: CampaignJobsSentBeforeListing,
    location: str,
    now: datetime,
    *,
    every_s: float = 0.0,
    trouble: str = "",
) -> LastClusterQueryResult:
    """Return what other programs get of a query's result: queues and campaign jobs, or the error."""
    return LastClusterQueryResult(
        place=location,
        asked_at=snapshot.taken_at if snapshot else now,
        every_s=every_s,
        covers=sent_jobs.released,
        trouble=trouble,
        content=cluster_query_tables.encode_cluster_snapshot(snapshot, sent_jobs.jobs) if snapshot else b"",
    )


def identify_cluster_query(access: AnyClusterAccessSettings, transfer_queues: Iterable[str]) -> str:
    """Return a text that identifies gridbridge's version, the cluster's access settings and the transfer queues."""
    return " ".join((__version__, access.kind, *_words_of_cluster_access(access), *transfer_queues))


def _words_of_cluster_access(access: AnyClusterAccessSettings | SshLogin) -> Iterator[str]:
    for name, value in vars(access).items():
        yield from _words_of_cluster_access(value) if isinstance(value, SshLogin) else (f"{name}={value}",)


FAILED_IN_A_ROW = 2  # this many failed queries in a row close transfer queues; one failure may be an accident


class LastClusterSnapshots:
    """The last snapshot of each cluster; a failed query does not replace a snapshot."""

    def __init__(
        self,
        observers: Mapping[str, ClusterObserver],
        database: StateFile,
        show: Callable[[ClusterQueryResult, ClusterSnapshot | None], None],
        clock: Clock,
    ) -> None:
        self.good: dict[str, ClusterSnapshot] = clock.make_clock_shifted_dictionary(
            lambda snapshot, step: replace(snapshot, taken_at=snapshot.taken_at + step)
        )
        self._clock = clock
        self._failed: Counter[str] = Counter()
        self._observers = observers
        self._snapshots = ClusterQueryLog(database)
        self._sharing = ClusterSnapshotSharing(database, clock)
        self._show = show

    def collect_results(self) -> tuple[ClusterQueryResult, ...]:
        """Return the query results that have arrived since the last call."""
        came = tuple(answer for observer in self._observers.values() if (answer := observer.take_query_result()))
        for answer in came:
            self._store_query_result(answer)
        return came

    def silent_clusters(self) -> frozenset[str]:
        """Return the clusters of which the last two queries failed."""
        return frozenset(name for name, times in self._failed.items() if times >= FAILED_IN_A_ROW)

    def forget_cluster_results(self, cluster: str) -> None:
        """Forget a cluster's results, after a change of its access settings or at the end of its queries."""
        self.good.pop(cluster, None)
        self._failed.pop(cluster, None)

    def _store_query_result(self, answer: ClusterQueryResult) -> None:
        snapshot = answer.snapshot
        if snapshot:
            self.good[answer.cluster] = snapshot
            self._failed.pop(answer.cluster, None)
        else:
            self._failed[answer.cluster] += 1
            _log.warning("event=no_answer cluster=%s why=%r", answer.cluster, answer.trouble)
        self._snapshots.record_query(
            cluster=answer.cluster,
            taken_at=snapshot.taken_at if snapshot else self._clock.now(),
            ok=snapshot is not None,
            took=timedelta(seconds=answer.took_s),
            summary={"pending": snapshot.pending, "free_slots": snapshot.free_slots}
            if snapshot
            else {"trouble": answer.trouble},
        )
        if answer.shared:
            self._sharing.share_query_result(answer.cluster, answer.shared)
        self._show(answer, self.good.get(answer.cluster))


def publish_local_only_queues(
    snapshot: ClusterSnapshot, transfer_queues: Container[str] = (), folder: str = PUBLISHED
) -> None:
    """Publish a cluster's queues that send no job to another cluster, if the list has changed."""
    queues = find_local_only_queues(snapshot.queues, transfer_queues)
    now = encode_non_forwarding_queues(queues) if queues else None
    if published_file_formats.read_non_forwarding_queues(snapshot.cluster, folder) == now:
        return
    path = published_file_formats.non_forwarding_queues_path(snapshot.cluster, folder)
    if now:
        publish_file(path, now)
    else:
        safe_files.remove_file(path)
