"""Who is told what, and when: one message for all that happened since the last one.

How much a code matters is as in CiGri (Colombo's notifications, scheduler 3.2): troubles of the
network and walltimes are medium, a new campaign is low, what follows from users' own acts is not
told, and all else is high. CiGri mails each event, 15 in a round; here a message has all of them.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from gridbridge.decisions.campaigns.failures.event_messages import log_message
from gridbridge.model.campaigns.campaign import Campaign
from gridbridge.model.campaigns.campaign_events import ROOTS, CampaignEvent, EventCode, EventKind
from gridbridge.model.campaigns.campaign_sections import Notifications
from gridbridge.model.campaigns.subscriptions import (
    NotifiableEvent,
    Notification,
    NotificationChannel,
    NotificationOccasion,
    Severity,
    Subscription,
)
from gridbridge.model.status_report import count, printable

ROOT = 0
MOST = 30  # lines of a message
MAX_DOUBLINGS = 16
UNTOLD = frozenset({EventCode.FRAG})  # somebody deleted them, and knows
MEDIUM = frozenset(
    {
        EventCode.GET_JOBS,
        EventCode.SUBMIT_JOB,
        EventCode.WALLTIME,
        EventCode.SITE_FAULT,
        EventCode.PREEMPTED,
        EventCode.RESUBMIT,
    }
)


def of_event(event: CampaignEvent, campaign: Campaign | None) -> NotifiableEvent | None:
    """Return what is told of an event of somebody's campaign; what root has to mend is root's."""
    if event.code in UNTOLD:
        return None
    is_roots = event.kind is EventKind.CLUSTER or event.code in (*ROOTS, EventCode.NO_FILE)
    return NotifiableEvent(
        at=event.opened_at,
        uid=campaign.uid if campaign and not is_roots else ROOT,
        severity=Severity.MEDIUM if event.code in MEDIUM else Severity.HIGH,
        code=event.code,
        campaign=event.campaign,
        cluster=event.cluster,
        tasks=event.tasks,
        text=log_message(event, campaign.state if campaign else None),
    )


def of_campaign(campaign: Campaign, at: datetime, *, is_over: bool) -> NotifiableEvent:
    """Return what is told of a campaign that is new, or has ended."""
    name = f"campaign {campaign.number} ({printable(campaign.jdl.name)[:60]})"
    cancelled = f", {campaign.cancelled} cancelled" if campaign.cancelled else ""
    tasks = f"{campaign.ended} of {count(campaign.tasks, 'task')}"
    ended = f"{tasks}, {campaign.failed} of them failed{cancelled}"
    return NotifiableEvent(
        at=at,
        uid=campaign.uid,
        severity=Severity.HIGH if is_over else Severity.LOW,
        code=NotificationOccasion.FINISHED_CAMPAIGN
        if is_over
        else NotificationOccasion.NEW_CAMPAIGN,
        campaign=campaign.number,
        cluster="",
        tasks=campaign.ended if is_over else campaign.tasks,
        text=f"{name} has ended: {ended}"
        if is_over
        else f"{name} has {count(campaign.tasks, 'task')}",
    )


def messages(
    subscriptions: Iterable[Subscription], happened: Iterable[NotifiableEvent], now: datetime
) -> tuple[Notification, ...]:
    """Return a message for each subscription that has something to tell and may send now."""
    past = (event for event in happened if event.at <= now)  # else the clock was ahead
    events = sorted(past, key=lambda event: (event.at, event.campaign, event.code))
    due = (subscription for subscription in subscriptions if subscription.next_at <= now)
    return tuple(
        _message(subscription, relevant, now)
        for subscription in due
        if (relevant := [x for x in events if _is_for(subscription, x)])
    )


def _is_for(subscription: Subscription, event: NotifiableEvent) -> bool:
    is_new = event.at > subscription.told_until
    return (
        is_new
        and event.uid == subscription.uid
        and event.severity.rank >= subscription.severity.rank
    )


def _message(
    subscription: Subscription, events: list[NotifiableEvent], now: datetime
) -> Notification:
    lines = [event.text for event in events[:MOST]]
    lines += [f"and {len(events) - MOST} more: gridevents tells them"] if events[MOST:] else []
    first = events[0]
    subject = (
        f"{first.code} {first.cluster}".strip() if len(events) == 1 else f"{len(events)} messages"
    )
    about = {event.campaign for event in events}
    of = f"campaign {first.campaign}: " if len(about) == 1 and first.campaign else ""
    return Notification(
        subscription=subscription,
        until=now,
        subject=f"gridbridge: {of}{subject}",
        lines=tuple(lines),
        words=tuple(event.word for event in events[:MOST]),
    )


def set_back(subscription: Subscription, now: datetime, policy: Notifications) -> Subscription:
    """Return a subscription without moments that a clock noted which was ahead of now."""
    longest = max(pause(0, policy), pause(policy.tries, policy))
    told_until, next_at = (
        min(subscription.told_until, now),
        min(subscription.next_at, now + longest),
    )
    return replace(subscription, told_until=told_until, next_at=next_at)


def pause(tries: int, policy: Notifications) -> timedelta:
    """Return how long nothing is sent after so many failures in a row, none: after a success."""
    if not tries:
        return timedelta(seconds=policy.pause_s)
    return timedelta(seconds=policy.retry_s * 2 ** min(tries - 1, MAX_DOUBLINGS))


def may_be_told(way: NotificationChannel, policy: Notifications) -> bool:
    """Say whether the site tells people so."""
    return {
        NotificationChannel.MAIL: bool(policy.mail),
        NotificationChannel.JABBER: bool(policy.command),
    }.get(way, True)
