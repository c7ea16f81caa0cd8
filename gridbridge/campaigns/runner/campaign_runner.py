"""Run cycles of the campaign runner; refuse a changed site name while tasks are at clusters.

Job names at a cluster begin with the site's name. Under a new name no job would be found, and every
task would count as lost.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from gridbridge.batch.configured_cluster_routes import keep_ssh_connections_open
from gridbridge.campaigns.acts import array_submission
from gridbridge.campaigns.runner import campaign_journal
from gridbridge.campaigns.runner.campaign_cycle_recorder import CycleStatisticsRecorder
from gridbridge.campaigns.runner.campaign_forecast_updates import CampaignCompletionForecasts
from gridbridge.campaigns.runner.campaign_intake import CampaignAndRequestIntake
from gridbridge.campaigns.runner.campaign_notifications import CampaignNotifier
from gridbridge.campaigns.runner.campaign_publication import CampaignPublisher, EventAndCapacityPublisher
from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.runner.campaign_usage_accounting import FairShareUsageAccounting
from gridbridge.campaigns.runner.cycle_plan_executor import CampaignPlanExecutor
from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignSlotUsageRows, CampaignStatisticsRows
from gridbridge.campaigns.store.deleted_and_missing_task_rows import TaskDeletionMarkRows
from gridbridge.decisions.campaigns import campaign_cycle as rules
from gridbridge.errors import ConfigError, GridbridgeError, StateError
from gridbridge.model.campaigns.campaign import CampaignArray
from gridbridge.model.campaigns.cycle_plan import CampaignCyclePlan, CampaignCycleSituation
from gridbridge.model.fixed_paths import CONFIG, RUNNER_SITE
from gridbridge.model.policy import Policy
from gridbridge.program.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.program.watch import last_cluster_snapshots
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import drains
from gridbridge.state.database import StateFile

MAX_BYTES = 1 << 10
OTHER = (
    '{}: [site] cluster = "{}": tasks of campaigns are away under the name "{}"; put that back,'
    " and change it when none is away"
)
SWEEP_S = 3600.0
ENDS_KEPT = timedelta(days=1)  # age limit of counts of ends per minute; forecasts use one hour
TAKING_S = 20.0  # time per cycle for the inbox; gridsub waits 90 s
LEAST_PAUSE_S = 5.0  # least pause between cycles, since each cycle queries clusters
UNTAKEN = "{} that people brought would be taken in first, and is not looked at"


def require_unchanged_site_name(name: str, campaigns: CampaignRows, path: str = RUNNER_SITE, *, is_dry: bool) -> None:
    """Store the site's name; ConfigError if the name changed while arrays are unfinished."""
    if (before := _saved_name(path)) == name:
        return
    if before and campaigns.open_arrays():
        raise ConfigError((OTHER.format(CONFIG, name, before),))
    if not is_dry:
        safe_files.replace_file_atomically(path, name.encode())


def _saved_name(path: str) -> str:
    """Return the stored site name; empty if none is stored."""
    try:
        return safe_files.read_file_only_owner_writes(path, MAX_BYTES)[0].decode("ascii", "replace")
    except (OSError, StateError):
        return ""


class CampaignRunnerCycle:
    """One scheduling cycle over all campaigns: take in, gather, decide, apply."""

    def __init__(self, policy: Policy, clock: Clock, *, is_dry: bool = False) -> None:
        """Open the state file, read-only in a dry run.

        Raises StateError if the file cannot be opened, and ConfigError if the site was
        renamed while arrays are unfinished.
        """
        keep_ssh_connections_open(policy)
        if not is_dry:
            drains.make_cluster_drains_folder()
        self._policy = policy
        self._clock = clock
        self.database = StateFile.open(policy.site.state, is_unchanged=is_dry)
        self.journal = DecisionJournal(self.database)
        self._notifier = CampaignNotifier(self.database, policy.notifications, clock)
        campaigns = CampaignRows(self.database)
        require_unchanged_site_name(policy.site.cluster, campaigns, is_dry=is_dry)
        self._predictions = predictions = CampaignStatisticsRows(self.database)
        self._forecasts = CampaignCompletionForecasts(campaigns, predictions, clock, policy.runner.interval_s)
        self._shares = FairShareUsageAccounting(policy, campaigns, CampaignSlotUsageRows(self.database), clock)
        marks = TaskDeletionMarkRows(self.database)
        self._updator = CampaignSituationGatherer(policy, self.database, predictions, marks, clock, is_dry=is_dry)
        observations, most = CycleStatisticsRecorder(self.database), policy.runner.max_tasks
        self._campaigns = campaigns
        self._actions = CampaignPlanExecutor(
            self.database, observations, clock, policy.failures, most=most, ownerless=self._delete_for_nobody
        )
        self._publication = CampaignPublisher(self.database, campaigns, self._forecasts, clock)
        self._intake = CampaignAndRequestIntake(
            self.database,
            frozenset(policy.clusters),
            clock,
            notifications=policy.notifications,
            limits=policy.runner,
            begin=self._publication.begin,
        )
        self._showing = EventAndCapacityPublisher(policy, self.database, clock)
        if not is_dry:
            self._intake.recover()
        self._sweeps_at_s = 0.0
        self.is_urgent = False  # whether the next cycle must start at once

    def take_in(self) -> int:
        """Accept new campaigns and owners' requests, and publish them; return how many."""
        intake_count = self._intake.take()
        if touched := self._intake.touched():  # possibly changed by an unfinished request
            self._publication.begin(attempt.campaign for attempt in touched)
            self._publication.end(touched, are_asked=True)
        if intake_count:
            self._forecasts.forget(self._intake.grown())
            self._publication.show(self._showing.show())
        return intake_count

    def untaken(self) -> list[str]:
        """Return the names of the inbox files that `take_in` would process."""
        return self._intake.untaken()

    def gather(self) -> CampaignCycleSituation:
        """Query the clusters and read the state file; return the situation to decide about."""
        self.is_urgent = False
        situation = self._updator.look()
        return replace(situation, sharing=self._shares.gather(situation.campaigns))

    def decide(self, situation: CampaignCycleSituation) -> CampaignCyclePlan:
        """Plan the cycle for all campaigns."""
        return rules.plan_campaign_cycle(situation)

    def entry(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> DecisionJournalEntry | None:
        """Return the journal entry of the cycle; None if the cycle does nothing."""
        return campaign_journal.campaign_cycle_journal_entry(situation, plan, self._clock.now())

    def apply(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> None:
        """Carry out the plan, then publish the results."""
        for answer in self._updator.news():
            last_cluster_snapshots.publish_non_forwarding_queues(
                answer, self._policy.queues_at(answer.cluster)
            )  # published first, since submitted jobs obey this list
        self._shares.count(situation, plan)
        self._publication.begin(campaign.number for campaign in situation.campaigns)
        self._actions.do(plan)
        self._forecasts.look(situation, plan, self._updator.elapsed)
        self._publication.end(self._actions.touched())
        self._publication.show_cycle(situation, plan)
        self._sweep()
        self._publication.show(self._showing.show())
        self._showing.show_clusters(situation, self._updator.others)
        self._notifier.look()
        self.is_urgent = plan.is_urgent

    def end(self) -> None:
        """Wait for notifications under way, and close the state file."""
        with suppress(GridbridgeError):  # the notifications are sent again later
            self._notifier.finish()
        self.database.close()

    def _delete_for_nobody(self, array: CampaignArray) -> int:
        """Delete an array whose owner's account no longer exists."""
        campaign = self._campaigns.find(array.campaign)
        return array_submission.delete_array_without_owner(self._policy, campaign.owner if campaign else "", array)

    def _sweep(self) -> None:
        """Remove expired files and rows once an hour."""
        now_s = self._clock.steady_s()
        if now_s >= self._sweeps_at_s:
            self._sweeps_at_s = now_s + SWEEP_S
            self._intake.sweep()
            now, retention = self._clock.now(), timedelta(hours=self._policy.site.keep_decisions_h)
            self.journal.forget(now - retention)
            self._predictions.forget_ends(now - ENDS_KEPT)


def take_in_inbox_before_cycle(
    take: Callable[[], int], list_pending: Callable[[], Sequence[str]], clock: Clock
) -> None:
    """Empty the inbox before a cycle, for at most 20 seconds.

    Each call of `take` processes a few files per person, so that nobody waits for another person's
    many files.
    """
    until_s, before = clock.steady_s() + TAKING_S, None
    while (pending := list_pending()) != before and clock.steady_s() < until_s:
        before = pending
        take()


class CampaignRunnerDaemon:
    """Runs cycles in a loop, and accepts campaigns between the cycles."""

    _has_taken = False  # whether a file arrived since the last cycle
    _ended_s = float("-inf")  # monotonic time at the end of the last cycle

    def __init__(self, policy: Policy, clock: Clock, *, is_dry: bool = False) -> None:
        self._policy = policy
        self._clock = clock
        self._is_dry = is_dry
        self.runner = CampaignRunnerCycle(policy, clock, is_dry=is_dry)

    @property
    def pause_s(self) -> float:
        """The pause between two cycles, in seconds."""
        return self._policy.runner.interval_s

    @contextmanager
    def open_cycle(self) -> Iterator[CampaignRunnerCycle]:
        """Empty the inbox, then give the runner for one cycle."""
        if not self._is_dry:
            take_in_inbox_before_cycle(self.runner.take_in, self.runner.untaken, self._clock)
        elif untaken := self.runner.untaken():
            print(UNTAKEN.format(len(untaken)))  # noqa: T201 - dry runs print their sentences
        self._has_taken = False
        yield self.runner
        self._ended_s = self._clock.steady_s()

    def has_news(self) -> bool:
        """Accept inbox files; return whether the next cycle should start before its time.

        Moved tasks are sent at once. New campaigns are sent soon, but frequent files do not start a
        cycle every second.
        """
        self._has_taken |= self.runner.take_in() > 0
        if self.runner.is_urgent or not self._has_taken:
            return self.runner.is_urgent
        return self._clock.steady_s() - self._ended_s >= LEAST_PAUSE_S

    def recover(self) -> None:
        """Start again from the state file after a failed cycle."""
        self.runner = CampaignRunnerCycle(self._policy, self._clock)

    def release(self) -> None:
        """Wait for notifications under way, and close the state file."""
        self.runner.end()
