"""Queries clusters in parallel for snapshots, array ends and live tasks, and counts their slots and campaign tasks."""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import groupby
from math import inf, isfinite
from typing import TypeVar

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, cluster_status_reader
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.batch.optional_adapter_protocols import CampaignArrayEndReader
from gridbridge.campaigns.runner.array_commands_as_owner import (
    array_job_name,
    snapshot_without_foreign_jobs,
)
from gridbridge.decisions.campaigns.attempt_ends import ReportedEnds
from gridbridge.decisions.campaigns.remaining_cluster_capacity import SLOT_KEPT_S
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_sections import ClusterCampaignsSection
from gridbridge.model.campaigns.cycle_plan import NO_LIMITS, ClusterCapacityForCampaigns, ListedCampaignTaskCounts
from gridbridge.model.cluster_snapshot import CampaignJobsAtCluster, ClusterSnapshot, JobListRow
from gridbridge.model.jobs_and_accounting import ArrayEndQuery, ClusterArrayLimits
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_route import Away
from gridbridge.program.cluster_observer import (
    ClusterSnapshotSharing,
    SharedClusterSnapshot,
    identify_cluster_query,
    query_result_to_share,
)
from gridbridge.shell.clock import Clock
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.state.cluster_query_tables import LastClusterQueryResult
from gridbridge.state.state_file import StateFile

Told = TypeVar("Told")
_log = logging.getLogger(__name__)
LIMITS_AGE_S = 600.0  # greatest age of a cluster's array limits in the cache
LIMITS_RETRY_S = 60.0  # pause after a query of array limits failed


class ClusterSnapshotFetcher:
    """Queries clusters for snapshots, or reuses recent snapshots of other programs."""

    def __init__(self, policy: Policy, database: StateFile, clock: Clock, *, is_dry: bool = False) -> None:
        self._policy = policy
        self._database = database
        self._sharing = ClusterSnapshotSharing(database, clock, is_dry=is_dry)
        self._clock = clock
        self.has_read = False  # whether the last call reused another program's snapshot
        self.troubles: dict[str, str] = {}  # error messages of the last call, by cluster
        self.polled = frozenset[str]()  # clusters whose snapshots the poller fetched

    def ask(
        self, clusters: Iterable[str], arrays: Iterable[CampaignArray], limit_s: float
    ) -> dict[str, ClusterSnapshot]:
        """Return a snapshot, with the campaigns' arrays, of each cluster that answers.

        Snapshots of other programs are used up to an age of `limit_s` seconds; 0 means that each cluster is queried.
        """
        submitted = tuple(array for array in arrays if array.job_id)
        names = sorted(frozenset(clusters) & self._policy.clusters.keys())
        # jobs are read after the arrays, so that a new array is not missing
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
        """Return snapshots that other programs fetched within the last `limit_s` seconds; query no cluster."""
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
    """Return the ends of array tasks with these array indices, by one query for each cluster.

    For arrays in `late` the cluster searches all records since the array's submission. Arrays of a cluster that does
    not answer are left out, because a missing answer is not an end.
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
    """Return arrays that still exist, with the indices of tasks that surely exist, by one query for each cluster.

    If a cluster does not answer, all tasks of the cluster's arrays count as existing.
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
    ordered = sorted(arrays, key=lambda array: array.cluster)
    by_cluster = [[*cluster_arrays] for _, cluster_arrays in groupby(ordered, key=lambda array: array.cluster)]
    with ThreadPoolExecutor(max_workers=max(1, len(by_cluster))) as threads:
        answers_by_cluster = threads.map(ask, by_cluster)
        return {array: answer for answers in answers_by_cluster for array, answer in answers.items()}


def _system_of(policy: Policy, array: CampaignArray) -> tuple[CampaignArrayEndReader[Away], Away]:
    where = configured_cluster_address(policy, array.cluster)
    system = batch_adapter_of_cluster(where).array_ends
    assert system  # campaigns use only batch systems that accept arrays
    return system, where


def _tell_none(array: CampaignArray, error: GridbridgeError) -> None:
    _log.warning("event=no_ends cluster=%s why=%r", array.cluster, str(error))


class ClusterArrayLimitCache:
    """Caches each cluster's limits on array jobs."""

    def __init__(self, policy: Policy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._known: dict[str, ClusterArrayLimits] = {}
        self._asks_at_s: dict[str, float] = {}

    def of(self, clusters: Iterable[str]) -> Mapping[str, ClusterArrayLimits]:
        """Return the array limits of clusters; clusters that report no limit are left out.

        The clusters must have answered a query in this cycle.
        """
        now_s = self._clock.steady_s()
        for name in clusters:
            if now_s >= self._asks_at_s.get(name, now_s):
                self._asks_at_s[name] = now_s + (LIMITS_AGE_S if self._ask(name) else LIMITS_RETRY_S)
        return self._known

    def _ask(self, name: str) -> bool:
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


USUAL = ClusterCampaignsSection()
NOT_SAID: Mapping[str, ClusterCampaignsSection] = {}

Answers = Mapping[str, ClusterSnapshot]
Besides = Set[tuple[int, int, int]]


def clusters_accepting_campaign_tasks(campaigns: Iterable[Campaign], waiting: Mapping[int, int]) -> frozenset[str]:
    """Return the clusters that may get unsent tasks or speculative attempts."""
    going = (
        campaign.jdl.clusters
        for campaign in campaigns
        if campaign.state is CampaignState.IN_TREATMENT and (waiting.get(campaign.number) or campaign.jdl.may_be_copied)
    )
    return frozenset(name for clusters in going for name in clusters)


def campaign_capacity_by_cluster(
    policy: Policy,
    answers: Answers,
    stress: Mapping[str, float],
    limits: Mapping[str, ClusterArrayLimits],
    drained: Set[str] = frozenset(),
) -> dict[str, ClusterCapacityForCampaigns]:
    """Return each cluster's capacity for campaigns, from its snapshot, array limits and settings."""
    used = {name: policy.campaigns.get(name, USUAL) for name in answers}
    return {
        name: ClusterCapacityForCampaigns(
            free_slots=snapshot.free_slots,
            besteffort_slots=snapshot.besteffort_slots,
            max_slots=count_usable_slots(snapshot),
            slots=snapshot.batch_slots,
            used=snapshot.used_batch_slots,
            law=used[name].predictor,
            flood_rate=used[name].flood_rate,
            is_stressed=stress.get(name, -inf) >= used[name].stress_limit,
            stress=stress[name] if isfinite(stress.get(name, inf)) else None,
            stress_limit=used[name].stress_limit,
            affinity=used[name].affinity,
            limits=limits.get(name, NO_LIMITS),
            is_drained=name in drained,
        )
        for name, snapshot in answers.items()
    }


def count_usable_slots(snapshot: ClusterSnapshot) -> int:
    """Return the number of slots that accept jobs.

    Best-effort queues do not count, because they offer the slots of other queues.
    """
    working = (
        queue for queue in snapshot.queues if queue.takes_work and not queue.sends_away and not queue.is_besteffort
    )
    return sum(queue.slots_total for queue in working)


def task_indices_in_snapshot(array: CampaignArray, snapshot: ClusterSnapshot) -> frozenset[int]:
    """Return the array indices of the tasks that the cluster's job list shows."""
    return _indices(array, snapshot.jobs.get(array.job_id, ()))


def running_task_indices(array: CampaignArray, snapshot: ClusterSnapshot) -> frozenset[int]:
    """Return the array indices of running tasks, except tasks that are being deleted."""
    rows = snapshot.jobs.get(array.job_id, ())
    return _indices(array, (row for row in rows if row.state.has_begun and not row.state.is_deleting))


def arrays_with_all_tasks_waiting(arrays: Iterable[CampaignArray], answers: Answers) -> frozenset[tuple[int, int]]:
    """Return the arrays whose tasks in the job list are all waiting."""
    rows = {array: answers[array.cluster].jobs.get(array.job_id, ()) for array in arrays}
    return frozenset(
        (array.campaign, array.number)
        for array, listed in rows.items()
        if listed and all(row.state.is_waiting for row in listed)
    )


def _indices(array: CampaignArray, rows: Iterable[JobListRow]) -> frozenset[int]:
    whole = range(1, array.size + 1)
    return frozenset(index for row in rows for indices in row.tasks or (whole,) for index in indices)


def count_listed_tasks_by_cluster(
    arrays: Iterable[CampaignArray],
    answers: Answers,
    now: datetime,
    used: Mapping[str, ClusterCampaignsSection] = NOT_SAID,
) -> tuple[ListedCampaignTaskCounts, ...]:
    """Count waiting, running and held tasks of each campaign in each cluster's job list.

    `used` has the clusters' settings for campaigns.
    """
    by_pair = sorted(arrays, key=lambda array: (array.campaign, array.cluster))
    counted = (
        _count(tuple(pair_arrays), answers[cluster], now, used.get(cluster, USUAL).start_s)
        for (_, cluster), pair_arrays in groupby(by_pair, key=lambda array: (array.campaign, array.cluster))
    )
    return tuple(view for view in counted if view.listed)


def elapsed_seconds_of_running_tasks(
    arrays: Iterable[CampaignArray], answers: Answers, besides: Besides
) -> dict[tuple[int, str], tuple[float, ...]]:
    """Return the elapsed seconds of running tasks, by campaign and cluster.

    A task counts once, by the last attempt; `besides` has (campaign, array, index) of the attempts that do not count.
    """
    durations: dict[tuple[int, str], list[float]] = {}
    for array in arrays:
        snapshot = answers[array.cluster]
        times = durations.setdefault((array.campaign, array.cluster), [])
        times += (
            max(0.0, (snapshot.taken_at - row.since).total_seconds())
            for row in snapshot.jobs.get(array.job_id, ())
            if row.since and row.state.has_begun and (array.campaign, array.number, row.task) not in besides
        )
    return {pair: tuple(times) for pair, times in durations.items()}


def _count(
    arrays: tuple[CampaignArray, ...], snapshot: ClusterSnapshot, now: datetime, start_s: float
) -> ListedCampaignTaskCounts:
    rows = [(array, row) for array in arrays for row in snapshot.jobs.get(array.job_id, ())]
    waiting = [(array, row) for array, row in rows if row.state.is_waiting]
    able = [((now - array.intended_at).total_seconds(), row) for array, row in waiting if row.state.can_start]
    running = [row for _, row in rows if row.state.has_begun]
    return ListedCampaignTaskCounts(
        campaign=arrays[0].campaign,
        cluster=arrays[0].cluster,
        waiting=_tasks(row for _, row in waiting),
        listed=_tasks(row for _, row in rows),
        fresh=_tasks(row for age_s, row in able if age_s < start_s),
        held=_tasks(row for _, row in waiting if not row.state.can_start),
        old=_tasks(row for age_s, row in able if age_s > SLOT_KEPT_S),
        slots=sum(row.slots for row in running) / len(running) if running else 0.0,
    )


def _tasks(rows: Iterable[JobListRow]) -> int:
    return sum(row.task_count for row in rows)
