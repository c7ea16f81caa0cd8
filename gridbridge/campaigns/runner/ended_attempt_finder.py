"""Finds ended attempts of campaigns' tasks: attempts that job lists lack, and whose ends records or rules tell."""

import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from gridbridge.campaigns.runner import cluster_queries_and_capacities as queries
from gridbridge.campaigns.runner.background_readings import RecordsOfEndedJobs
from gridbridge.campaigns.runner.checkpoints_of_lost_attempts import CheckpointsOfLostAttempts
from gridbridge.campaigns.runner.missing_and_straggling_attempts import MissingAttemptTracker
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import RootLedgerStateComparison
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.decisions.campaigns import task_attempt_outcomes
from gridbridge.decisions.campaigns.grouped_task_ends import has_begun_a_task
from gridbridge.model.campaigns.campaign import (
    AttemptOutcomeAtCluster,
    Campaign,
    CampaignArray,
    TaskAttempt,
    TaskAttemptOutcome,
)
from gridbridge.model.campaigns.grouped_tasks import JobRecord
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.clock import Clock

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlistedArrayAttempts:
    array: CampaignArray
    missing: Mapping[TaskAttempt, float]  # seconds since the job list last showed each attempt
    pending: int  # number of unfinished attempts
    is_listed: bool  # whether the job list shows any task of the array


class EndedAttemptFinder:
    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        campaigns: CampaignRows,
        tries: TaskAttemptRows,
        *,
        limits: queries.ClusterArrayLimitCache,
        missing: MissingAttemptTracker,
        restored: RootLedgerStateComparison,
        checkpoints: CheckpointsOfLostAttempts | None,
        records: RecordsOfEndedJobs | None,
    ) -> None:
        """Without `checkpoints` no checkpoint is read; without `records` jobs of several tasks never end."""
        self._policy = policy
        self._clock = clock
        self._campaigns = campaigns
        self._tries = tries
        self._limits = limits
        self.missing = missing
        self.restored = restored
        self._checkpoints = checkpoints
        self._records = records
        self.disputed: list[AttemptOutcomeAtCluster] = []  # attempts whose records contradict each other
        self._told: set[tuple[int, int, int]] = set()  # (campaign, array, index) whose contradictions were logged
        self._searched: set[TaskAttempt] = set()  # attempts for which all accounting records were searched
        self._fast: set[tuple[str, str]] = set()  # (cluster, host) whose fast clock was logged

    def find_ended_attempts(
        self,
        arrays: Iterable[CampaignArray],
        answers: dict[str, ClusterSnapshot],
        judge: task_attempt_outcomes.MissingAttemptOutcomeDecider,
        campaigns: Iterable[Campaign] = (),
    ) -> tuple[tuple[TaskAttempt, ...], tuple[CampaignArray, ...]]:
        self.missing.load_missing_tasks()
        self.restored.forget_ledger_comparisons()
        looks = [*filter(None, (self._find_unlisted_attempts(array, answers[array.cluster]) for array in arrays))]
        by_array = {look.array: look for look in looks}
        indices = self._indices_of_missing_tasks_to_query(looks, judge)
        reported = self._query_ends_of_missing_tasks(looks, indices)
        missing = {
            look.array: {at: for_s for at, for_s in look.missing.items() if at.place in indices[look.array]}
            for look in looks
            if look.array in reported
        }
        ends = {
            array: judge.filter_believed_job_ends(array, absent, reported[array]) for array, absent in missing.items()
        }
        living = self._query_live_tasks(
            array for array, absent in missing.items() if judge.list_attempts_missing_too_long(absent, ends[array])
        )
        counted: dict[CampaignArray, tuple[TaskAttempt, ...]] = {}
        self.disputed.clear()
        owners = {campaign.number: campaign.uid for campaign in campaigns}
        grouped = {array: absent for array, absent in missing.items() if array.group_tasks > 1}
        ended_jobs = {array: _ended_jobs_by_index(judge, absent, ends[array]) for array, absent in grouped.items()}
        records = self._take_job_records(ended_jobs, owners)
        for array, absent in missing.items():
            self._log_contradictory_ends(
                array.cluster, task_attempt_outcomes.select_attempts_with_conflicting_ends(absent, ends[array])
            )
            self._log_future_ends(array.cluster, reported[array])
            missing_array = task_attempt_outcomes.ArrayWithMissingTasks(
                is_listed=by_array[array].is_listed,
                lives=living.get(array),
                ran=self.missing.indices_of_started_tasks(array),
                sent_s=(self._clock.now() - array.intended_at).total_seconds(),
                records=records.get(array, {}) if array in grouped else None,
            )
            attempts = judge.list_ended_attempts(array, absent, ends[array], missing_array)
            # ends are dropped, because a restored state file may lack the marks of deleted tasks
            is_dropped = judge.may_lack_deletion_marks(array, attempts) and not self.restored.may_record_task_ends(
                array.campaign
            )
            counted[array] = () if is_dropped else attempts
        if self._checkpoints:
            counted = self._checkpoints.select_recordable_ends(counted, campaigns)
        return self._select_recordable_ends(looks, counted)

    def _take_job_records(
        self, ended: Mapping[CampaignArray, Mapping[int, bool]], owners: Mapping[int, int]
    ) -> Mapping[CampaignArray, Mapping[int, JobRecord | None]]:
        of_owners = {array: jobs for array, jobs in ended.items() if array.campaign in owners}
        return self._records.take_job_records(of_owners, owners) if self._records else {}

    def _select_recordable_ends(
        self, looks: Iterable[UnlistedArrayAttempts], counted: Mapping[CampaignArray, tuple[TaskAttempt, ...]]
    ) -> tuple[tuple[TaskAttempt, ...], tuple[CampaignArray, ...]]:
        ended: list[TaskAttempt] = []
        over: list[CampaignArray] = []
        for look in looks:
            is_behind = look.array.campaign in self.restored.behind
            attempts = () if is_behind else counted.get(look.array, ())
            self.missing.update_missing_tasks(look.missing, attempts)
            ended += attempts
            over += [look.array] if len(attempts) == look.pending else []
        return tuple(ended), tuple(over)

    def _indices_of_missing_tasks_to_query(
        self, looks: Iterable[UnlistedArrayAttempts], judge: task_attempt_outcomes.MissingAttemptOutcomeDecider
    ) -> dict[CampaignArray, tuple[int, ...]]:
        missing = [look for look in looks if look.missing]
        within_s = self._accounting_delays_by_cluster({look.array.cluster for look in missing})
        indices: dict[CampaignArray, tuple[int, ...]] = {}
        for look in missing:
            least_s, left = within_s[look.array.cluster], judge.list_tasks_deleted_while_held(look.array)
            if due := {at.place for at, for_s in look.missing.items() if for_s >= least_s or at.place in left}:
                indices[look.array] = tuple(sorted(due))
        return indices

    def _accounting_delays_by_cluster(self, clusters: Set[str]) -> dict[str, float]:
        limits = self._limits.limits_of_clusters(clusters)
        usual_s = 15.0  # Grid Engine usually writes an accounting record within this time
        return {name: limits[name].told_within_s if name in limits else usual_s for name in clusters}

    def _query_ends_of_missing_tasks(
        self, looks: Iterable[UnlistedArrayAttempts], indices: Mapping[CampaignArray, Sequence[int]]
    ) -> dict[CampaignArray, task_attempt_outcomes.ReportedEnds]:
        """Query how missing tasks ended; search all accounting records once before a task counts as lost."""
        most_s = self._policy.runner.forgotten_s
        late = {
            look.array: {attempt for attempt, for_s in look.missing.items() if for_s > most_s}
            for look in looks
            if look.array in indices
        }
        self._searched &= {attempt for attempts in late.values() for attempt in attempts}
        unread = {array for array, attempts in late.items() if attempts - self._searched}
        ends = self._query_task_ends(indices, unread)
        self._searched.update(*(late[array] for array in unread & ends.keys()))
        return ends

    def _query_task_ends(
        self, indices: Mapping[CampaignArray, Sequence[int]], late_arrays: Container[CampaignArray]
    ) -> dict[CampaignArray, task_attempt_outcomes.ReportedEnds]:
        return queries.query_array_task_ends(self._policy, indices, late_arrays)

    def _query_live_tasks(self, arrays: Iterable[CampaignArray]) -> dict[CampaignArray, frozenset[int]]:
        return queries.query_live_task_indices(self._policy, arrays)

    def _find_unlisted_attempts(self, array: CampaignArray, snapshot: ClusterSnapshot) -> UnlistedArrayAttempts | None:
        listed = queries.task_indices_in_snapshot(array, snapshot)
        running = queries.task_indices_in_snapshot(array, snapshot, only_running=True)
        self.missing.record_listed_tasks(array, listed, running)
        if len(listed) == array.size:
            return None
        pending = self._tries.unfinished_indices(array)
        unlisted = self._tries.unfinished_attempts_at(array, pending.keys() - listed)
        missing = self.missing.missing_seconds_by_attempt(unlisted)
        return UnlistedArrayAttempts(array=array, missing=missing, pending=pending.total(), is_listed=bool(listed))

    def close_attempts_at_lost_clusters(self, arrays: Iterable[CampaignArray]) -> Iterator[TaskAttempt]:
        for array in arrays:
            yield from task_attempt_outcomes.close_attempts_without_end(
                self._campaigns.unfinished_attempts(array), TaskAttemptOutcome.SITE_FAULT
            )

    def _log_contradictory_ends(self, cluster: str, attempts: Iterable[TaskAttempt]) -> None:
        """Log each task with contradicting accounting records once; a record may be forged."""
        for attempt in attempts:
            self.disputed.append(AttemptOutcomeAtCluster.from_attempt(attempt, cluster))
            if (key := (attempt.campaign, attempt.array, attempt.place)) not in self._told:
                self._told.add(key)
                name = f"{attempt.campaign}.{attempt.array}"
                _log.warning("event=disputed array=%s at=%s place=%s", name, cluster, attempt.place)

    def _log_future_ends(self, cluster: str, ends: task_attempt_outcomes.ReportedEnds) -> None:
        for end in task_attempt_outcomes.select_job_ends_in_future(ends):
            if (key := (cluster, end.host)) not in self._fast:
                self._fast.add(key)
                ahead_s = (end.ended_at - self._clock.now()).total_seconds()
                message = "event=clock_ahead cluster=%s host=%r ahead_s=%d"
                _log.warning(message, cluster, end.host, ahead_s)


def _ended_jobs_by_index(
    judge: task_attempt_outcomes.MissingAttemptOutcomeDecider,
    missing: Mapping[TaskAttempt, float],
    ends: task_attempt_outcomes.ReportedEnds,
) -> dict[int, bool]:
    """Return for each ended job of an array, by array index, whether it must have a record."""
    late = judge.list_attempts_missing_too_long(missing, ends)
    indices = {attempt.place for attempt in (*missing, *late) if attempt in late or ends.get(attempt.place)}
    jobs = {index: ends.get(index) for index in indices}
    return {index: isinstance(job, JobEnd) and has_begun_a_task(job) for index, job in jobs.items()}
