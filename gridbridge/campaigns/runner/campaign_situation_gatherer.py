"""Gathers the input of a campaign cycle: clusters' capacities and task states (CiGri's updator)."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace

from gridbridge.campaigns.runner import array_commands_as_owner, stress_and_mail_programs
from gridbridge.campaigns.runner import cluster_queries_and_capacities as queries
from gridbridge.campaigns.runner.background_readings import ProgramsForAttempts, RecordsOfEndedJobs
from gridbridge.campaigns.runner.checkpoints_of_lost_attempts import CheckpointsOfLostAttempts
from gridbridge.campaigns.runner.ended_attempt_finder import EndedAttemptFinder
from gridbridge.campaigns.runner.missing_and_straggling_attempts import (
    CampaignStragglerFinder,
    MissingAttemptTracker,
    earlier_live_attempt_positions,
)
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import RootLedgerStateComparison
from gridbridge.campaigns.runner.records_of_pulling_jobs import RecordsOfPullingJobs
from gridbridge.campaigns.runner.submission_failure_events import one_line_error_message
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import (
    CampaignStatisticsRows,
    FileServerLimitRows,
    InputCarryRows,
)
from gridbridge.campaigns.store.campaign_task_rows import (
    DeletionMarksByArray,
    TaskDeletionMarkRows,
    TaskMissingAtClusterRows,
    UnbroughtOutputRows,
)
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointCarryRows, CheckpointStatisticsRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.campaigns.store.task_attempt_rows import SpeculativeAttemptRows, TaskAttemptRows
from gridbridge.decisions.campaigns import task_attempt_outcomes
from gridbridge.decisions.campaigns.campaign_event_rules import select_removed_clusters_declared_lost
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import group_attempts_by_task
from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, RootLedgerArray
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, ClusterCapacityForCampaigns
from gridbridge.model.campaigns.file_server_load import FileServerSituation
from gridbridge.model.campaigns.grouped_tasks import PullingJob
from gridbridge.model.campaigns.jdl import CampaignType
from gridbridge.model.campaigns.task_deletions_and_preemptions import REASONS_OF_WAITING
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import RUNNER_RAN
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.clock import Clock
from gridbridge.state import drains
from gridbridge.state.state_file import StateFile

ARRAYS_AT_ONCE = 20
CYCLES_AHEAD = 4  # a record shows the next tasks one cycle late, and the job takes them one cycle later


class CampaignSituationGatherer:
    def __init__(
        self,
        policy: Policy,
        database: StateFile,
        clock: Clock,
        *,
        is_dry: bool = False,
        ledger_arrays: Callable[[int], tuple[RootLedgerArray, ...]] = array_commands_as_owner.list_root_ledger_arrays,
        ran: str = RUNNER_RAN,
        checkpoints: CheckpointsOfLostAttempts | None = None,
        records: RecordsOfEndedJobs | None = None,
        pulling: ProgramsForAttempts | None = None,
    ) -> None:
        """`ledger_arrays` returns the arrays of a campaign in root's ledger of submitted tasks."""
        self._policy = policy
        self._remote_clusters = frozenset(name for name, cluster in policy.clusters.items() if cluster.ssh)
        self._asking = queries.ClusterSnapshotFetcher(policy, database, clock, is_dry=is_dry)
        self._campaigns = CampaignRows(database)
        self._tries = TaskAttemptRows(database, self._campaigns)
        self._copies = SpeculativeAttemptRows(database, self._campaigns)
        self._tails = CampaignStragglerFinder(self._campaigns, policy.finalize)
        self._predecessors = PredecessorRows(database, self._campaigns)
        self._events = EventAndSuccessRecordRows(database)
        self._limits = queries.ClusterArrayLimitCache(policy, clock)
        self._predictions = CampaignStatisticsRows(database)
        self._marks = TaskDeletionMarkRows(database)
        self._outputs = UnbroughtOutputRows(database)
        self._carries = InputCarryRows(database)
        self._server_limits = FileServerLimitRows(database)
        self._checkpoint_statistics = CheckpointStatisticsRows(database)
        self._checkpoint_carries = CheckpointCarryRows(database)
        is_pulling = policy.runner.pull and pulling is not None
        self._pulling = (
            RecordsOfPullingJobs(clock, self._tries, pulling) if is_pulling and pulling is not None else None
        )
        self._clock = clock
        self.end_finder = EndedAttemptFinder(
            policy,
            clock,
            self._campaigns,
            self._tries,
            limits=self._limits,
            missing=MissingAttemptTracker(TaskMissingAtClusterRows(database), clock, ran, is_dry=is_dry),
            restored=RootLedgerStateComparison(self._campaigns, ledger_arrays),
            checkpoints=checkpoints,
            records=records,
        )
        self.answers: dict[str, ClusterSnapshot] = {}  # each cluster's snapshot of the last cycle
        self.others: dict[str, ClusterSnapshot] = {}  # other programs' snapshots of clusters that no campaign uses
        # {(campaign, cluster): elapsed seconds of the running tasks}
        self.elapsed: dict[tuple[int, str], tuple[float, ...]] = {}

    def list_unpublished_snapshots(self) -> list[ClusterSnapshot]:
        """Return the snapshots of this cycle that the poller has not published yet."""
        return [snapshot for name, snapshot in self.answers.items() if name not in self._asking.polled]

    def gather_situation(self) -> CampaignCycleSituation:
        campaigns, arrays = self._campaigns.unfinished_campaigns(), self._campaigns.query_open_arrays()
        unsent, awaiting = self._campaigns.count_unsent_and_awaiting_tasks()
        waiting = {number: tasks - awaiting.get(number, 0) for number, tasks in unsent.items()}
        used = _clusters_of_campaigns(campaigns, arrays)
        limit_s, unused = self._policy.poller.interval_s, self._policy.clusters.keys() - used
        self.answers = answers = self._asking.fetch_snapshots(used, arrays, limit_s)
        self.others = self._asking.recent_snapshots(unused, limit_s)
        numbers = [campaign.number for campaign in campaigns]
        tests = [campaign.number for campaign in campaigns if campaign.jdl.type is CampaignType.TEST]
        rivals, marks = self._copies.competing_attempts(numbers), self._marks.deletion_marks()
        steps = self._tries.last_prologues_and_epilogues(campaigns)
        released = [sent for sent in arrays if sent.state is ArraySubmissionState.RELEASED and sent.cluster in answers]
        of_steps = {(step.campaign, step.array) for step in steps}
        of_tasks = [array for array in released if array.campaign_and_array_number not in of_steps]
        extra = earlier_live_attempt_positions(rivals)
        self.elapsed = queries.elapsed_seconds_of_running_tasks(of_tasks, answers, extra)
        events = self._events.query_open_events()
        situation = CampaignCycleSituation(
            campaigns=campaigns,
            waiting={number: tasks for number, tasks in waiting.items() if tasks},
            awaiting=awaiting,
            predecessors=self._predecessors.read_progress_of_predecessors(),
            kept_off=self._campaigns.count_tasks_by_exclusions(),
            arrays=arrays,
            room={},
            max_tasks=self._policy.runner.max_tasks,
            group_below_s=self._policy.runner.group_below_s,
            tried={number: self._tries.query_clusters_with_task_attempts(number) for number in tests},
            ratios=self._predictions.read_job_ratios(numbers),
            wiped=_find_deleted_waiting_tasks(arrays, marks),
            asked=frozenset(used & self._policy.clusters.keys()),
            silent={cluster: one_line_error_message(error) for cluster, error in self._asking.troubles.items()},
            back_at=self._events.recovery_times_of_clusters(),
            dropped=frozenset(used - self._policy.clusters.keys()),
            events=events,
            records=self._events.success_records(numbers),
            usages=self._predictions.read_task_usages(numbers),
            failures=self._policy.failures,
            rivals=rivals,
            finalize=self._policy.finalize,
            arrays_at_once=ARRAYS_AT_ONCE,
            steps=steps,
            loss_rates=self._checkpoint_statistics.loss_rates(),
            checkpoint_times=self._checkpoint_statistics.checkpoint_times(numbers),
            carry_costs=self._carries.carry_costs(self._pairs_with_input_carries(campaigns)),
            unbrought=self._outputs.campaigns_with_outputs_to_bring(self._policy.clusters.keys()),
            idle_steps=queries.arrays_with_all_tasks_waiting({*released} - {*of_tasks}, answers),
        )
        return self._add_task_ends_to_situation(situation, released, of_tasks, marks)

    def _pairs_with_input_carries(self, campaigns: Iterable[Campaign]) -> Iterator[tuple[Campaign, str]]:
        """Yield (campaign, cluster) if input files must be carried, because the cluster does not see them."""
        for campaign in campaigns:
            if campaign.jdl.inputs:
                yield from ((campaign, name) for name in campaign.jdl.clusters if name in self._remote_clusters)

    def _add_task_ends_to_situation(
        self,
        situation: CampaignCycleSituation,
        released: Iterable[CampaignArray],
        of_tasks: Iterable[CampaignArray],
        marks: DeletionMarksByArray,
    ) -> CampaignCycleSituation:
        campaigns, arrays, events = situation.campaigns, situation.arrays, situation.events
        lost_clusters = select_removed_clusters_declared_lost(events, situation.dropped)
        lost = tuple(array for array in arrays if array.cluster in lost_clusters)
        judge = task_attempt_outcomes.MissingAttemptOutcomeDecider(
            campaigns, events, marks, self._policy.runner.forgotten_s
        )
        attempts, over = self.end_finder.find_ended_attempts(released, self.answers, judge, campaigns)
        self.end_finder.missing.save_started_tasks(arrays)
        attempts = (*attempts, *self.end_finder.close_attempts_at_lost_clusters(lost))
        ended = tuple(attempt for attempt in attempts if not is_prologue_or_epilogue_task(attempt.task))
        by_task, now = group_attempts_by_task(situation.rivals), self._clock.now()
        open_clusters = queries.clusters_accepting_campaign_tasks(campaigns, situation.waiting)
        last_arrays = self._tries.last_arrays_by_cluster
        unsent = Counter(situation.waiting) + Counter(situation.awaiting)
        return replace(
            situation,
            room=self._query_cluster_capacities(open_clusters),
            servers=self._query_file_servers(open_clusters),
            nights=queries.next_nights_by_cluster(campaigns, self._policy.campaigns, now),
            there=queries.count_listed_tasks_by_cluster(of_tasks, self.answers, now, self._policy.campaigns),
            ended=ended,
            over=(*over, *lost),
            disputed=tuple(self.end_finder.disputed),
            missed=tuple(self.end_finder.missing.changed),
            at=now,
            waiting_checkpoints=self._checkpoint_carries.waiting_checkpoints(now),
            carry_rates=self._carries.expected_rates({campaign.uid for campaign in campaigns}, self._remote_clusters),
            earlier=self._tries.earlier_outcomes(ended, by_task),
            tails=self._tails.find_long_running_attempts(campaigns, unsent, arrays, self.answers, by_task, now),
            stepped=tuple(attempt for attempt in attempts if is_prologue_or_epilogue_task(attempt.task)),
            last_arrays={
                one.number: last_arrays(one.number, one.jdl.clusters)
                for one in campaigns
                if one.jdl.has_prologue_or_epilogue
            },
            behind=self.end_finder.restored.campaigns_behind_root_ledger(campaigns, events),
            pull_wait_s=self._policy.runner.pull_wait_s if self._policy.runner.pull else 0,
            pull_ahead_s=CYCLES_AHEAD * self._policy.runner.interval_s,
            pulling=self._describe_pulling_jobs(of_tasks, campaigns),
        )

    def _describe_pulling_jobs(
        self, arrays: Iterable[CampaignArray], campaigns: Iterable[Campaign]
    ) -> tuple[PullingJob, ...]:
        """Return the running jobs that get further tasks, as far as their records have been read."""
        if self._pulling is None:
            return ()
        owners = {campaign.number: campaign.uid for campaign in campaigns}
        jobs = {
            array: queries.task_indices_in_snapshot(array, self.answers[array.cluster], only_running=True)
            for array in arrays
            if array.group_wait_s and array.campaign in owners
        }
        return self._pulling.describe_pulling_jobs(jobs, owners)

    def _query_cluster_capacities(self, open_clusters: Set[str]) -> Mapping[str, ClusterCapacityForCampaigns]:
        scripts = {name: section for name, section in self._policy.campaigns.items() if name in open_clusters}
        stress = stress_and_mail_programs.run_cluster_stress_scripts(scripts)
        limits = self._limits.limits_of_clusters(open_clusters & self.answers.keys())
        drained = drains.list_drained_clusters()
        return queries.campaign_capacity_by_cluster(self._policy, self.answers, stress, limits, drained)

    def _query_file_servers(self, open_clusters: Set[str]) -> FileServerSituation:
        """Query the loads of the file servers of clusters that may get tasks."""
        areas = {
            name: area
            for name, area in self._policy.storage.items()
            if (area.max_jobs or area.load_command) and not open_clusters.isdisjoint(area.paths_by_cluster)
        }
        commands = {name: area.load_command for name, area in areas.items() if area.load_command}
        return FileServerSituation(
            rules=tuple(queries.file_server_rule(name, area) for name, area in areas.items()),
            loads=stress_and_mail_programs.run_load_commands(commands),
            limits=self._server_limits.read_file_server_limits() if areas else (),
        )


def _clusters_of_campaigns(campaigns: Iterable[Campaign], arrays: Iterable[CampaignArray]) -> set[str]:
    used = {name for campaign in campaigns for name in campaign.jdl.clusters}
    return used | {array.cluster for array in arrays}


def _find_deleted_waiting_tasks(
    arrays: Iterable[CampaignArray], marks: DeletionMarksByArray
) -> frozenset[tuple[int, str]]:
    reasons = {key: {mark.wiped_for for mark in marked.values()} for key, marked in marks.items()}
    waiting = {key for key, of_array in reasons.items() if of_array & {*REASONS_OF_WAITING}}
    return frozenset((array.campaign, array.cluster) for array in arrays if array.campaign_and_array_number in waiting)
