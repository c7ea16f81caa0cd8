"""Users subscribe to notifications, get each event once, and a failing mail server delays no cycle."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from gridbridge.campaigns.runner import campaign_notifications as module
from gridbridge.campaigns.runner import stress_and_mail_programs
from gridbridge.campaigns.runner.campaign_notifications import CampaignNotifier
from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.event_and_subscription_rows import NotificationSubscriptionRows
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import NotificationsSection
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply as Reply
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestVerb as Verb
from gridbridge.model.campaigns.notification_subscriptions import (
    CampaignNotification,
    NotificationChannel,
    NotificationSeverity,
)
from gridbridge.shell.clock import Clock
from gridbridge.shell.retry import poll_until
from tests.builders.campaigns import made_campaign, site_fixture
from tests.builders.programs import write_program
from tests.campaigns.runner.intake_site import IntakeSite
from tests.program.test_threads import without_room

POLICY = NotificationsSection(pause_s=60, retry_s=60, tries=3)
MAIL = {"way": "mail", "identity": "alice@example.org", "severity": "low"}
PROGRAM = {"way": "program", "identity": "/home/alice/told", "severity": "high"}


class NotifyingSite(IntakeSite):
    notifications = POLICY

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.at = Clock().now()
        self.clock = Clock(lambda: self.at.timestamp())
        self.restarted()
        self.told: list[CampaignNotification] = []
        self.error: GridbridgeError | None = None
        self.notifier = CampaignNotifier(self.database, POLICY, self.clock, self._tell)
        self.subscriptions = NotificationSubscriptionRows(self.database)

    def forward(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def _tell(self, message: CampaignNotification, policy: NotificationsSection) -> None:
        self.told.append(message)
        if self.error:
            raise self.error

    def subscribe(self, wish: dict[str, str], verb: Verb = Verb.SUBSCRIBE) -> dict[str, Any]:
        token = campaign_files_of_owners.write_owner_request_to_inbox(verb, (), str(self.brought), subscription=wish)
        self.intake.process_inbox_files()
        return self.answer(token)

    def new_campaign(self) -> int:
        return self.insert(made_campaign(uid=os.getuid(), submitted_at=self.at, tasks=2))

    def subscribed_campaign(self) -> int:
        """Subscribe to notifications by mail, and add a campaign a second later."""
        self.subscribe(MAIL)
        self.forward(1)
        return self.new_campaign()

    def event(self, code: CampaignEventCode, campaign: int) -> None:
        self.open_event(code, campaign=campaign, opened_at=self.at, last_at=self.at)

    def codes(self) -> list[list[str]]:
        return [[word.split(":")[1] for word in message.words] for message in self.told]


def kept_program_requests(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("tell.*")]


_site = site_fixture(NotifyingSite)


def test_a_subscription_is_listed_changed_and_removed(site: NotifyingSite) -> None:
    assert site.subscribe(MAIL) == {"0": "done"}
    site.subscribe({**MAIL, "severity": "high"})

    assert site.subscribe({}, Verb.SUBSCRIPTIONS) == {"subscriptions": [{**MAIL, "severity": "high"}]}
    assert site.subscribe(MAIL, Verb.UNSUBSCRIBE) == {"0": "done"}
    assert site.subscribe(MAIL, Verb.UNSUBSCRIBE) == {"0": "unknown"}
    assert site.subscribe({}, Verb.SUBSCRIPTIONS) == {"subscriptions": []}


@pytest.mark.parametrize(
    ("wish", "answer"),
    [
        ({**MAIL, "identity": "-oQ"}, Reply.WRONG),
        ({**MAIL, "severity": "dire"}, Reply.WRONG),
        ({**MAIL, "way": "pigeon"}, Reply.WRONG),
        ({"way": "jabber", "identity": "a@b", "severity": "low"}, Reply.NO_WAY),
    ],
    ids=["an option", "a severity", "a way", "no command here"],
)
def test_an_invalid_subscription_is_refused(site: NotifyingSite, wish: dict[str, str], answer: Reply) -> None:
    assert site.subscribe(wish) == {"0": answer}


def test_a_user_has_at_most_twenty_subscriptions(site: NotifyingSite) -> None:
    for n in range(20):
        site.subscribe({**MAIL, "identity": f"a{n}@b"})

    assert site.subscribe(MAIL) == {"0": "too_many"}


@pytest.mark.skipif(os.getuid() == 0, reason="root has no program run")
def test_root_can_subscribe_no_program(site: NotifyingSite) -> None:
    _keeps(site)


def test_the_request_file_of_a_program_subscription_is_kept_for_root(
    site: NotifyingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridbridge.campaigns.runner.campaign_notifications.ROOT", -1)
    _keeps(site)


def _keeps(site: NotifyingSite) -> None:
    site.subscribe(PROGRAM)
    site.subscribe({**PROGRAM, "severity": "low"})
    (one,) = site.subscriptions.all_subscriptions()

    assert kept_program_requests(site.brought) == [f"tell.{one.token}"]
    assert (one.way, one.severity) == (NotificationChannel.PROGRAM, NotificationSeverity.LOW)
    site.subscribe(PROGRAM, Verb.UNSUBSCRIBE)
    assert kept_program_requests(site.brought) == []


def test_each_event_is_notified_once_in_at_most_one_message_a_minute(site: NotifyingSite) -> None:
    number = site.subscribed_campaign()
    site.event(CampaignEventCode.BLACKLIST, number)
    site.forward(1)
    site.notifier.send_due_notifications()
    site.notifier.send_due_notifications()
    site.forward(10)
    site.event(CampaignEventCode.SINK, number)
    site.notifier.send_due_notifications()

    assert site.codes() == [["BLACKLIST", "NEW_CAMPAIGN"]]
    site.forward(60)
    site.campaigns.set_campaign_state(number, CampaignState.TERMINATED, site.at)
    site.notifier.send_due_notifications()
    assert site.codes()[1:] == [["SINK", "FINISHED_CAMPAIGN"]]


def test_events_before_the_subscription_are_not_notified(site: NotifyingSite) -> None:
    site.event(CampaignEventCode.BLACKLIST, site.new_campaign())
    site.forward(1)
    site.subscribe(MAIL)
    site.notifier.send_due_notifications()

    assert site.told == []


def test_notifications_continue_after_the_clock_was_set_back(site: NotifyingSite) -> None:
    site.subscribe(MAIL)
    site.forward(86400)
    number = site.new_campaign()
    site.notifier.send_due_notifications()
    site.forward(-86400)
    site.notifier.send_due_notifications()
    for code in (CampaignEventCode.BLACKLIST, CampaignEventCode.SINK):
        site.forward(241)  # the longest pause
        site.event(code, number)
        site.forward(1)
        site.notifier.send_due_notifications()

    assert site.codes() == [["NEW_CAMPAIGN"], ["BLACKLIST"], ["SINK"]]


def test_a_failed_notification_is_dropped_after_three_attempts(
    site: NotifyingSite, caplog: pytest.LogCaptureFixture
) -> None:
    site.error = CommandFailed(("sendmail",), 75, b"", b"no queue")
    number = site.subscribed_campaign()
    for pause_s in (1, 59, 61, 121, 241, 600):
        site.notifier.send_due_notifications()
        site.forward(pause_s)

    assert len(site.told) == 3
    assert "event=told_nobody" in caplog.text
    site.error = None
    site.event(CampaignEventCode.BLACKLIST, number)
    site.forward(60)
    site.notifier.send_due_notifications()
    assert site.codes()[3:] == [["BLACKLIST"]]
    assert site.subscriptions.all_subscriptions()[0].tries == 0


def test_a_hanging_mail_program_delays_no_cycle(site: NotifyingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridbridge.campaigns.runner.campaign_notifications.PATIENCE_S", 0.05)
    goes_on = threading.Event()
    slow: list[CampaignNotification] = []

    def tell(message: CampaignNotification, policy: NotificationsSection) -> None:
        slow.append(message)
        goes_on.wait(10)

    notifier = CampaignNotifier(site.database, POLICY, site.clock, tell)
    site.subscribed_campaign()
    notifier.send_due_notifications()
    site.forward(600)
    notifier.send_due_notifications()
    goes_on.set()
    is_noted = lambda: notifier.send_due_notifications() or site.subscriptions.all_subscriptions()[0].tries == 0  # noqa: E731

    assert poll_until(is_noted, 10)
    assert len(slow) == 1


def deliver(site: NotifyingSite, folder: Path, commands: str, **subscription: Any) -> list[str]:
    """Deliver a notification about a campaign; return the lines that the site's program got."""
    site.subscribed_campaign()
    site.notifier.send_due_notifications()
    program = write_program(folder / "program", f"#!/bin/sh\n{commands}\n")
    (message,) = site.told
    message = replace(message, subscription=replace(message.subscription, **subscription))
    policy = NotificationsSection(mail=str(program), command=str(program))
    stress_and_mail_programs.deliver_notification(message, policy)
    return (folder / "input").read_text().splitlines()


def test_the_sites_mail_program_gets_address_headers_and_lines(site: NotifyingSite, tmp_path: Path) -> None:
    first, *lines = deliver(site, tmp_path, f'{{ echo "$# $*"; cat; }} >{tmp_path}/input')

    head, body = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert first == "2 -i alice@example.org"
    assert "To: alice@example.org" in head
    assert "Subject: gridbridge: campaign 1: NEW_CAMPAIGN" in head
    assert "Auto-Submitted: auto-generated" in head
    assert body[0] == "campaign 1 (sweep) has 2 tasks"


def test_the_sites_command_gets_address_and_lines(site: NotifyingSite, tmp_path: Path) -> None:
    jabber = {"way": NotificationChannel.JABBER, "identity": "alice@chat"}

    lines = deliver(site, tmp_path, f'{{ echo "$# $*"; cat; }} >{tmp_path}/input', **jabber)

    assert lines[:3] == [
        "1 alice@chat",
        "gridbridge: campaign 1: NEW_CAMPAIGN",
        "campaign 1 (sweep) has 2 tasks",
    ]


def test_a_failing_notification_command_raises_an_error(site: NotifyingSite, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed):
        deliver(site, tmp_path, "exit 75", way=NotificationChannel.JABBER, identity="alice@chat")


def test_a_single_cycle_waits_for_a_slow_mail_and_records_it(
    site: NotifyingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gridbridge.campaigns.runner.campaign_notifications.PATIENCE_S", 0.01)
    slow: list[CampaignNotification] = []

    def tell(message: CampaignNotification, policy: NotificationsSection) -> None:
        time.sleep(0.2)
        slow.append(message)

    site.subscribed_campaign()
    for _ in range(3):
        notifier = CampaignNotifier(site.database, POLICY, site.clock, tell)
        notifier.send_due_notifications()
        notifier.wait_for_deliveries()
        site.forward(600)

    assert len(slow) == 1
    assert site.subscriptions.all_subscriptions()[0].tries == 0


def test_a_mail_program_with_endless_output_is_stopped(tmp_path: Path, site: NotifyingSite) -> None:
    with pytest.raises(CommandFailed, match="64 KiB"):
        deliver(site, tmp_path, "exec yes")


def test_a_notification_without_a_free_thread_counts_as_failed() -> None:
    def act(_: Callable[[], None]) -> None:
        message = cast("CampaignNotification", None)
        sending = module._NotificationDelivery(message, POLICY, lambda *_: None)

        assert sending.wait_for_delivery(5)
        assert sending.error == "can't start new thread"

    without_room(act)
