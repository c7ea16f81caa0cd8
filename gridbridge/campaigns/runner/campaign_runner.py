"""Runs and replays the cycles of gridbridge-runner, and records past usage, by which campaigns are ranked."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from gridbridge.batch.configured_cluster_access_and_routes import keep_ssh_connections_open
from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.background_readings import BackgroundPrograms, RecordsOfEndedJobs
from gridbridge.campaigns.runner.campaign_completion_forecasts import CampaignCompletionForecasts
from gridbridge.campaigns.runner.campaign_intake import CampaignAndRequestIntake
from gridbridge.campaigns.runner.campaign_master_lead import CampaignMasterLead
from gridbridge.campaigns.runner.campaign_notifications import CampaignNotifier
from gridbridge.campaigns.runner.campaign_publication import CampaignPublisher, EventAndCapacityPublisher
from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.runner.checkpoints_of_lost_attempts import CheckpointsOfLostAttempts
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder
from gridbridge.campaigns.runner.plan_execution_and_root_ledger import CampaignPlanExecutor
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignSlotUsageRows, CampaignStatisticsRows
from gridbridge.config.site import OF_KIND
from gridbridge.decisions.campaigns import campaign_cycle_planning
from gridbridge.decisions.campaigns.campaign_order_and_fairshare import (
    add_ended_tasks_to_usage,
    decay_usage,
    sum_usage_by_claimant,
)
from gridbridge.errors import ConfigError, GridbridgeError, StateError
from gridbridge.model.campaigns.campaign import Campaign, CampaignArray, TaskAttempt, pair_attempts_with_clusters
from gridbridge.model.campaigns.campaign_configuration_sections import FairShareUnit
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    DecayedCampaignUsage,
    FairShareInputs,
)
from gridbridge.model.fixed_paths import CONFIG, RUNNER_SITE
from gridbridge.model.grid_engine_amounts import HOUR_S
from gridbridge.model.site_configuration import Policy
from gridbridge.program import cluster_observer
from gridbridge.program.model_values_as_json import model_value_from_json, model_value_to_json
from gridbridge.shell import local_host_facts, safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import drains
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry, make_journal_entry
from gridbridge.state.state_file import StateFile

SWEEP_S = 3600.0
TAKING_S = 20.0  # each cycle processes the inbox for at most this time; gridsub waits 90 s


def require_unchanged_site_name(name: str, campaigns: CampaignRows, path: str = RUNNER_SITE, *, is_dry: bool) -> None:
    """Store the site's name; raise ConfigError if the name has changed while arrays are unfinished."""
    before = ""
    with suppress(OSError, StateError):
        before = safe_files.read_file_only_owner_writes(path, 1 << 10)[0].decode("ascii", "replace")
    if before == name:
        return
    if before and campaigns.query_open_arrays():
        restore = f'campaign tasks are at clusters under the name "{before}"; restore that name'
        raise ConfigError((f'{CONFIG}: [site] cluster = "{name}": {restore} until no task is left',))
    if not is_dry:
        safe_files.replace_file_atomically(path, name.encode())


class CampaignRunnerCycle:
    """One scheduling cycle of all campaigns: process the inbox, gather, decide, apply."""

    is_urgent = False
    _sweeps_at_s = 0.0

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        *,
        is_dry: bool = False,
        programs: BackgroundPrograms | None = None,
        lead: CampaignMasterLead | None = None,
    ) -> None:
        """Open the state file, read-only in a dry run; raise ConfigError if the site's name has changed."""
        keep_ssh_connections_open(policy)
        if not is_dry:
            drains.make_cluster_drains_folder()
        self._policy, self._clock = policy, clock
        self.database = lead.open_state() if lead else StateFile.open(policy.site.state, is_unchanged=is_dry)
        self.journal = DecisionJournal(self.database)
        self._notifier = CampaignNotifier(self.database, policy.notifications, clock)
        self._campaigns = campaigns = CampaignRows(self.database)
        require_unchanged_site_name(policy.site.cluster, campaigns, is_dry=is_dry)
        self._predictions = predictions = CampaignStatisticsRows(self.database)
        self._forecasts = CampaignCompletionForecasts(campaigns, predictions, clock, policy.runner.interval_s)
        self._shares = FairShareUsageAccounting(policy, campaigns, CampaignSlotUsageRows(self.database), clock)
        programs = programs or BackgroundPrograms()
        self._situation_gatherer = CampaignSituationGatherer(
            policy,
            self.database,
            clock,
            is_dry=is_dry,
            checkpoints=None if is_dry else CheckpointsOfLostAttempts(clock, programs.checkpoints),
            records=None if is_dry else RecordsOfEndedJobs(clock, programs.jobs),
            pulling=None if is_dry else programs.pulling,
        )
        remote_clusters = {name for name, cluster in policy.clusters.items() if cluster.ssh}
        self._actions = CampaignPlanExecutor(
            self.database,
            CampaignStatisticsRecorder(self.database),
            clock,
            policy.failures,
            most=policy.runner.max_tasks,
            ownerless=self._delete_array_without_owner,
            remote_clusters=remote_clusters,
            programs=programs,
            unmeasured=_clusters_whose_usage_is_in_files(policy),
        )
        self._publication = CampaignPublisher(self.database, campaigns, self._forecasts, clock)
        self._intake = CampaignAndRequestIntake(
            self.database,
            frozenset(policy.clusters),
            clock,
            notifications=policy.notifications,
            limits=policy.runner,
            begin=self._publication.mark_campaigns_before_change,
            by_api=[name for name, cluster in policy.clusters.items() if cluster.api],
            remote_clusters=remote_clusters,
        )
        self._showing = EventAndCapacityPublisher(policy, self.database, clock)
        if not is_dry:
            self._intake.restore_lost_campaigns()

    def process_inbox(self) -> int:
        """Accept new campaigns and owners' requests, and publish the changes; return how many were accepted."""
        intake_count = self._intake.process_inbox_files()
        if touched := self._intake.requests.take_changed_attempts():  # an unfinished request may have changed tasks
            self._publication.mark_campaigns_before_change(attempt.campaign for attempt in touched)
            self._publication.publish_changed_tasks(touched, are_asked=True)
        if intake_count:
            self._forecasts.drop_forecasts(self._intake.parts.take_campaigns_with_added_tasks())
            self._publication.publish_campaigns(self._showing.publish_events())
        return intake_count

    def list_unprocessed_inbox_files(self) -> list[str]:
        return self._intake.list_unprocessed_inbox_files()

    def gather(self) -> CampaignCycleSituation:
        self.is_urgent = False
        situation = self._situation_gatherer.gather_situation()
        sharing = self._shares.read_fair_share_inputs(situation.campaigns)
        measured = self._actions.usages.take_measured_attempts()
        ended = {attempt.campaign for attempt in measured} - {campaign.number for campaign in situation.campaigns}
        usages = (*situation.usages, *(self._predictions.read_task_usages(ended) if ended else ()))
        return replace(situation, sharing=sharing, measured=measured, usages=usages)

    def decide(self, situation: CampaignCycleSituation) -> CampaignCyclePlan:
        return campaign_cycle_planning.plan_campaign_cycle(situation)

    def journal_entry(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> DecisionJournalEntry | None:
        return campaign_cycle_journal_entry(situation, plan, self._clock.now())

    def apply(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> None:
        """Carry out the plan, then publish campaigns, tasks and events."""
        for answer in self._situation_gatherer.list_unpublished_snapshots():
            # submissions read the list of queues, so the list is published before the plan is carried out
            cluster_observer.publish_local_only_queues(answer, self._policy.transfer_queues_of_cluster(answer.cluster))
        self._shares.add_usage_of_ended_tasks(situation, plan)
        self._publication.mark_campaigns_before_change(campaign.number for campaign in situation.campaigns)
        self._actions.execute_plan(plan)
        self._forecasts.update_forecasts(situation, plan, self._situation_gatherer.elapsed)
        self._publication.publish_changed_tasks(self._actions.take_changed_attempts())
        self._publication.publish_measured_tasks(plan.measured)
        self._publication.publish_send_explanations(situation, plan)
        self._delete_old_records_hourly()
        self._publication.publish_campaigns(self._showing.publish_events())
        self._showing.publish_cluster_slots(situation, self._situation_gatherer.others)
        self._notifier.send_due_notifications()
        self.is_urgent = plan.starts_next_cycle_at_once

    def finish_notifications_and_close(self) -> None:
        with suppress(GridbridgeError):  # a later cycle sends the notifications again
            self._notifier.wait_for_deliveries()
        self.database.close()

    def _delete_array_without_owner(self, array: CampaignArray) -> int:
        campaign = self._campaigns.find_campaign(array.campaign)
        owner = campaign.owner if campaign else ""
        return array_commands_as_owner.delete_array_without_owner(self._policy, owner, array)

    def _delete_old_records_hourly(self) -> None:
        now_s = self._clock.steady_s()
        if now_s >= self._sweeps_at_s:
            self._sweeps_at_s = now_s + SWEEP_S
            self._intake.delete_old_files_and_events()
            now, retention = self._clock.now(), timedelta(hours=self._policy.site.keep_decisions_h)
            self.journal.delete_old_decisions(now - retention)
            # forecasts use only the last hour
            self._predictions.delete_old_end_counts(now - timedelta(days=1))


def process_inbox_before_cycle(
    take: Callable[[], int], list_pending: Callable[[], Sequence[str]], clock: Clock
) -> None:
    """Call `take` repeatedly, for at most 20 s, because each call takes only a few inbox files of each person."""
    until_s, before = clock.steady_s() + TAKING_S, None
    while (pending := list_pending()) != before and clock.steady_s() < until_s:
        before = pending
        take()


class CampaignRunnerDaemon:
    _has_news = False
    _ended_s = float("-inf")

    def __init__(
        self,
        policy: Policy,
        clock: Clock,
        *,
        is_dry: bool = False,
        lead: CampaignMasterLead | None = None,
        programs: BackgroundPrograms | None = None,
    ) -> None:
        """Take the programs that work already, after the configuration has changed."""
        self._policy = policy
        self._clock = clock
        self._is_dry = is_dry
        self._lead = lead
        self._programs = programs or BackgroundPrograms()
        self.runner = CampaignRunnerCycle(policy, clock, is_dry=is_dry, programs=self._programs, lead=lead)

    @property
    def pause_s(self) -> float:
        return self._policy.runner.interval_s

    @property
    def has_background_work(self) -> bool:
        return self._programs.are_in_use

    @contextmanager
    def open_cycle(self) -> Iterator[CampaignRunnerCycle]:
        """Process the inbox, then provide the runner for one cycle."""
        if not self._is_dry:
            process_inbox_before_cycle(self.runner.process_inbox, self.runner.list_unprocessed_inbox_files, self._clock)
        elif untaken := self.runner.list_unprocessed_inbox_files():
            message = f"a cycle would first process {len(untaken)} inbox files, which a dry run ignores"
            print(message)  # noqa: T201 - a dry run prints to the caller
        self._has_news = False
        yield self.runner
        self._ended_s = self._clock.steady_s()

    def should_start_cycle_early(self) -> bool:
        """Process the inbox; return whether the next cycle starts before the usual pause is over."""
        self._has_news |= self.runner.process_inbox() > 0
        self._has_news |= self._programs.has_new_end()
        # a cycle queries clusters, so a request or an ended program starts a cycle only 5 s after the last cycle
        is_due = self._has_news and self._clock.steady_s() - self._ended_s >= 5.0
        return self.runner.is_urgent or is_due

    def recover(self) -> None:
        """Open the state file again after a failed cycle."""
        self.runner = CampaignRunnerCycle(self._policy, self._clock, programs=self._programs, lead=self._lead)

    def release(self) -> None:
        """Wait for notifications that are being sent, and close the state file."""
        self.runner.finish_notifications_and_close()


FORGOTTEN_S = 1.0  # past usage below this number of slot-seconds is deleted
NEVER_S = 1e9  # seconds that stand for the mean run time at a cluster where no task has succeeded


class FairShareUsageAccounting:
    def __init__(self, policy: Policy, campaigns: CampaignRows, usage: CampaignSlotUsageRows, clock: Clock) -> None:
        self._section = policy.metascheduler
        lists = (self._section.priorities, *(section.affinity for section in policy.campaigns.values()))
        self._asks_groups = self._section.share_by is FairShareUnit.GROUP or "@" in "".join(lists)
        self._campaigns = campaigns
        self._usage = usage
        self._clock = clock
        # past usage in this cycle; None: not read yet
        self._read: tuple[DecayedCampaignUsage, ...] | None = None

    def read_fair_share_inputs(self, unfinished: tuple[Campaign, ...]) -> FairShareInputs:
        self._read = self._usage.read_slot_usage()
        usages = tuple(map(self._decay_usage_to_now, self._read))
        numbers = frozenset(campaign.number for campaign in unfinished)
        used_s = defaultdict[int, float](float)
        for usage in usages:
            used_s[usage.campaign] += usage.used_s
        is_shared = self._section.share_by is not FairShareUnit.NONE
        ended = map(self._campaigns.find_campaign, sorted(used_s.keys() - numbers)) if is_shared else ()
        campaigns = (*unfinished, *filter(None, ended))
        owners = sorted({campaign.owner for campaign in campaigns}) if self._asks_groups else ()
        sharing = FairShareInputs(
            priorities=self._section.priorities,
            by=self._section.share_by,
            first_tasks=self._section.first_tasks,
            groups={owner: local_host_facts.groups_of_account(owner) for owner in owners},
            mean_s=_mean_run_times_by_campaign_and_cluster(usages, numbers),
        )
        return replace(sharing, used_s=sum_usage_by_claimant(campaigns, sharing, used_s)) if is_shared else sharing

    def add_usage_of_ended_tasks(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> None:
        """Add the usage of ended tasks to past usage, and delete usage that has decayed to almost nothing."""
        usages, self._read = self._usage.read_slot_usage() if self._read is None else self._read, None
        before = {(usage.campaign, usage.cluster): usage for usage in map(self._decay_usage_to_now, usages)}
        jdls = {campaign.number: campaign.jdl for campaign in situation.campaigns}
        by_pair, now = defaultdict[tuple[int, str], list[TaskAttempt]](list), self._clock.now()
        for attempt, cluster in pair_attempts_with_clusters(plan.ended, situation.arrays):
            if cluster:
                by_pair[attempt.campaign, cluster].append(attempt)
        changed = []
        for (campaign, cluster), ended in sorted(by_pair.items()):
            old = before.get((campaign, cluster)) or DecayedCampaignUsage(campaign=campaign, cluster=cluster, at=now)
            slots = jdls[campaign].slots_at(cluster) if campaign in jdls else 1
            changed.append(add_ended_tasks_to_usage(old, ended, slots))
        self._usage.store_slot_usage(changed)
        current = before | {(usage.campaign, usage.cluster): usage for usage in changed}
        self._usage.delete_slot_usage(usage for usage in current.values() if usage.used_s < FORGOTTEN_S)

    def _decay_usage_to_now(self, usage: DecayedCampaignUsage) -> DecayedCampaignUsage:
        return decay_usage(usage, self._clock.now(), self._section.half_life_h * HOUR_S)


def _mean_run_times_by_campaign_and_cluster(
    usages: Iterable[DecayedCampaignUsage], campaigns: frozenset[int]
) -> dict[int, dict[str, float]]:
    """Return mean run times of successful tasks by campaign and cluster; NEVER_S if no task succeeded."""
    means: dict[int, dict[str, float]] = {}
    for usage in usages:
        if usage.campaign in campaigns and (usage.successes or usage.used_s >= FORGOTTEN_S):
            mean_s = usage.success_s / usage.successes if usage.successes else NEVER_S
            means.setdefault(usage.campaign, {})[usage.cluster] = mean_s
    return means


RUNNER_PROGRAM = "runner"


def campaign_cycle_journal_entry(
    situation: CampaignCycleSituation, plan: CampaignCyclePlan, now: datetime
) -> DecisionJournalEntry | None:
    """Return the journal entry of a cycle's decision, without scripts; None if the cycle does nothing."""
    sentences = campaign_cycle_planning.describe_campaign_cycle_plan(plan)
    if not sentences:
        return None
    campaigns = tuple(replace(campaign, jdl=campaign.jdl.jdl_without_shell_lines) for campaign in situation.campaigns)
    row = {"seen": model_value_to_json(replace(situation, campaigns=campaigns))}
    return make_journal_entry(RUNNER_PROGRAM, now, row, sentences)


def replay_campaign_cycle_decision(row: Mapping[str, Any]) -> list[str]:
    return campaign_cycle_planning.describe_campaign_cycle_plan(
        campaign_cycle_planning.plan_campaign_cycle(model_value_from_json(row["seen"], CampaignCycleSituation))
    )


def _clusters_whose_usage_is_in_files(policy: Policy) -> set[str]:
    """Return the clusters whose accounting lacks memory, without clusters by api, because no file there can be read."""
    names = ((name, section.api or OF_KIND[section.kind].accounts_memory) for name, section in policy.clusters.items())
    return {name for name, has_no_files in names if not has_no_files}
