"""Gathers the input of nikita's decisions: campaign tasks, blocked local jobs, and clock jumps."""

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.campaigns.runner.owner_requests import CampaignOwnerRequestHandler, Do, execute_owner_request
from gridbridge.campaigns.store import campaign_files_of_owners, campaign_inbox
from gridbridge.campaigns.store.campaign_task_rows import DeletionMarksByArray, LocalJobPreemptionRows
from gridbridge.decisions.campaigns import preemption_for_local_jobs
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.campaigns import task_deletions_and_preemptions as deletions
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, CampaignCluster, CampaignState
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.cluster_snapshot import ClusterJobListRow, ClusterSnapshot
from gridbridge.model.fixed_paths import CAMPAIGNS, PUBLISHED, RUNNER_LOCK
from gridbridge.model.host_clocks import ClockJump, shift_past_time_by_clock_jumps
from gridbridge.model.site_configuration import Policy
from gridbridge.program.cluster_observer import unexpected_answer_as_error
from gridbridge.shell import program_lock_file
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile

TO_GO = (
    *deletions.REASONS_IF_STILL_WAITING,
    *deletions.REASONS_HELD_FIRST,
    deletions.NikitaDeletionReason.UNWANTED,
)  # for these reasons held tasks are deleted, too, because nikita may have held them
KEPT = timedelta(days=7)  # preemptions for local jobs are forgotten after this time
_log = logging.getLogger(__name__)


def campaign_tasks_in_snapshots(
    arrays: Iterable[CampaignArray],
    answers: Mapping[str, ClusterSnapshot],
    campaigns: Mapping[int, Campaign],
    marks: DeletionMarksByArray,
    leaps: Iterable[ClockJump] = (),
    steps: Container[tuple[int, int]] = (),
    waiting_for_night: Container[CampaignCluster] = (),
) -> Iterator[deletions.ArrayTasksWithSameStateAndAge]:
    """Yield the campaign tasks that wait or run at clusters that answered.

    Left out are tasks that are being deleted, and prologues and epilogues (`steps`) that wait and have no mark.
    `waiting_for_night` has the campaigns and clusters whose nightly tasks may not start now.
    """
    jumps = tuple(leaps)
    for array in arrays:
        campaign = campaigns.get(array.campaign)
        if campaign is None:
            continue
        of_array = marks.get(array.campaign_and_array_number, {})
        for row in answers[array.cluster].jobs.get(array.job_id, ()):
            is_kept = row.state.is_waiting and array.campaign_and_array_number in steps
            if not is_kept and (since := _time_since_tasks_wait_or_run(array, row, campaign)):
                since = shift_past_time_by_clock_jumps(since, jumps)
                may_start = (array.campaign, array.cluster) not in waiting_for_night
                for part in _split_job_list_row_by_deletion_mark(array, campaign, row, since, of_array):
                    yield replace(part, may_start=may_start)
            elif of_array and (is_kept or row.state.is_put_back or (row.state.is_waiting and row.state.is_held)):
                split = _split_job_list_row_by_deletion_mark(array, campaign, row, array.intended_at, of_array)
                yield from (part for part in split if part.marked in TO_GO)


def _time_since_tasks_wait_or_run(array: CampaignArray, row: ClusterJobListRow, campaign: Campaign) -> datetime | None:
    """Return when waiting tasks were submitted, or running tasks started; None if nikita keeps the tasks."""
    if campaign.state is CampaignState.CANCELLED and not row.state.is_deleting:
        return array.intended_at
    if row.state.is_deleting or row.state.is_put_back:
        return None
    if row.state.is_waiting:
        return None if row.state.is_held else array.intended_at
    if row.state.is_running and row.since:
        return max(row.since, array.intended_at)
    return None


def _split_job_list_row_by_deletion_mark(
    array: CampaignArray,
    campaign: Campaign,
    row: ClusterJobListRow,
    since: datetime,
    marks: Mapping[int, deletions.TaskDeletionMark],
) -> Iterator[deletions.ArrayTasksWithSameStateAndAge]:
    by_mark: dict[deletions.NikitaDeletionReason | None, list[range]] = {}
    for task_range in row.tasks or (range(1, array.size + 1),):
        for wiped_for, indices in _group_array_indices_by_deletion_mark(task_range, marks):
            by_mark.setdefault(wiped_for, []).append(indices)
    for marked, ranges in by_mark.items():
        yield deletions.ArrayTasksWithSameStateAndAge(
            campaign=array.campaign,
            array=array.number,
            cluster=array.cluster,
            places=tuple(ranges),
            since=since,
            is_waiting=row.state.is_waiting,
            walltime_s=_walltime_of_array_s(campaign, array),
            is_test=campaign.jdl.type is CampaignType.TEST,
            slots=campaign.jdl.clusters[array.cluster].slots,
            marked=marked,
            is_cancelled=campaign.state is CampaignState.CANCELLED,
        )


def _walltime_of_array_s(campaign: Campaign, array: CampaignArray) -> int:
    request = campaign.jdl.clusters[array.cluster]
    if array.size > 1 or not (request.prologue or request.epilogue):
        return request.walltime_s
    return max(request.walltime_s, request.prologue_walltime_s, request.epilogue_walltime_s)


def _group_array_indices_by_deletion_mark(
    indices: range, marks: Mapping[int, deletions.TaskDeletionMark]
) -> Iterator[tuple[deletions.NikitaDeletionReason | None, range]]:
    if not marks:
        yield None, indices
        return
    reasons = ((marks[index].wiped_for if index in marks else None) for index in indices)
    for wiped_for, group in groupby(zip(reasons, indices, strict=True), key=lambda pair: pair[0]):
        run = [index for _, index in group]
        yield wiped_for, range(run[0], run[-1] + 1)


class BlockedLocalJobFinder:
    def __init__(self, policy: Policy, ways: LocalJobPreemptionRows, clock: Clock) -> None:
        self._policy = policy
        self._ways = ways
        self._clock = clock
        self._ours: dict[str, dict[int, deletions.CampaignArrayJob]] = {}

    def find_blocked_jobs(
        self,
        arrays: Iterable[CampaignArray],
        answers: Mapping[str, ClusterSnapshot],
        marks: DeletionMarksByArray,
        cancelled: Set[int],
    ) -> tuple[deletions.LocalRequestBlockedByCampaigns, ...]:
        self._ours = {name: {} for name, snapshot in answers.items() if snapshot.pending}
        for array in arrays:
            snapshot = answers[array.cluster]
            queues = {queue.name for queue in snapshot.queues if queue.is_besteffort}
            if snapshot.pending and any(row.queue in queues for row in snapshot.jobs.get(array.job_id, ())):
                self._ours[array.cluster][array.job_id] = deletions.CampaignArrayJob(
                    campaign=array.campaign,
                    array=array.number,
                    ending=frozenset(marks.get(array.campaign_and_array_number, ())),
                    is_ending=array.campaign in cancelled,
                )
        now = self._clock.now()
        history = self._ways.preemption_times_by_job(now - KEPT)
        recent = preemption_for_local_jobs.requests_with_recent_preemption(history, now)
        crowded = (name for name, ours in self._ours.items() if ours)
        return tuple(request for name in crowded for request in self._blocked_jobs_at_cluster(name, recent))

    def _blocked_jobs_at_cluster(
        self, cluster: str, recent: Set[deletions.LocalRequestId]
    ) -> Iterator[deletions.LocalRequestBlockedByCampaigns]:
        cell = self._query_blocked_local_jobs(cluster)
        for request in preemption_for_local_jobs.find_blocked_local_requests(
            cluster, cell, self._ours[cluster], recent
        ):
            where = configured_cluster_access(self._policy, cluster)
            shows = batch_adapter_of_cluster(where).shows_crowd
            try:
                with unexpected_answer_as_error(cluster):
                    names = shows.query_instances_able_to_run_job(where, request.asked) if shows else frozenset()
            except (GridbridgeError, OSError) as error:
                _log.warning("event=no_requests cluster=%s why=%r", cluster, describe_error(error))
                continue
            if hosts := tuple(host for host in request.places if host.name in names):
                yield replace(request, places=hosts)

    def recompute_preemption(
        self, way: deletions.TasksPreemptedForRequest
    ) -> deletions.TasksPreemptedForRequest | None:
        """Query the cluster again; return the preemption that is still needed, or None if none is needed."""
        cell = self._query_blocked_local_jobs(way.cluster)
        return preemption_for_local_jobs.recompute_preemption(way, cell, self._ours[way.cluster])

    def _query_blocked_local_jobs(self, cluster: str) -> deletions.CellRequestsAndResources:
        where = configured_cluster_access(self._policy, cluster)
        try:
            with unexpected_answer_as_error(cluster):
                if shows := batch_adapter_of_cluster(where).shows_crowd:
                    return shows.query_blocked_jobs(where)
        except (GridbridgeError, OSError) as error:
            _log.warning("event=no_requests cluster=%s why=%r", cluster, describe_error(error))
        return deletions.CellRequestsAndResources()


def execute_cancel_requests(
    database: StateFile, clock: Clock, folder: str = CAMPAIGNS, published: str = PUBLISHED, runners: str = RUNNER_LOCK
) -> int:
    """Execute requests to cancel campaigns if no runner is running; return how many were executed."""
    names, verb = campaign_inbox.list_inbox_files_of_all_users(folder), CampaignOwnerRequestVerb.CANCEL
    listed = campaign_files_of_owners.list_request_files_of_verb(names, verb, folder)
    if not listed:
        return 0
    does: dict[CampaignOwnerRequestVerb, Do] = {
        verb: CampaignOwnerRequestHandler(database, clock, folder, published).execute_request
    }
    done = 0
    with program_lock_file.MomentaryProgramLock(runners) as is_ours:
        for request in campaign_files_of_owners.take_owner_requests(listed, folder) if is_ours else ():
            try:
                done += execute_owner_request(request, does, folder, published)
            except Exception as error:
                _log.warning("event=not_taken_now token=%s why=%r", request.token, describe_error(error))
    return done
