"""Subscribers get messages about events of their campaigns, by severity and after pauses."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from gridbridge.decisions.campaigns.event_texts_and_notifications import (
    ROOT,
    build_event_notification,
    build_start_or_end_notification,
    compose_due_notifications,
    pause_before_next_notification,
)
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import NotificationsSection
from gridbridge.model.campaigns.campaign_events import CampaignEvent, CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.notification_subscriptions import (
    IDENTITIES,
    NotifiableEvent,
    NotificationChannel,
    NotificationSeverity,
    NotificationSubscription,
)
from tests.decisions.campaigns.campaign_builder import NOON, make_campaign

LATER = NOON + timedelta(seconds=5)
ALICE, BOB = 1000, 1001
WISH = NotificationSubscription(
    number=1,
    uid=ALICE,
    owner="alice",
    way=NotificationChannel.MAIL,
    identity="alice@example.org",
    severity=NotificationSeverity.HIGH,
    token="t",
    told_until=NOON,
    next_at=NOON,
)
SWEEP = make_campaign(number=12, uid=ALICE, state=CampaignState.TERMINATED, submitted_at=NOON, tasks=9)


def happened(code: CampaignEventCode, uid: int = ALICE, campaign: int = 12, at: datetime = LATER) -> NotifiableEvent:
    kind = CampaignEventSubject.CAMPAIGN if campaign else CampaignEventSubject.CLUSTER
    event = CampaignEvent(kind=kind, code=code, campaign=campaign, cluster="beta", tasks=5, opened_at=at, last_at=at)
    return build_event_notification(event, replace(SWEEP, uid=uid))


@pytest.mark.parametrize(
    ("severity", "told"),
    [(NotificationSeverity.HIGH, ["BLACKLIST"]), (NotificationSeverity.MEDIUM, ["BLACKLIST", "WALLTIME"])],
)
def test_a_subscription_covers_its_severity_and_higher_severities(
    severity: NotificationSeverity, told: list[str]
) -> None:
    every = [happened(CampaignEventCode.BLACKLIST), happened(CampaignEventCode.WALLTIME)]
    found = compose_due_notifications([replace(WISH, severity=severity)], every, LATER)

    assert [word.split(":")[1] for word in found[0].words] == told


def test_subscribers_get_only_their_own_events_and_root_gets_cluster_events() -> None:
    every = [happened(CampaignEventCode.BLACKLIST, uid=BOB), happened(CampaignEventCode.GET_JOBS, campaign=0)]
    root = replace(WISH, uid=ROOT, severity=NotificationSeverity.LOW)

    assert compose_due_notifications([replace(WISH, severity=NotificationSeverity.LOW)], every, LATER) == ()
    (found,) = compose_due_notifications([root], every, LATER)
    assert found.words == ("0:GET_JOBS:beta:5",)


def test_no_event_is_sent_twice_or_before_the_pause_is_over() -> None:
    every = [happened(CampaignEventCode.BLACKLIST)]

    for wish in (replace(WISH, told_until=LATER), replace(WISH, next_at=LATER + timedelta(seconds=1))):
        assert compose_due_notifications([wish], every, LATER) == ()


def test_many_events_make_one_message_of_at_most_thirty_event_lines() -> None:
    every = [happened(CampaignEventCode.BLACKLIST, campaign=n) for n in range(1, 41)]
    (found,) = compose_due_notifications([WISH], every, LATER)

    assert found.subject == "gridbridge: 40 messages"
    assert len(found.lines) == 31
    assert found.lines[-1] == "and 10 more, which gridevents shows"
    assert len(found.words) == 30
    assert found.until == LATER


def test_tasks_deleted_by_a_user_cause_no_notification() -> None:
    event = CampaignEvent(
        kind=CampaignEventSubject.TASK, code=CampaignEventCode.FRAG, campaign=1, opened_at=NOON, last_at=NOON
    )

    assert build_event_notification(event, SWEEP) is None


def test_a_notification_about_a_campaigns_end_has_the_numbers_of_tasks() -> None:
    one = replace(SWEEP, ended=9, failed=2, jdl=Jdl(name="two\nlines"))
    found = build_start_or_end_notification(one, LATER, is_over=True)
    (message,) = compose_due_notifications([WISH], [found], LATER)

    assert message.subject == "gridbridge: campaign 12: FINISHED_CAMPAIGN"
    (line,) = message.lines
    assert "has ended: 9 of 9 tasks, 2 of them failed" in line
    fewer = build_start_or_end_notification(replace(one, failed=0, cancelled=3), LATER, is_over=True)
    assert fewer.text.endswith("has ended: 9 of 9 tasks, 0 of them failed, 3 cancelled")
    assert "\n" not in line


@pytest.mark.parametrize(("tries", "seconds"), [(0, 7), (1, 60), (2, 120), (4, 480)])
def test_each_failed_delivery_doubles_the_pause(tries: int, seconds: float) -> None:
    policy = NotificationsSection(pause_s=7)

    assert pause_before_next_notification(tries, policy) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("way", "identity", "is_good"),
    [
        (NotificationChannel.MAIL, "alice@example.org", True),
        (NotificationChannel.MAIL, "alice", True),
        (NotificationChannel.MAIL, "-oQ/tmp", False),
        (NotificationChannel.MAIL, "a@b\nBcc: c@d", False),
        (NotificationChannel.MAIL, "a b@c", False),
        (NotificationChannel.JABBER, "alice@chat.example.org/desk", True),
        (NotificationChannel.JABBER, "--config=/tmp/x", False),
        (NotificationChannel.PROGRAM, "/home/alice/told", True),
        (NotificationChannel.PROGRAM, "told; rm", False),
    ],
)
def test_a_notification_address_is_no_option_and_has_one_line(
    way: NotificationChannel, identity: str, is_good: bool
) -> None:
    assert bool(IDENTITIES[way].holds(identity)) is is_good
