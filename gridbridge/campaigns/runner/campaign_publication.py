"""Publishes campaigns, task states, events and cluster capacities, but no task parameters."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gridbridge.campaigns.runner.campaign_completion_forecasts import CampaignCompletionForecasts
from gridbridge.campaigns.runner.cluster_queries_and_capacities import campaign_capacity_by_cluster as room_of
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows, InputCarryRows
from gridbridge.campaigns.store.campaign_task_rows import CampaignTaskRows
from gridbridge.campaigns.store.event_and_subscription_rows import EventAndSuccessRecordRows
from gridbridge.campaigns.store.predecessor_rows import PredecessorRows
from gridbridge.campaigns.store.published_campaign_files import A_FILE
from gridbridge.decisions.campaigns import task_send_explanation
from gridbridge.decisions.campaigns.predecessor_conditions import unmet_predecessors
from gridbridge.model.campaigns import published_campaigns_and_tasks as publications
from gridbridge.model.campaigns.campaign import Campaign, CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, CampaignCycleSituation
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, PublishedCampaignEvents
from gridbridge.model.campaigns.campaign_predecessors import AwaitedPredecessor
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.send_reasons import PublishedTaskSendExplanations
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.model.campaigns.task_resource_usage import MeasuredTaskAttempt, TaskUsageAtCluster
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.site_configuration import Policy
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile


@dataclass(eq=False)
class CampaignPublisher:
    _database: StateFile
    _campaigns: CampaignRows
    _forecasts: CampaignCompletionForecasts
    _clock: Clock
    _folder: str = PUBLISHED
    _outlines: dict[int, Jdl] = field(default_factory=dict)
    _begun: set[int] = field(default_factory=set)  # numbers of the campaigns whose tasks this cycle may change
    _killed: set[int] = field(default_factory=set)  # numbers of the campaigns whose tasks must all be published again
    _there: frozenset[int] | None = None  # numbers of the campaigns with published tasks; None before the first cycle

    def __post_init__(self) -> None:
        self._tasks = CampaignTaskRows(self._database)
        self._events = EventAndSuccessRecordRows(self._database)
        self._statistics = CampaignStatisticsRows(self._database)
        self._predecessors = PredecessorRows(self._database, self._campaigns)

    def publish_campaigns(self, opened: Iterable[CampaignEvent]) -> None:
        waiting, awaiting = self._campaigns.count_unsent_and_awaiting_tasks()
        predecessors = self._predecessors.read_progress_of_predecessors()
        open_clusters = defaultdict[int, set[str]](set)
        for array in self._campaigns.query_open_arrays():
            open_clusters[array.campaign].add(array.cluster)
        events, sinks = _count_open_events(opened, open_clusters), defaultdict[int, list[str]](list)
        for number, cluster in self._events.list_black_holes():
            sinks[number].append(cluster)
        usages = self._statistics.task_usages_by_campaign()
        shown = tuple(
            self._forecasts.add_forecast_to_campaign(
                _campaign_for_publication(
                    campaign,
                    events=events[campaign.number],
                    waiting=waiting.get(campaign.number, 0),
                    sinks=tuple(sinks[campaign.number]),
                    usage=usages.get(campaign.number, ()),
                    open_clusters=open_clusters[campaign.number],
                    unmet=unmet_predecessors(campaign, predecessors, awaiting.get(campaign.number, 0)),
                )
            )
            for campaign in self._campaigns.query_campaigns_with_jdl_outlines(self._outlines)
            if campaign.state is not CampaignState.PURGED
        )
        errors = self._forecasts.published_forecast_accuracy()
        whole = publications.PublishedCampaignList(at=self._clock.now(), campaigns=shown, errors=errors)
        published_campaign_files.publish_campaign_value(whole, self._folder)

    def publish_send_explanations(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan) -> None:
        """Publish the free slots that a cycle found, and the reasons of the cycle's decisions."""
        room = situation.room.items()
        cycle = PublishedTaskSendExplanations(
            at=self._clock.now(),
            free_slots={name: capacity.free_slots for name, capacity in room},
            besteffort_slots={name: capacity.free_besteffort_slots for name, capacity in room},
            reasons=task_send_explanation.explain_campaign_task_sends(situation, plan),
            stressed=tuple(name for name, capacity in room if capacity.is_stressed),
        )
        published_campaign_files.publish_campaign_value(cycle, self._folder)

    def mark_campaigns_before_change(self, campaigns: Iterable[int]) -> None:
        """Record which campaigns a cycle may change; after a kill all their tasks are published again."""
        self._killed |= published_campaign_files.campaigns_half_published(self._folder) - self._begun
        before, self._there = self._there, published_campaign_files.campaigns_with_published_tasks(self._folder)
        if before is None or not before <= self._there:
            self._killed |= self._tasks.campaigns_with_submitted_tasks() - self._there
        self._begun |= {*campaigns}
        published_campaign_files.mark_campaigns_being_published(self._begun | self._killed, self._folder)

    def publish_changed_tasks(self, attempts: Iterable[TaskAttempt], *, are_asked: bool = False) -> None:
        """Publish changed tasks and count ended tasks; with `are_asked`, subtract retried tasks from the counts."""
        for campaign in self._killed:
            self._publish_all_tasks_of_campaign(campaign)
        self._publish_tasks_of_attempts(
            (attempt for attempt in attempts if attempt.campaign not in self._killed), are_asked=are_asked
        )
        self._killed.clear()
        self._begun.clear()
        published_campaign_files.clear_campaigns_being_published(self._folder)

    def _publish_tasks_of_attempts(self, attempts: Iterable[TaskAttempt], *, are_asked: bool) -> None:
        now = self._clock.now()
        touched: dict[tuple[int, int], set[int]] = defaultdict(set)
        for attempt in attempts:
            if not is_prologue_or_epilogue_task(attempt.task):
                of_part = touched[attempt.campaign, attempt.task // A_FILE]
                of_part.update(() if attempt.outcome is TaskAttemptOutcome.COPY else (attempt.task,))
        ends: dict[int, list[publications.CampaignTaskEndCounts]] = defaultdict(list)
        for (campaign, part), numbers in sorted(touched.items()):
            shown = [task for task in self._publish_task_file(campaign, part) if task.number in numbers]
            ends[campaign] += self._count_ended_tasks(campaign, shown, now)
            if are_asked:
                again = (publications.counts_of_one_ended_task(task, now) for task in shown if task.is_waiting)
                ends[campaign] += (replace(end, failed=1).with_opposite_signs() for end in again)
        for campaign, task_ends in ends.items():
            counts = publications.sum_task_end_counts_by_cluster(task_ends, now)
            published_campaign_files.append_published_task_end_counts(campaign, counts, self._folder)

    def publish_measured_tasks(self, measured: Iterable[MeasuredTaskAttempt]) -> None:
        """Publish tasks whose usage was read after their end."""
        for campaign, part in sorted({(attempt.campaign, attempt.task // A_FILE) for attempt in measured}):
            self._publish_task_file(campaign, part)

    def _publish_all_tasks_of_campaign(self, campaign: int) -> None:
        now = self._clock.now()
        published = published_campaign_files.read_published_task_end_counts(campaign, self._folder)
        counted = tuple(end.with_opposite_signs() for end in published)
        for part in range(self._tasks.last_submitted_task(campaign) // A_FILE + 1):
            ends = self._count_ended_tasks(campaign, self._publish_task_file(campaign, part), now)
            counted = publications.sum_task_end_counts_by_cluster((*counted, *ends), now)
        published_campaign_files.append_published_task_end_counts(campaign, counted, self._folder)

    def _count_ended_tasks(
        self, campaign: int, tasks: Iterable[publications.PublishedCampaignTask], now: datetime
    ) -> list[publications.CampaignTaskEndCounts]:
        stored_campaign = self._campaigns.find_campaign(campaign)
        state = stored_campaign.state if stored_campaign else None
        return [publications.counts_of_one_ended_task(task, now, state) for task in tasks if task.has_ended]

    def _publish_task_file(self, campaign: int, part: int) -> tuple[publications.PublishedCampaignTask, ...]:
        low = part * A_FILE
        shown = self._tasks.submitted_tasks(campaign, low, low + A_FILE - 1)
        published_campaign_files.publish_campaign_task_file(campaign, part, shown, self._folder)
        return shown


def _count_open_events(opened: Iterable[CampaignEvent], open_clusters: Mapping[int, Set[str]]) -> Counter[int]:
    """Count each campaign's open events; an event of a removed cluster counts for all campaigns that use it."""
    counts = Counter[int]()
    for event in opened:
        if event.code is CampaignEventCode.DROPPED:
            counts.update(number for number, clusters in open_clusters.items() if event.cluster in clusters)
        else:
            counts[event.campaign] += 1
    return counts


def _campaign_for_publication(
    campaign: Campaign,
    *,
    events: int,
    waiting: int,
    sinks: tuple[str, ...],
    usage: tuple[TaskUsageAtCluster, ...],
    open_clusters: Set[str],
    unmet: tuple[AwaitedPredecessor, ...],
) -> publications.PublishedCampaign:
    is_cancelled = campaign.state is CampaignState.CANCELLED
    same = ("number", "owner", "submitted_at", "state", "tasks", "ended", "failed", "cancelled")
    return publications.PublishedCampaign(
        **{name: getattr(campaign, name) for name in same},
        name=campaign.jdl.name,
        type=campaign.jdl.type,
        clusters=tuple(campaign.jdl.clusters),
        events=events,
        waiting=waiting,
        sinks=sinks,
        usage=usage,
        unmet=unmet,
        ending_at=tuple(sorted(open_clusters)) if is_cancelled else (),
    )


CLOSED_SHOWN = timedelta(days=7)


class EventAndCapacityPublisher:
    def __init__(self, policy: Policy, database: StateFile, clock: Clock, folder: str = PUBLISHED) -> None:
        self._policy = policy
        self._folder = folder
        self._events = EventAndSuccessRecordRows(database)
        self._carries = InputCarryRows(database)
        self._clock = clock

    def publish_events(self) -> tuple[CampaignEvent, ...]:
        """Publish open and recently closed events; return the open events."""
        now = self._clock.now()
        events = self._events.query_events_to_publish(now - CLOSED_SHOWN)
        published_campaign_files.publish_campaign_value(PublishedCampaignEvents(at=now, events=events), self._folder)
        return tuple(event for event in events if not event.closed_at)

    def publish_cluster_slots(
        self, situation: CampaignCycleSituation, other_snapshots: Mapping[str, ClusterSnapshot] | None = None
    ) -> None:
        """Publish the slots of clusters; `other_snapshots` are of clusters that this cycle did not query."""
        shown = tuple(self._clusters_for_publication(situation, other_snapshots or {}))
        grid = publications.PublishedClusterSlotsList(at=self._clock.now(), clusters=shown)
        published_campaign_files.publish_campaign_value(grid, self._folder)

    def _clusters_for_publication(
        self, situation: CampaignCycleSituation, other_snapshots: Mapping[str, ClusterSnapshot]
    ) -> Iterator[publications.PublishedClusterSlots]:
        rooms = {**room_of(self._policy, other_snapshots, {}, {}), **situation.room}
        moments = {name: snapshot.taken_at for name, snapshot in other_snapshots.items()}
        moments |= dict.fromkeys(situation.room, situation.at)
        jdls = {campaign.number: campaign.jdl for campaign in situation.campaigns}
        for name, cluster in sorted(self._policy.clusters.items()):
            room = rooms.get(name)
            views = [view for view in situation.there if view.cluster == name]
            waiting = sum(view.waiting for view in views)
            used = (
                view.used_slots(jdls[view.campaign].slots_at(name) if view.campaign in jdls else 1) for view in views
            )
            yield publications.PublishedClusterSlots(
                name=name,
                kind=cluster.kind,
                answered_at=moments.get(name),
                slots=room.slots if room else None,
                used=room.used if room else None,
                free=room.free_besteffort_slots if room else None,
                free_for_normal=room.free_slots if room else None,
                waiting=waiting,
                running=sum(view.listed for view in views) - waiting,
                used_by_campaigns=round(sum(used)),
                carry_rates=self._carries.carry_rates(name),
            )
