"""Sentences for events, and messages to subscribers about new events.

Severities are as in CiGri (module Colombo, scheduler 3.2). Acts of users cause no message.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import NotificationsSection
from gridbridge.model.campaigns.campaign_events import (
    ROOT_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
)
from gridbridge.model.campaigns.notification_subscriptions import (
    CampaignNotification,
    NotifiableEvent,
    NotificationChannel,
    NotificationOccasion,
    NotificationSeverity,
    NotificationSubscription,
)
from gridbridge.model.fixed_paths import LEDGER
from gridbridge.model.published_status_and_reports import number_with_noun, replace_control_characters

EVENT_SENTENCES = {
    CampaignEventCode.GET_JOBS: "{cluster} gives no answer{why}",
    CampaignEventCode.DROPPED: (
        "gridbridge.toml has no [cluster.{cluster}] any more, so the tasks at {cluster} can't be"
        " watched: put the section back, or as root declare the tasks lost by gridevents -e {number} -r"
    ),
    CampaignEventCode.SUBMIT_JOB: "{cluster} accepts no array of the campaign now{why}",
    CampaignEventCode.OWNER_UNKNOWN: (
        "the owner's account is unknown on this host, so no task is submitted or deleted at {cluster};"
        " running tasks continue{why}"
    ),
    CampaignEventCode.NO_LEDGER: (
        "root can't read {ledger}, or that file lacks arrays at {cluster}: no task is submitted or"
        " deleted at {cluster} until the file is restored{why}"
    ),
    CampaignEventCode.NO_FILE: (
        "root can't read the campaign's file now, so no task is submitted at {cluster}; running tasks continue{why}"
    ),
    CampaignEventCode.RUNNER_SUBMIT_ERROR: "{cluster} refuses the campaign's arrays{why}",
    CampaignEventCode.SETUP_ERROR: (
        "{cluster} can not start the campaign's tasks (is exec_directory a folder of yours with free space?),"
        " or the prologue failed at {cluster}"
    ),
    CampaignEventCode.BLACKLIST: "the last {those} at {cluster} failed {alone}{host}",
    CampaignEventCode.SINK: "{tasks} tasks succeeded at {cluster} too fast to have done any work",
    CampaignEventCode.NO_CLUSTER: (
        "some waiting tasks have no cluster left: each cluster is closed to the campaign, drained or too"
        " small for a task, its nights are shorter than the walltime, or the tasks overran their walltime there"
    ),
    CampaignEventCode.PREDECESSOR_FAILED: "a predecessor has failed{why}{then}",
    CampaignEventCode.FILE_REFUSED: "no more tasks are submitted{why}",
    CampaignEventCode.RESTORED: "an older copy of the state file was restored{why}{then}",
    CampaignEventCode.DISPUTED: (
        "the accounting records of {those} at {cluster} contradict each other, and none is believed:"
        " gridevents -e {number} -r runs {them} again"
    ),
    CampaignEventCode.EXIT_ERROR: "{those} failed at {cluster}{status}",
    CampaignEventCode.WALLTIME: "{those} ran longer than the walltime at {cluster}",
    CampaignEventCode.FRAG: "{those} {were} deleted at {cluster}",
    CampaignEventCode.SITE_FAULT: "{those} {were} lost{hosts} at {cluster}{why}",
    CampaignEventCode.PREEMPTED: "{those} {were} preempted too often, the last time at {cluster}",
    CampaignEventCode.NOT_STARTED: "{those} could be started at no cluster; the last failed start was at {cluster}",
    CampaignEventCode.INPUT_ERROR: "{those} lacked input files at {cluster}{why}",
    CampaignEventCode.OUTPUT_ERROR: "the outputs of {those} at {cluster} can't be brought home yet{why}",
    CampaignEventCode.CHECKPOINT_ERROR: "the checkpoints of {those} can't be carried to {cluster}{why}",
    CampaignEventCode.EPILOG_EXIT_ERROR: "the epilogue failed at {cluster}{status}{why}",
    CampaignEventCode.WALLTIME_SHORT: "the walltime at {cluster} is too short{why}",
    CampaignEventCode.MEMORY_SMALL: "the requested memory at {cluster} is too small{why}",
    CampaignEventCode.RESUBMIT: "{those} requested too many reruns, the last time at {cluster}",
}


RESTORED_FOLLOW_UPS = {  # what an event RESTORED means for a campaign in each state
    CampaignState.PAUSED: "; the campaign is paused: griddel -r {campaign} resumes the campaign",
    CampaignState.IN_TREATMENT: "; the campaign continues with the arrays in root's ledger",
    CampaignState.TERMINATED: "; the campaign has ended, and needs no action",
    CampaignState.CANCELLED: "; the campaign was cancelled, and sends no more tasks",
}


FOLLOW_UPS = {  # {code: what an event means for a campaign in each state}
    CampaignEventCode.RESTORED: RESTORED_FOLLOW_UPS,
    CampaignEventCode.PREDECESSOR_FAILED: {
        **dict.fromkeys(
            (CampaignState.IN_TREATMENT, CampaignState.PAUSED),
            "; tasks wait until gridevents -r has retried the failed tasks; griddel {campaign} cancels the campaign",
        ),
        CampaignState.CANCELLED: "; the campaign is cancelled",
    },
}


def describe_campaign_event(event: CampaignEvent, state: CampaignState | None = None) -> str:
    """Describe an event; some events also say what follows in the campaign's present `state`."""
    status = "" if event.exit_status is None else f" with exit status {event.exit_status}"
    follow_ups = FOLLOW_UPS.get(event.code, {})
    then = follow_ups[state].format(campaign=event.campaign) if state in follow_ups else ""
    if event.code is CampaignEventCode.DROPPED and event.until:
        return f"the tasks at {event.cluster} count as lost, as declared by root"
    is_one, is_of_retries = event.tasks == 1, event.code is CampaignEventCode.RESTORED and bool(event.why)
    return EVENT_SENTENCES[event.code].format(
        number=event.number or "ID",
        cluster=event.cluster,
        tasks=event.tasks,
        those=number_with_noun(event.tasks, "task"),
        were="was" if is_one else "were",
        them="it" if is_one else "them",
        alone="by itself" if is_one else "by themselves",
        status=status,
        host=f", all of them on {event.host}" if event.host else "",
        hosts="" if event.why else " with their hosts",
        why=f": {event.why}" if event.why else "",
        ledger=f"{LEDGER}/c.{event.campaign}",
        then=f"; gridevents -c {event.campaign} -r takes over their results" if is_of_retries else then,
    )


def format_campaign_event_for_log(event: CampaignEvent, state: CampaignState | None = None) -> str:
    owner = "" if event.kind is CampaignEventSubject.CLUSTER else f"campaign {event.campaign}: "
    over = "; the event is closed" if event.closed_at else ""
    return f"{owner}{describe_campaign_event(event, state)}{over}"


ROOT = 0
MAX_LINES = 30
MAX_DOUBLINGS = 16
SILENT_EVENTS = frozenset({CampaignEventCode.FRAG})  # users who deleted tasks themselves get no message
MEDIUM_EVENTS = frozenset(
    {
        CampaignEventCode.GET_JOBS,
        CampaignEventCode.SUBMIT_JOB,
        CampaignEventCode.WALLTIME,
        CampaignEventCode.SITE_FAULT,
        CampaignEventCode.PREEMPTED,
        CampaignEventCode.RESUBMIT,
    }
)


def build_event_notification(event: CampaignEvent, campaign: Campaign | None) -> NotifiableEvent | None:
    """Return the notification about an event, to root if only root can act; None if nobody is told."""
    if event.code in SILENT_EVENTS:
        return None
    is_roots = event.kind is CampaignEventSubject.CLUSTER or event.code in (*ROOT_EVENTS, CampaignEventCode.NO_FILE)
    return NotifiableEvent(
        at=event.opened_at,
        uid=campaign.uid if campaign and not is_roots else ROOT,
        severity=NotificationSeverity.MEDIUM if event.code in MEDIUM_EVENTS else NotificationSeverity.HIGH,
        code=event.code,
        campaign=event.campaign,
        cluster=event.cluster,
        tasks=event.tasks,
        text=format_campaign_event_for_log(event, campaign.state if campaign else None),
    )


def build_start_or_end_notification(campaign: Campaign, at: datetime, *, is_over: bool) -> NotifiableEvent:
    """Return the owner's notification that a campaign has started, or (`is_over`) that it has ended."""
    name = f"campaign {campaign.number} ({replace_control_characters(campaign.jdl.name)[:60]})"
    cancelled = f", {campaign.cancelled} cancelled" if campaign.cancelled else ""
    tasks = f"{campaign.ended} of {number_with_noun(campaign.tasks, 'task')}"
    ended = f"{tasks}, {campaign.failed} of them failed{cancelled}"
    return NotifiableEvent(
        at=at,
        uid=campaign.uid,
        severity=NotificationSeverity.HIGH if is_over else NotificationSeverity.LOW,
        code=NotificationOccasion.FINISHED_CAMPAIGN if is_over else NotificationOccasion.NEW_CAMPAIGN,
        campaign=campaign.number,
        cluster="",
        tasks=campaign.ended if is_over else campaign.tasks,
        text=f"{name} has ended: {ended}" if is_over else f"{name} has {number_with_noun(campaign.tasks, 'task')}",
    )


def compose_due_notifications(
    subscriptions: Iterable[NotificationSubscription], happened: Iterable[NotifiableEvent], now: datetime
) -> tuple[CampaignNotification, ...]:
    """Compose a message with the new events for each subscription whose pause between messages is over."""
    past = (event for event in happened if event.at <= now)  # events of a fast clock may lie in the future
    events = sorted(past, key=lambda event: (event.at, event.campaign, event.code))
    due = (subscription for subscription in subscriptions if subscription.next_at <= now)
    relevant = (
        (subscription, [event for event in events if _is_event_for_subscription(subscription, event)])
        for subscription in due
    )
    return tuple(_compose_event_notification(subscription, of_it, now) for subscription, of_it in relevant if of_it)


def _is_event_for_subscription(subscription: NotificationSubscription, event: NotifiableEvent) -> bool:
    is_new = event.at > subscription.told_until
    return is_new and event.uid == subscription.uid and event.severity.rank >= subscription.severity.rank


def _compose_event_notification(
    subscription: NotificationSubscription, events: list[NotifiableEvent], now: datetime
) -> CampaignNotification:
    lines = [event.text for event in events[:MAX_LINES]]
    lines += [f"and {len(events) - MAX_LINES} more, which gridevents shows"] if events[MAX_LINES:] else []
    first = events[0]
    subject = f"{first.code} {first.cluster}".strip() if len(events) == 1 else f"{len(events)} messages"
    about = {event.campaign for event in events}
    of = f"campaign {first.campaign}: " if len(about) == 1 and first.campaign else ""
    return CampaignNotification(
        subscription=subscription,
        until=now,
        subject=f"gridbridge: {of}{subject}",
        lines=tuple(lines),
        words=tuple(event.summary_word for event in events[:MAX_LINES]),
    )


def drop_future_subscription_times(
    subscription: NotificationSubscription, now: datetime, policy: NotificationsSection
) -> NotificationSubscription:
    """Return a subscription without future times, which a fast clock may have stored."""
    longest = max(pause_before_next_notification(0, policy), pause_before_next_notification(policy.tries, policy))
    told_until, next_at = (min(subscription.told_until, now), min(subscription.next_at, now + longest))
    return replace(subscription, told_until=told_until, next_at=next_at)


def pause_before_next_notification(tries: int, policy: NotificationsSection) -> timedelta:
    """Return the pause before the next message: doubled after each of `tries` failed deliveries in a row."""
    if not tries:
        return timedelta(seconds=policy.pause_s)
    return timedelta(seconds=policy.retry_s * 2 ** min(tries - 1, MAX_DOUBLINGS))


def is_notify_channel_configured(way: NotificationChannel, policy: NotificationsSection) -> bool:
    programs = {NotificationChannel.MAIL: policy.mail, NotificationChannel.JABBER: policy.command}
    return bool(programs.get(way, True))
