"""Decide which events of clusters, campaigns and tasks a cycle of the runner opens and closes.

CiGri closes a cluster to a campaign after one program error (module Colombo, scheduler 3.2), gridbridge after
several in a row. Events about program errors and black holes stay open until the owner closes them.
"""

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import datetime

from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import (
    STARTED_OUTCOMES,
    OpenCampaignEventsInCycle,
    derive_cluster_blacklist,
    find_black_hole_clusters,
    new_campaign_event,
    repeat_event_with_longer_pause,
    select_arrays_sent_before_outage,
    update_success_records,
)
from gridbridge.decisions.campaigns.task_usage_warnings import update_task_usages, update_usage_events
from gridbridge.decisions.campaigns.unsent_task_backlog import has_unplaceable_tasks
from gridbridge.model.campaigns.campaign import (
    CampaignCluster,
    TaskAttempt,
    TaskAttemptOutcome,
    pair_attempts_with_clusters,
)
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation, TaskRetry
from gridbridge.model.campaigns.campaign_events import (
    BLACKLISTING_EVENTS,
    ROOT_EVENTS,
    USAGE_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
    CampaignSuccessAtCluster,
)
from gridbridge.model.campaigns.task_index_and_attempt_texts import is_prologue_or_epilogue_task
from gridbridge.model.campaigns.task_resource_usage import TaskUsageAtCluster

EVENT_OF_OUTCOME = {
    TaskAttemptOutcome.PROGRAM_ERROR: CampaignEventCode.EXIT_ERROR,
    TaskAttemptOutcome.SIGNAL: CampaignEventCode.EXIT_ERROR,
    TaskAttemptOutcome.WALLTIME: CampaignEventCode.WALLTIME,
    TaskAttemptOutcome.CANCELLED: CampaignEventCode.FRAG,
    TaskAttemptOutcome.SITE_FAULT: CampaignEventCode.SITE_FAULT,
    TaskAttemptOutcome.PREEMPTED: CampaignEventCode.PREEMPTED,
    TaskAttemptOutcome.SETUP_ERROR: CampaignEventCode.NOT_STARTED,
    TaskAttemptOutcome.INPUT_MISSING: CampaignEventCode.INPUT_ERROR,
    TaskAttemptOutcome.RESUBMIT: CampaignEventCode.RESUBMIT,
    TaskAttemptOutcome.RESUBMIT_LAST: CampaignEventCode.RESUBMIT,
}


def update_events_and_success_records(
    situation: CampaignCycleSituation,
    retries: Iterable[TaskRetry],
    finished: Iterable[int],
    book: OpenCampaignEventsInCycle,
) -> tuple[tuple[CampaignSuccessAtCluster, ...], tuple[TaskUsageAtCluster, ...]]:
    """Add a cycle's changes to the events in `book`; return the changed success records and usages of tasks."""
    alive = situation.uncancelled_campaigns
    ended_alive = (attempt for attempt in situation.ended if attempt.campaign in alive)
    ended = pair_attempts_with_clusters(ended_alive, situation.arrays)
    _update_silent_cluster_events(book, situation)
    _update_removed_cluster_events(book, situation)
    update_conflicting_end_events(book, situation)
    record_failed_task_events(book, ended, {(retry.campaign, retry.task) for retry in retries}, situation.at)
    _update_failed_start_events(book, ended, situation)
    records = update_success_records(situation.records, ended, select_arrays_sent_before_outage(situation))
    all_records = {(record.campaign, record.cluster): record for record in (*situation.records, *records)}
    _open_failure_and_black_hole_events(book, tuple(all_records.values()), situation)
    usages = update_task_usages(situation, ended)
    update_usage_events(book, situation, usages)
    _update_campaigns_without_cluster_events(book, situation, frozenset(finished))
    return records, usages


def _update_silent_cluster_events(book: OpenCampaignEventsInCycle, situation: CampaignCycleSituation) -> None:
    for name in sorted(situation.asked):
        event = book.find_event(CampaignEventCode.GET_JOBS, 0, name)
        if name in situation.room:
            book.close_event(event, situation.at)
        elif not event:
            event = new_campaign_event(CampaignEventSubject.CLUSTER, CampaignEventCode.GET_JOBS, 0, name, situation.at)
            book.add_or_replace_event(replace(event, why=situation.silent.get(name, "")))


def record_failed_task_events(
    book: OpenCampaignEventsInCycle,
    ended_attempts: Iterable[tuple[TaskAttempt, str]],
    retried_tasks: set[tuple[int, int]],
    at: datetime,
) -> None:
    """Record in events which tasks failed and are not retried; equal failures share an event."""
    for attempt, cluster in ended_attempts:
        if attempt.outcome not in EVENT_OF_OUTCOME or (attempt.campaign, attempt.task) in retried_tasks:
            continue
        code = EVENT_OF_OUTCOME[attempt.outcome]
        lost = f"the cluster has no trace of job {attempt.forgotten_job} or of its record"
        fresh = replace(
            new_campaign_event(CampaignEventSubject.TASK, code, attempt.campaign, cluster, at),
            exit_status=attempt.exit_status,
            first_task=attempt.task,
            why=lost if attempt.forgotten_job else "",
        )
        event = book.find_equal_event(fresh) or fresh
        book.add_or_replace_event(replace(event, tasks=event.tasks + 1, last_at=at))


def _update_failed_start_events(
    book: OpenCampaignEventsInCycle,
    ended_attempts: Iterable[tuple[TaskAttempt, str]],
    situation: CampaignCycleSituation,
) -> None:
    sent_at = {array.campaign_and_array_number: array.intended_at for array in situation.arrays}
    code = CampaignEventCode.SETUP_ERROR
    for attempt, cluster in ended_attempts:
        pair, is_started = (attempt.campaign, cluster), attempt.outcome in STARTED_OUTCOMES
        event = book.find_event(code, *pair)
        if attempt.outcome is TaskAttemptOutcome.SETUP_ERROR:
            event = event or repeat_event_with_longer_pause(None, code, pair, situation.at, situation.failures)
            first = attempt.task if event.first_task is None else event.first_task
            book.add_or_replace_event(replace(event, tasks=event.tasks + 1, first_task=first, last_at=situation.at))
        elif event and is_started and sent_at[attempt.campaign, attempt.array] > event.opened_at:
            book.close_event(event, situation.at)


def _open_failure_and_black_hole_events(
    book: OpenCampaignEventsInCycle, records: tuple[CampaignSuccessAtCluster, ...], situation: CampaignCycleSituation
) -> None:
    black_holes = find_black_hole_clusters(records)
    for record in records:
        pair = record.campaign, record.cluster
        is_bad = record.errors_in_row >= situation.failures.program_errors
        if is_bad and not book.find_event(CampaignEventCode.BLACKLIST, *pair):
            event = new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.BLACKLIST, *pair, situation.at)
            book.add_or_replace_event(replace(event, tasks=record.errors_in_row, host=record.error_host))
        if pair in black_holes and not book.find_event(CampaignEventCode.SINK, *pair):
            event = new_campaign_event(CampaignEventSubject.CAMPAIGN, CampaignEventCode.SINK, *pair, situation.at)
            book.add_or_replace_event(replace(event, tasks=record.successes))


def _update_campaigns_without_cluster_events(
    book: OpenCampaignEventsInCycle, situation: CampaignCycleSituation, finished: frozenset[int]
) -> None:
    barred = derive_cluster_blacklist(book.open_events, situation.at, situation.failures)
    lasting, code = {campaign.number for campaign in situation.campaigns}, CampaignEventCode.NO_CLUSTER
    for campaign in situation.campaigns:
        event = book.find_event(code, campaign.number)
        stuck = has_unplaceable_tasks(campaign, situation, barred)
        if stuck is False:
            book.close_event(event, situation.at)
        elif stuck and not event:
            book.add_or_replace_event(
                new_campaign_event(CampaignEventSubject.CAMPAIGN, code, campaign.number, "", situation.at)
            )
    ending = {code, CampaignEventCode.PREDECESSOR_FAILED, *USAGE_EVENTS, *BLACKLISTING_EVENTS}
    ending -= {CampaignEventCode.SINK}
    for event in book.open_events:
        is_over = event.campaign in finished and event.code in ending
        if is_over or (event.code in ROOT_EVENTS and event.campaign not in lasting):
            book.close_event(event, situation.at)


def update_conflicting_end_events(book: OpenCampaignEventsInCycle, situation: CampaignCycleSituation) -> None:
    """Update the events about contradicting accounting records, one event for each campaign and cluster."""
    of, code = defaultdict[CampaignCluster, list[int]](list), CampaignEventCode.DISPUTED
    for attempt in situation.disputed:
        of[attempt.campaign, attempt.cluster].append(attempt.task)
    for pair, tasks in of.items():
        fresh = new_campaign_event(CampaignEventSubject.CAMPAIGN, code, *pair, situation.at)
        event = book.find_event(code, *pair) or fresh
        if event.tasks != len(tasks):
            first = min((task for task in tasks if not is_prologue_or_epilogue_task(task)), default=None)
            book.add_or_replace_event(replace(event, tasks=len(tasks), first_task=first, last_at=situation.at))
    for event in book.open_events:
        if event.code is code and (event.campaign, event.cluster) not in of and event.cluster in situation.room:
            book.close_event(event, situation.at)


def find_given_up_conflicting_ends(events: Iterable[CampaignEvent]) -> frozenset[CampaignCluster]:
    """Return (campaign, cluster) wherever the owner gave up tasks with contradicting accounting records."""
    confirmed = (event for event in events if event.code is CampaignEventCode.DISPUTED and event.until)
    return frozenset((event.campaign, event.cluster) for event in confirmed)


def _update_removed_cluster_events(book: OpenCampaignEventsInCycle, situation: CampaignCycleSituation) -> None:
    code = CampaignEventCode.DROPPED
    for name in sorted(situation.dropped):
        book.close_event(book.find_event(CampaignEventCode.GET_JOBS, 0, name), situation.at)
        if not book.find_event(code, 0, name):
            book.add_or_replace_event(new_campaign_event(CampaignEventSubject.CLUSTER, code, 0, name, situation.at))
    for event in book.open_events:
        if event.code is code and event.cluster not in situation.dropped:
            book.close_event(event, situation.at)


def select_removed_clusters_declared_lost(events: Iterable[CampaignEvent], dropped: Set[str]) -> frozenset[str]:
    """Return the clusters that were removed from gridbridge.toml and whose tasks root declared lost."""
    confirmed = (event.cluster for event in events if event.code is CampaignEventCode.DROPPED and event.until)
    return frozenset(confirmed) & dropped
