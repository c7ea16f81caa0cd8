"""Queries clusters for snapshots, ended and live tasks, and counts slots and campaign tasks."""

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import groupby
from math import inf, isfinite
from typing import TypeVar

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, cluster_status_reader
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.batch.optional_adapter_protocols import CampaignArrayEndReader
from gridbridge.campaigns.runner.array_commands_as_owner import array_job_name, snapshot_without_foreign_jobs
from gridbridge.decisions.campaigns.nightly_task_starts import list_next_nights
from gridbridge.decisions.campaigns.remaining_cluster_capacity import SLOT_KEPT_S, round_down
from gridbridge.decisions.campaigns.task_attempt_outcomes import ReportedEnds
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import ClusterCampaignsSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    NO_LIMITS,
    CampaignTaskCountsAtCluster,
    ClusterCapacityForCampaigns,
)
from gridbridge.model.campaigns.file_server_load import FileServerRule
from gridbridge.model.campaigns.nights import Night, parse_weekly_nights
from gridbridge.model.cluster_snapshot import CampaignJobsSentBeforeListing, ClusterJobListRow, ClusterSnapshot
from gridbridge.model.jobs_and_accounting import ArrayEndQuery, ClusterArrayLimits
from gridbridge.model.rebalance.rebalance_section import StorageAreaSection
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer_route import AnyClusterAccessSettings
from gridbridge.program.cluster_observer import (
    ClusterSnapshotSharing,
    SharedClusterSnapshot,
    identify_cluster_query,
    query_result_to_share,
    unexpected_answer_as_error,
)
from gridbridge.shell.clock import Clock, time_zone_named
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.state.cluster_query_tables import LastClusterQueryResult
from gridbridge.state.state_file import StateFile

Told = TypeVar("Told")
_log = logging.getLogger(__name__)


class ClusterSnapshotFetcher:
    """Fetches snapshots of clusters, or reuses recent snapshots that other programs fetched."""

    def __init__(self, policy: Policy, database: StateFile, clock: Clock, *, is_dry: bool = False) -> None:
        self._policy = policy
        self._database = database
        self._sharing = ClusterSnapshotSharing(database, clock, is_dry=is_dry)
        self._clock = clock
        self.has_read = False  # whether the last call reused another program's snapshot
        self.troubles: dict[str, str] = {}  # error message of each cluster that did not answer the last call
        self.polled = frozenset[str]()  # clusters whose snapshots the poller fetched

    def fetch_snapshots(
        self, clusters: Iterable[str], arrays: Iterable[CampaignArray], limit_s: float
    ) -> dict[str, ClusterSnapshot]:
        """Return a snapshot of each cluster that answers; reused snapshots are at most `limit_s` seconds old."""
        submitted = tuple(array for array in arrays if array.job_id)
        names = sorted(frozenset(clusters) & self._policy.clusters.keys())
        # live jobs are read after the arrays, so that no live job of a new array is missing
        sent = {name: live_campaign_jobs_at(self._database, name) for name in names}
        recent = self._recent_shared_snapshots(sent, limit_s)
        self.has_read = bool(recent)
        self.polled = frozenset(name for name, answer in recent.items() if answer.is_regular)
        queried = self._query_and_share_snapshots({name: sent[name] for name in names if name not in recent})
        shared_answers = recent | queried
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
        sent = {name: live_campaign_jobs_at(self._database, name) for name in clusters}
        answers = self._recent_shared_snapshots(sent, limit_s)
        return {name: answer.snapshot for name, answer in answers.items() if answer.snapshot}

    def _recent_shared_snapshots(
        self, sent_jobs: Mapping[str, CampaignJobsSentBeforeListing], limit_s: float
    ) -> dict[str, SharedClusterSnapshot]:
        answers = {}
        for name, jobs in sent_jobs.items() if limit_s else ():
            where, queues = (
                configured_cluster_access(self._policy, name),
                self._policy.transfer_queues_of_cluster(name),
            )
            if answer := self._sharing.find_recent_snapshot(
                name, identify_cluster_query(where, queues), jobs.released, limit_s
            ):
                answers[name] = answer
        return answers

    def _query_and_share_snapshots(
        self, sent_jobs: Mapping[str, CampaignJobsSentBeforeListing]
    ) -> dict[str, SharedClusterSnapshot]:
        with ThreadPoolExecutor(max_workers=max(1, len(sent_jobs))) as threads:
            answers = dict(
                zip(sent_jobs, threads.map(self._query_cluster_snapshot, sent_jobs, sent_jobs.values()), strict=True)
            )
        with self._database.transaction():
            for name, (_, shared) in answers.items():
                self._sharing.share_query_result(name, shared)
        return {name: answer for name, (answer, _) in answers.items()}

    def _query_cluster_snapshot(
        self, name: str, sent_jobs: CampaignJobsSentBeforeListing
    ) -> tuple[SharedClusterSnapshot, LastClusterQueryResult]:
        where, queues = configured_cluster_access(self._policy, name), self._policy.transfer_queues_of_cluster(name)
        try:
            with unexpected_answer_as_error(name):
                query = cluster_status_reader(where).query_cluster_snapshot
                answer = SharedClusterSnapshot(snapshot=query(where, name, sent_jobs.jobs, queues, sent_jobs.jobs)[0])
        except (GridbridgeError, OSError) as error:
            answer = SharedClusterSnapshot(trouble=describe_error(error))
        location, now = identify_cluster_query(where, queues), self._clock.now()
        return answer, query_result_to_share(answer.snapshot, sent_jobs, location, now, trouble=answer.trouble)


def query_array_task_ends(
    policy: Policy, indices: Mapping[CampaignArray, Sequence[int]], late_arrays: Container[CampaignArray] = ()
) -> dict[CampaignArray, ReportedEnds]:
    """Return how array tasks ended; for arrays in `late_arrays` search all accounting records since submission."""

    def query_ends_at_cluster(
        system: CampaignArrayEndReader[AnyClusterAccessSettings],
        access: AnyClusterAccessSettings,
        arrays: Sequence[CampaignArray],
    ) -> dict[CampaignArray, ReportedEnds]:
        questions = [
            ArrayEndQuery(
                job_id=array.job_id,
                account=array_job_name(policy, array),
                places=indices[array],
                looks_since=array.intended_at if array in late_arrays else None,
            )
            for array in arrays
        ]
        ends = system.query_array_ends(access, questions)
        return {array: ends.get(array_job_name(policy, array), {}) for array in arrays}

    return _query_arrays_by_cluster(policy, indices, query_ends_at_cluster, lambda _: {})


def query_live_task_indices(policy: Policy, arrays: Iterable[CampaignArray]) -> dict[CampaignArray, frozenset[int]]:
    """Return the indices of live tasks of each existing array; all indices if the cluster is silent."""

    def query_live_indices_at_cluster(
        system: CampaignArrayEndReader[AnyClusterAccessSettings],
        access: AnyClusterAccessSettings,
        arrays: Sequence[CampaignArray],
    ) -> dict[CampaignArray, frozenset[int]]:
        living = system.query_begun_indices(access, {array.job_id: array_job_name(policy, array) for array in arrays})
        return {array: living[array.job_id] for array in arrays if array.job_id in living}

    def all_indices_of_arrays(arrays: Sequence[CampaignArray]) -> dict[CampaignArray, frozenset[int]]:
        return {array: frozenset(range(1, array.size + 1)) for array in arrays}

    return _query_arrays_by_cluster(policy, arrays, query_live_indices_at_cluster, all_indices_of_arrays)


def _query_arrays_by_cluster(
    policy: Policy,
    arrays: Iterable[CampaignArray],
    query: Callable[
        [CampaignArrayEndReader[AnyClusterAccessSettings], AnyClusterAccessSettings, Sequence[CampaignArray]],
        dict[CampaignArray, Told],
    ],
    without_answer: Callable[[Sequence[CampaignArray]], dict[CampaignArray, Told]],
) -> dict[CampaignArray, Told]:
    by_cluster: dict[str, list[CampaignArray]] = {}
    for array in arrays:
        by_cluster.setdefault(array.cluster, []).append(array)

    def query_arrays_at_cluster(name: str) -> dict[CampaignArray, Told]:
        where = configured_cluster_access(policy, name)
        system = batch_adapter_of_cluster(where).array_ends
        assert system  # campaigns use only batch systems that accept arrays
        try:
            with unexpected_answer_as_error(name):
                return query(system, where, by_cluster[name])
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_ends cluster=%s why=%r", name, describe_error(error))
            return without_answer(by_cluster[name])

    with ThreadPoolExecutor(max_workers=max(1, len(by_cluster))) as threads:
        return {
            array: told
            for answers in threads.map(query_arrays_at_cluster, by_cluster)
            for array, told in answers.items()
        }


class ClusterArrayLimitCache:
    def __init__(self, policy: Policy, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._known: dict[str, ClusterArrayLimits] = {}
        self._asks_at_s: dict[str, float] = {}

    def limits_of_clusters(self, clusters: Iterable[str]) -> Mapping[str, ClusterArrayLimits]:
        """Return the array limits that clusters report; the clusters must have answered in this cycle."""
        now_s = self._clock.steady_s()
        for name in clusters:
            if now_s >= self._asks_at_s.get(name, now_s):
                self._asks_at_s[name] = now_s + (600.0 if self._query_array_limits_of_cluster(name) else 60.0)
        return self._known

    def _query_array_limits_of_cluster(self, name: str) -> bool:
        where = configured_cluster_access(self._policy, name)
        try:
            with unexpected_answer_as_error(name):
                if system := batch_adapter_of_cluster(where).array_ends:
                    self._known[name] = system.query_array_limits(where)
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_limits cluster=%s why=%r", name, describe_error(error))
            return False
        return True


USUAL = ClusterCampaignsSection()
NOT_SAID: Mapping[str, ClusterCampaignsSection] = {}

Answers = Mapping[str, ClusterSnapshot]


def clusters_accepting_campaign_tasks(campaigns: Iterable[Campaign], waiting: Mapping[int, int]) -> frozenset[str]:
    going = (campaign for campaign in campaigns if campaign.state is CampaignState.IN_TREATMENT)
    open_ones = (
        campaign for campaign in going if waiting.get(campaign.number) or campaign.jdl.allows_speculative_attempts
    )
    return frozenset(name for campaign in open_ones for name in campaign.jdl.clusters)


def campaign_capacity_by_cluster(
    policy: Policy,
    answers: Answers,
    stress: Mapping[str, float],
    limits: Mapping[str, ClusterArrayLimits],
    drained: Set[str] = frozenset(),
) -> dict[str, ClusterCapacityForCampaigns]:
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
            inputs_ahead_bytes=used[name].inputs_ahead_mb * 1e6,
            semi_slots=round_down(count_usable_slots(snapshot) * used[name].semi_share),
        )
        for name, snapshot in answers.items()
    }


def next_nights_by_cluster(
    campaigns: Iterable[Campaign], sections: Mapping[str, ClusterCampaignsSection], now: datetime
) -> dict[str, tuple[Night, ...]]:
    """Return the next nights of each cluster that may run nightly tasks."""
    requests = (item for campaign in campaigns for item in campaign.jdl.clusters.items())
    names = {name for name, request in requests if request.is_nightly}
    used = {name: sections.get(name, USUAL) for name in sorted(names)}
    return {
        name: list_next_nights(parse_weekly_nights(section.nights), time_zone_named(section.time_zone), now)
        for name, section in used.items()
    }


def file_server_rule(storage: str, area: StorageAreaSection) -> FileServerRule:
    return FileServerRule(
        storage=storage,
        clusters=tuple(area.paths_by_cluster),
        max_jobs=area.max_jobs,
        has_load=bool(area.load_command),
        target=area.load_target,
        gain=area.load_gain,
        integral_s=area.load_integral_s,
        step=area.load_step,
        keep_s=area.load_keep_s,
    )


def count_usable_slots(snapshot: ClusterSnapshot) -> int:
    """Count slots that accept jobs, except slots of transfer queues and best-effort queues."""
    queues = (queue for queue in snapshot.queues if queue.can_start_batch_jobs)
    return sum(queue.slots_total for queue in queues if not queue.sends_away and not queue.is_besteffort)


def task_indices_in_snapshot(
    array: CampaignArray, snapshot: ClusterSnapshot, *, only_running: bool = False
) -> frozenset[int]:
    """Return the array indices of listed tasks; `only_running` leaves out waiting and deleted tasks."""
    rows = snapshot.jobs.get(array.job_id, ())
    chosen = (row for row in rows if not only_running or (row.state.has_begun and not row.state.is_deleting))
    whole = range(1, array.size + 1)
    return frozenset(index for row in chosen for indices in row.tasks or (whole,) for index in indices)


def arrays_with_all_tasks_waiting(arrays: Iterable[CampaignArray], answers: Answers) -> frozenset[tuple[int, int]]:
    """Return (campaign, array) of each array whose tasks in the job list all wait."""
    rows = {array.campaign_and_array_number: answers[array.cluster].jobs.get(array.job_id, ()) for array in arrays}
    return frozenset(key for key, listed in rows.items() if listed and all(row.state.is_waiting for row in listed))


def count_listed_tasks_by_cluster(
    arrays: Iterable[CampaignArray],
    answers: Answers,
    now: datetime,
    used: Mapping[str, ClusterCampaignsSection] = NOT_SAID,
) -> tuple[CampaignTaskCountsAtCluster, ...]:
    by_pair = sorted(arrays, key=lambda array: (array.campaign, array.cluster))
    counted = (
        _count_tasks_of_arrays(tuple(pair_arrays), answers[cluster], now, used.get(cluster, USUAL).start_s)
        for (_, cluster), pair_arrays in groupby(by_pair, key=lambda array: (array.campaign, array.cluster))
    )
    return tuple(view for view in counted if view.listed)


def elapsed_seconds_of_running_tasks(
    arrays: Iterable[CampaignArray], answers: Answers, besides: Set[tuple[int, int, int]]
) -> dict[tuple[int, str], tuple[float, ...]]:
    """Return {(campaign, cluster): elapsed seconds of running attempts}, without attempts in `besides`."""
    durations: dict[tuple[int, str], list[float]] = {}
    for array in arrays:
        snapshot = answers[array.cluster]
        times = durations.setdefault((array.campaign, array.cluster), [])
        times += (
            max(0.0, (snapshot.taken_at - row.since).total_seconds())
            for row in snapshot.jobs.get(array.job_id, ())
            if row.since
            and row.state.has_begun
            and (array.campaign, array.number, row.single_task_number) not in besides
        )
    return {pair: tuple(times) for pair, times in durations.items()}


def _count_tasks_of_arrays(
    arrays: tuple[CampaignArray, ...], snapshot: ClusterSnapshot, now: datetime, start_s: float
) -> CampaignTaskCountsAtCluster:
    rows = [(array, row) for array in arrays for row in snapshot.jobs.get(array.job_id, ())]
    waiting = [(array, row) for array, row in rows if row.state.is_waiting]
    able = [((now - array.intended_at).total_seconds(), row) for array, row in waiting if row.state.can_start]
    running = [row for _, row in rows if row.state.has_begun]
    return CampaignTaskCountsAtCluster(
        campaign=arrays[0].campaign,
        cluster=arrays[0].cluster,
        waiting=_sum_listed_task_counts(row for _, row in waiting),
        listed=_sum_listed_task_counts(row for _, row in rows),
        fresh=_sum_listed_task_counts(row for age_s, row in able if age_s < start_s),
        held=_sum_listed_task_counts(row for _, row in waiting if not row.state.can_start),
        old=_sum_listed_task_counts(row for age_s, row in able if age_s > SLOT_KEPT_S),
        slots=sum(row.slots for row in running) / len(running) if running else 0.0,
        ordinary=_sum_listed_task_counts(row for array, row in rows if array.is_ordinary),
    )


def _sum_listed_task_counts(rows: Iterable[ClusterJobListRow]) -> int:
    return sum(row.task_count for row in rows)
