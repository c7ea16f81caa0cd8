"""Compose messages to subscribers, each about all events since the last message.

Severities are as in CiGri (notifications of its module Colombo, scheduler 3.2). Network failures
and walltimes are medium, new campaigns are low, acts of the users themselves are silent, and all
other events are high. CiGri mails each event, 15 in a round.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.decisions.campaigns.campaign_event_messages import format_campaign_event_for_log
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.campaign_events import (
    ROOT_EVENTS,
    CampaignEvent,
    CampaignEventCode,
    CampaignEventSubject,
)
from gridbridge.model.campaigns.campaign_sections import NotificationsSection
from gridbridge.model.campaigns.subscriptions import (
    CampaignNotification,
    NotifiableEvent,
    NotificationChannel,
    NotificationOccasion,
    NotificationSeverity,
    NotificationSubscription,
)
from gridbridge.model.status_report import number_with_noun, replace_control_characters

ROOT = 0
MAX_LINES = 30  # most lines of a message
MAX_DOUBLINGS = 16
SILENT_EVENTS = frozenset({CampaignEventCode.FRAG})  # deletions, which the deleting user knows
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
    """Return the notification of an event; root gets events that root must fix."""
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
    """Return the notification of a new or an ended campaign."""
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
    """Compose a message for each due subscription with new events."""
    # events with later times come from a fast clock
    past = (event for event in happened if event.at <= now)
    events = sorted(past, key=lambda event: (event.at, event.campaign, event.code))
    due = (subscription for subscription in subscriptions if subscription.next_at <= now)
    return tuple(
        _message(subscription, relevant, now)
        for subscription in due
        if (relevant := [x for x in events if _is_for(subscription, x)])
    )


def _is_for(subscription: NotificationSubscription, event: NotifiableEvent) -> bool:
    is_new = event.at > subscription.told_until
    return is_new and event.uid == subscription.uid and event.severity.rank >= subscription.severity.rank


def _message(
    subscription: NotificationSubscription, events: list[NotifiableEvent], now: datetime
) -> CampaignNotification:
    lines = [event.text for event in events[:MAX_LINES]]
    lines += [f"and {len(events) - MAX_LINES} more: gridevents tells them"] if events[MAX_LINES:] else []
    first = events[0]
    subject = f"{first.code} {first.cluster}".strip() if len(events) == 1 else f"{len(events)} messages"
    about = {event.campaign for event in events}
    of = f"campaign {first.campaign}: " if len(about) == 1 and first.campaign else ""
    return CampaignNotification(
        subscription=subscription,
        until=now,
        subject=f"gridbridge: {of}{subject}",
        lines=tuple(lines),
        words=tuple(event.word for event in events[:MAX_LINES]),
    )


def drop_future_subscription_times(
    subscription: NotificationSubscription, now: datetime, policy: NotificationsSection
) -> NotificationSubscription:
    """Return a subscription without times in the future.

    Times in the future come from a fast clock.
    """
    longest = max(pause_before_next_notification(0, policy), pause_before_next_notification(policy.tries, policy))
    told_until, next_at = (min(subscription.told_until, now), min(subscription.next_at, now + longest))
    return replace(subscription, told_until=told_until, next_at=next_at)


def pause_before_next_notification(tries: int, policy: NotificationsSection) -> timedelta:
    """Return the pause after a success (`tries` 0) or after failures in a row."""
    if not tries:
        return timedelta(seconds=policy.pause_s)
    return timedelta(seconds=policy.retry_s * 2 ** min(tries - 1, MAX_DOUBLINGS))


def is_notify_channel_configured(way: NotificationChannel, policy: NotificationsSection) -> bool:
    """Say whether the site has configured a channel."""
    return {NotificationChannel.MAIL: bool(policy.mail), NotificationChannel.JABBER: bool(policy.command)}.get(
        way, True
    )
