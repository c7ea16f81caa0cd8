"""Query clusters in parallel for snapshots, array ends and live tasks."""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import TypeVar

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, cluster_status_reader
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.batch.optional_adapter_protocols import CampaignArrayEndReader
from gridbridge.campaigns.acts.array_submission import array_job_name, snapshot_without_foreign_jobs
from gridbridge.decisions.campaigns.attempt_ends import ReportedEnds
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.campaigns.campaign import CampaignArray
from gridbridge.model.cluster_snapshot import CampaignJobsAtCluster, ClusterSnapshot
from gridbridge.model.job import ArrayEndQuery, ClusterArrayLimits
from gridbridge.model.policy import Policy
from gridbridge.model.transfer_route import Away
from gridbridge.program.watch.cluster_observer import (
    ClusterSnapshotSharing,
    SharedClusterSnapshot,
    identify_cluster_query,
    query_result_to_share,
)
from gridbridge.shell.clock import Clock
from gridbridge.state.database import StateFile
from gridbridge.state.database.campaign_tables import live_campaign_jobs_at
from gridbridge.state.database.cluster_query_tables import LastClusterQueryResult

Told = TypeVar("Told")
_log = logging.getLogger(__name__)
LIMITS_AGE_S = 600.0  # maximum age of cached limits
LIMITS_RETRY_S = 60.0  # pause after a failed query


class ClusterSnapshotFetcher:
    """Fetches cluster snapshots, or reuses a recent one of another program."""

    def __init__(self, policy: Policy, database: StateFile, clock: Clock, *, is_dry: bool = False) -> None:
        self._policy = policy
        self._database = database
        self._sharing = ClusterSnapshotSharing(database, clock, is_dry=is_dry)
        self._clock = clock
        self.has_read = False  # whether the last call reused another program's snapshot
        self.troubles: dict[str, str] = {}  # error messages of the last call, by cluster
        self.polled = frozenset[str]()  # clusters whose snapshots came from the poller

    def ask(
        self, clusters: Iterable[str], arrays: Iterable[CampaignArray], limit_s: float
    ) -> dict[str, ClusterSnapshot]:
        """Return the clusters' snapshots with our arrays; failed clusters are left out.

        A snapshot of another program may be `limit_s` old. With a limit of 0 each cluster is
        queried.
        """
        submitted = tuple(array for array in arrays if array.job_id)
        names = sorted(frozenset(clusters) & self._policy.clusters.keys())
        # jobs are read after the arrays, so that no array is missing
        sent = {name: live_campaign_jobs_at(self._database, name) for name in names}
        recent = {name: answer for name in names if (answer := self._recent_answer(name, sent[name], limit_s))}
        self.has_read = bool(recent)
        self.polled = frozenset(name for name, answer in recent.items() if answer.is_regular)
        shared_answers = recent | self._ask({name: sent[name] for name in names if name not in recent})
        self.troubles = {name: why for name in shared_answers if (why := shared_answers[name].trouble)}
        for name, why in self.troubles.items():
            _log.warning("event=no_answer cluster=%s why=%r", name, why)
        answers = ((name, shared_answers[name].snapshot) for name in names)
        return {
            name: snapshot_without_foreign_jobs(self._policy, snapshot, submitted)
            for name, snapshot in answers
            if snapshot
        }

    def recent_snapshots(self, clusters: Iterable[str], limit_s: float) -> dict[str, ClusterSnapshot]:
        """Return snapshots that other programs fetched within `limit_s`; query no cluster."""
        answers = {
            name: self._recent_answer(name, live_campaign_jobs_at(self._database, name), limit_s) for name in clusters
        }
        return {name: answer.snapshot for name, answer in answers.items() if answer and answer.snapshot}

    def _recent_answer(self, name: str, sent: CampaignJobsAtCluster, limit_s: float) -> SharedClusterSnapshot | None:
        if not limit_s:
            return None
        return self._sharing.find(name, self._location(name), sent.released, limit_s)

    def _location(self, name: str) -> str:
        return identify_cluster_query(configured_cluster_address(self._policy, name), self._policy.queues_at(name))

    def _ask(self, sent: Mapping[str, CampaignJobsAtCluster]) -> dict[str, SharedClusterSnapshot]:
        """Query clusters in parallel, and share their snapshots with other programs."""
        with ThreadPoolExecutor(max_workers=max(1, len(sent))) as threads:
            answers = dict(zip(sent, threads.map(self._ask_cluster, sent, sent.values()), strict=True))
        with self._database.transaction():
            for name, (_, shared) in answers.items():
                self._sharing.put(name, shared)
        return {name: answer for name, (answer, _) in answers.items()}

    def _ask_cluster(
        self, name: str, sent: CampaignJobsAtCluster
    ) -> tuple[SharedClusterSnapshot, LastClusterQueryResult]:
        where, queues = configured_cluster_address(self._policy, name), self._policy.queues_at(name)
        answer = _query_cluster(where, name, sent, queues)
        location, now = identify_cluster_query(where, queues), self._clock.now()
        return answer, query_result_to_share(answer.snapshot, sent, location, now, trouble=answer.trouble)


def _query_cluster(
    where: Away, name: str, sent: CampaignJobsAtCluster, queues: tuple[str, ...]
) -> SharedClusterSnapshot:
    try:
        snapshot, _ = cluster_status_reader(where).query_cluster_snapshot(where, name, sent.jobs, queues, sent.jobs)
        return SharedClusterSnapshot(snapshot=snapshot)
    except (GridbridgeError, OSError) as error:
        return SharedClusterSnapshot(trouble=describe_error(error))


def query_array_task_ends(
    policy: Policy, indices: Mapping[CampaignArray, Sequence[int]], late: Container[CampaignArray] = ()
) -> dict[CampaignArray, ReportedEnds]:
    """Query each cluster once for ends of array tasks at these indices.

    For arrays in `late` the cluster searches all records since the array's submission. Arrays of a
    cluster that fails to answer are left out: a missing answer is not an end.
    """
    return _of_each_cluster(indices, lambda cluster_arrays: _ends_at(policy, cluster_arrays, indices, late))


def _ends_at(
    policy: Policy,
    arrays: Sequence[CampaignArray],
    indices: Mapping[CampaignArray, Sequence[int]],
    late: Container[CampaignArray],
) -> dict[CampaignArray, ReportedEnds]:
    system, where = _system_of(policy, arrays[0])
    questions = [
        ArrayEndQuery(
            job_id=array.job_id,
            account=array_job_name(policy, array),
            places=indices[array],
            looks_since=array.intended_at if array in late else None,
        )
        for array in arrays
    ]
    try:
        ends = system.query_array_ends(where, questions)
    except GridbridgeError as error:
        _tell_none(arrays[0], error)
        return {}
    return {array: ends.get(array_job_name(policy, array), {}) for array in arrays}


def query_live_task_indices(policy: Policy, arrays: Iterable[CampaignArray]) -> dict[CampaignArray, frozenset[int]]:
    """Query each cluster once for live arrays, with the indices that surely live.

    If a cluster does not answer, all of its tasks count as alive (CampaignArrayEndReader).
    """
    return _of_each_cluster(arrays, lambda cluster_arrays: _living_at(policy, cluster_arrays))


def _living_at(policy: Policy, arrays: Sequence[CampaignArray]) -> dict[CampaignArray, frozenset[int]]:
    system, where = _system_of(policy, arrays[0])
    names = {array.job_id: array_job_name(policy, array) for array in arrays}
    try:
        living = system.query_begun_indices(where, names)
    except GridbridgeError as error:
        _tell_none(arrays[0], error)
        return {array: frozenset(range(1, array.size + 1)) for array in arrays}
    return {array: living[array.job_id] for array in arrays if array.job_id in living}


def _of_each_cluster(
    arrays: Iterable[CampaignArray], ask: Callable[[Sequence[CampaignArray]], Mapping[CampaignArray, Told]]
) -> dict[CampaignArray, Told]:
    """Run a query for each cluster's arrays in parallel, and merge the results."""
    ordered = sorted(arrays, key=lambda array: array.cluster)
    by_cluster = [[*cluster_arrays] for _, cluster_arrays in groupby(ordered, key=lambda array: array.cluster)]
    with ThreadPoolExecutor(max_workers=max(1, len(by_cluster))) as threads:
        answers_by_cluster = threads.map(ask, by_cluster)
        return {array: answer for answers in answers_by_cluster for array, answer in answers.items()}


def _system_of(policy: Policy, array: CampaignArray) -> tuple[CampaignArrayEndReader[Away], Away]:
    """Return the adapter that reports an array's ends, and its cluster's address."""
    where = configured_cluster_address(policy, array.cluster)
    system = batch_adapter_of_cluster(where).array_ends
    assert system  # campaigns use only clusters whose system accepts arrays
    return system, where


def _tell_none(array: CampaignArray, error: GridbridgeError) -> None:
    _log.warning("event=no_ends cluster=%s why=%r", array.cluster, str(error))


class ClusterArrayLimitCache:
    """Caches the array limits that clusters reported."""

    def __init__(self, policy: Policy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._known: dict[str, ClusterArrayLimits] = {}
        self._asks_at_s: dict[str, float] = {}

    def of(self, clusters: Iterable[str]) -> Mapping[str, ClusterArrayLimits]:
        """Return the array limits by cluster; a cluster that reports none is missing.

        The clusters must have answered a query in this cycle.
        """
        now_s = self._clock.steady_s()
        for name in clusters:
            if now_s >= self._asks_at_s.get(name, now_s):
                self._asks_at_s[name] = now_s + (LIMITS_AGE_S if self._ask(name) else LIMITS_RETRY_S)
        return self._known

    def _ask(self, name: str) -> bool:
        """Query one cluster's limits; False if the query failed."""
        where = configured_cluster_address(self._policy, name)
        system = batch_adapter_of_cluster(where).array_ends
        if not system:
            return True
        try:
            self._known[name] = system.query_array_limits(where)
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_limits cluster=%s why=%r", name, describe_error(error))
            return False
        return True
