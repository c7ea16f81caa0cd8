"""People subscribe, are told once of what happens, and a mail server that is away stops nothing."""

import json
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from gridbridge.campaigns.runner import campaign_notifications as module
from gridbridge.campaigns.runner import stress_and_mail_programs
from gridbridge.campaigns.runner.campaign_intake import CampaignAndRequestIntake
from gridbridge.campaigns.runner.campaign_notifications import CampaignNotifier
from gridbridge.campaigns.store import campaign_files_of_owners
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.event_and_subscription_rows import (
    EventAndSuccessRecordRows,
    NotificationSubscriptionRows,
)
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import NotificationsSection
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.campaign_owner_request import CampaignOwnerRequestReply, CampaignOwnerRequestVerb
from gridbridge.model.campaigns.jdl import Jdl
from gridbridge.model.campaigns.notification_subscriptions import (
    CampaignNotification,
    NotificationChannel,
    NotificationSeverity,
)
from gridbridge.shell.clock import Clock
from gridbridge.shell.retry import poll_until
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import made_campaign, site_fixture
from tests.program.test_threads import without_room

POLICY = NotificationsSection(pause_s=60, retry_s=60, tries=3)
MAIL = {"way": "mail", "identity": "alice@example.org", "severity": "low"}
PROGRAM = {"way": "program", "identity": "/home/alice/told", "severity": "high"}


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = Clock().now()

    def clock(self) -> Clock:
        """Return what tells its time."""
        clock = Clock()
        clock.now = lambda: self.at  # type: ignore[method-assign]
        return clock

    def forward(self, seconds: float) -> None:
        """Move it."""
        self.at += timedelta(seconds=seconds)


class Site:
    """A site with the folders of people, and what was told."""

    def __init__(self, folder: Path) -> None:
        self.brought, self.published = folder / "campaigns", folder / "published"
        self.brought.mkdir()
        self.published.mkdir()
        self.watch = Watch()
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        places = (str(self.brought), str(self.published))
        clock = self.watch.clock()
        self.intake = CampaignAndRequestIntake(self.database, frozenset({"beta"}), clock, *places, notifications=POLICY)
        self.told: list[CampaignNotification] = []
        self.error: GridbridgeError | None = None
        self.notifier = CampaignNotifier(self.database, POLICY, clock, self._tell)
        self.subscriptions = NotificationSubscriptionRows(self.database)

    def _tell(self, message: CampaignNotification, policy: NotificationsSection) -> None:
        self.told.append(message)
        if self.error:
            raise self.error

    def ask(self, verb: CampaignOwnerRequestVerb, wish: dict[str, str]) -> dict[str, Any]:
        """Ask as a person; return the answer."""
        token = campaign_files_of_owners.write_owner_request_to_inbox(verb, (), str(self.brought), subscription=wish)
        self.intake.process_inbox_files()
        told: dict[str, Any] = json.loads((self.published / "taken" / token).read_text())
        return told

    def campaign(self) -> int:
        """Have a campaign of ours come."""
        one = made_campaign(uid=os.getuid(), submitted_at=self.watch.at, tasks=2, jdl=Jdl(name="sweep"))
        return CampaignRows(self.database).insert_campaign(one, f"token-{self.watch.at}")

    def event(self, code: CampaignEventCode, campaign: int) -> None:
        """Have something happen to it."""
        event = new_campaign_event(CampaignEventSubject.CAMPAIGN, code, campaign, "beta", self.watch.at)
        EventAndSuccessRecordRows(self.database).store_events([event])

    def codes(self) -> list[list[str]]:
        """Return the codes of each message."""
        return [[word.split(":")[1] for word in message.words] for message in self.told]


def tells(folder: Path) -> list[str]:
    """Return the requests to be told by a program that are kept."""
    return [path.name for path in folder.glob("tell.*")]


_site = site_fixture(Site)


def test_a_subscription_is_listed_changed_and_ended(site: Site) -> None:
    """Each by its way and identity, which come once."""
    assert site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL) == {"0": "done"}
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, {**MAIL, "severity": "high"})

    assert site.ask(CampaignOwnerRequestVerb.SUBSCRIPTIONS, {}) == {"subscriptions": [{**MAIL, "severity": "high"}]}
    assert site.ask(CampaignOwnerRequestVerb.UNSUBSCRIBE, MAIL) == {"0": "done"}
    assert site.ask(CampaignOwnerRequestVerb.UNSUBSCRIBE, MAIL) == {"0": "unknown"}
    assert site.ask(CampaignOwnerRequestVerb.SUBSCRIPTIONS, {}) == {"subscriptions": []}


@pytest.mark.parametrize(
    ("wish", "answer"),
    [
        ({**MAIL, "identity": "-oQ"}, CampaignOwnerRequestReply.WRONG),
        ({**MAIL, "severity": "dire"}, CampaignOwnerRequestReply.WRONG),
        ({**MAIL, "way": "pigeon"}, CampaignOwnerRequestReply.WRONG),
        ({"way": "jabber", "identity": "a@b", "severity": "low"}, CampaignOwnerRequestReply.NO_WAY),
    ],
    ids=["an option", "a severity", "a way", "no command here"],
)
def test_what_any_program_wrote_is_checked(site: Site, wish: dict[str, str], answer: CampaignOwnerRequestReply) -> None:
    assert site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, wish) == {"0": answer}


def test_a_person_has_twenty_subscriptions_at_most(site: Site) -> None:
    for n in range(20):
        site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, {**MAIL, "identity": f"a{n}@b"})

    assert site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL) == {"0": "too_many"}


@pytest.mark.skipif(os.getuid() == 0, reason="root has no program run")
def test_the_request_for_a_program_stays_for_root_to_read(site: Site) -> None:
    _keeps(site)


def test_the_program_is_in_its_owners_file(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is gone when it is wished no more."""
    monkeypatch.setattr("gridbridge.campaigns.runner.campaign_notifications.ROOT", -1)
    _keeps(site)


def _keeps(site: Site) -> None:
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, PROGRAM)
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, {**PROGRAM, "severity": "low"})
    (one,) = site.subscriptions.all_subscriptions()

    assert tells(site.brought) == [f"tell.{one.token}"]
    assert (one.way, one.severity) == (NotificationChannel.PROGRAM, NotificationSeverity.LOW)
    site.ask(CampaignOwnerRequestVerb.UNSUBSCRIBE, PROGRAM)
    assert tells(site.brought) == []


def test_each_thing_is_told_once_and_many_as_one(site: Site) -> None:
    """At most one message a minute."""
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.watch.forward(1)
    number = site.campaign()
    site.event(CampaignEventCode.BLACKLIST, number)
    site.watch.forward(1)
    site.notifier.send_due_notifications()
    site.notifier.send_due_notifications()
    site.watch.forward(10)
    site.event(CampaignEventCode.SINK, number)
    site.notifier.send_due_notifications()

    assert site.codes() == [["BLACKLIST", "NEW_CAMPAIGN"]]
    site.watch.forward(60)
    CampaignRows(site.database).set_campaign_state(number, CampaignState.TERMINATED, site.watch.at)
    site.notifier.send_due_notifications()
    assert site.codes()[1:] == [["SINK", "FINISHED_CAMPAIGN"]]


def test_what_happened_before_is_not_told(site: Site) -> None:
    site.event(CampaignEventCode.BLACKLIST, site.campaign())
    site.watch.forward(1)
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.notifier.send_due_notifications()

    assert site.told == []


def test_a_clock_that_was_ahead_keeps_nobody_from_being_told(site: Site) -> None:
    """What was told then is not told again."""
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.watch.forward(86400)
    number = site.campaign()
    site.notifier.send_due_notifications()
    site.watch.forward(-86400)
    site.notifier.send_due_notifications()
    for code in (CampaignEventCode.BLACKLIST, CampaignEventCode.SINK):
        site.watch.forward(241)  # the longest pause
        site.event(code, number)
        site.watch.forward(1)
        site.notifier.send_due_notifications()

    assert site.codes() == [["NEW_CAMPAIGN"], ["BLACKLIST"], ["SINK"]]


def test_a_message_that_fails_is_tried_three_times_and_then_dropped(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Each pause is twice as long; what comes then is told."""
    site.error = CommandFailed(("sendmail",), 75, b"", b"no queue")
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.watch.forward(1)
    number = site.campaign()
    for pause_s in (1, 59, 61, 121, 241, 600):
        site.notifier.send_due_notifications()
        site.watch.forward(pause_s)

    assert len(site.told) == 3
    assert "event=told_nobody" in caplog.text
    site.error = None
    site.event(CampaignEventCode.BLACKLIST, number)
    site.watch.forward(60)
    site.notifier.send_due_notifications()
    assert site.codes()[3:] == [["BLACKLIST"]]
    assert site.subscriptions.all_subscriptions()[0].tries == 0


def test_a_mail_that_hangs_holds_up_nobody(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a second one sent beside it."""
    monkeypatch.setattr("gridbridge.campaigns.runner.campaign_notifications.PATIENCE_S", 0.05)
    goes_on = threading.Event()
    slow: list[CampaignNotification] = []

    def tell(message: CampaignNotification, policy: NotificationsSection) -> None:
        slow.append(message)
        goes_on.wait(10)

    notifier = CampaignNotifier(site.database, POLICY, site.watch.clock(), tell)
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.watch.forward(1)
    site.campaign()
    notifier.send_due_notifications()
    site.watch.forward(600)
    notifier.send_due_notifications()
    goes_on.set()
    is_noted = lambda: notifier.send_due_notifications() or site.subscriptions.all_subscriptions()[0].tries == 0  # noqa: E731

    assert poll_until(is_noted, 10)
    assert len(slow) == 1


def test_a_mail_has_its_headers_and_nobodys_name_adds_one(site: Site) -> None:
    """A campaign may be called anything."""
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.watch.forward(1)
    site.campaign()
    site.notifier.send_due_notifications()
    text = stress_and_mail_programs.notification_email(site.told[0]).decode()

    head, _, body = text.partition("\n\n")
    assert "To: alice@example.org" in head
    assert "Subject: gridbridge: campaign 1: NEW_CAMPAIGN" in head
    assert "Auto-Submitted: auto-generated" in head
    assert body.startswith("campaign 1 (sweep) has 2 tasks\n")


def test_a_run_of_one_cycle_notes_that_a_slow_mail_was_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """From cron each run ends with its cycle: the next one does not tell the same once more."""
    monkeypatch.setattr("gridbridge.campaigns.runner.campaign_notifications.PATIENCE_S", 0.01)
    slow: list[CampaignNotification] = []

    def tell(message: CampaignNotification, policy: NotificationsSection) -> None:
        time.sleep(0.2)
        slow.append(message)

    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.watch.forward(1)
    site.campaign()
    for _ in range(3):
        notifier = CampaignNotifier(site.database, POLICY, site.watch.clock(), tell)
        notifier.send_due_notifications()
        notifier.wait_for_deliveries()
        site.watch.forward(600)

    assert len(slow) == 1
    assert site.subscriptions.all_subscriptions()[0].tries == 0


def test_a_mailer_that_prints_without_end_is_ended(tmp_path: Path, site: Site) -> None:
    """Nobody keeps what it says, and that it is so is told."""
    mailer = tmp_path / "mailer"
    mailer.write_text("#!/bin/sh\nexec yes\n")
    mailer.chmod(0o755)
    site.ask(CampaignOwnerRequestVerb.SUBSCRIBE, MAIL)
    site.watch.forward(1)
    site.campaign()
    site.notifier.send_due_notifications()

    with pytest.raises(CommandFailed, match="64 KiB"):
        stress_and_mail_programs.deliver_notification(site.told[0], NotificationsSection(mail=str(mailer)))


def test_a_message_for_which_no_thread_can_be_started_was_not_told() -> None:
    """It is tried again as any that failed, and the cycle goes on."""

    def act(_: Callable[[], None]) -> None:
        message = cast("CampaignNotification", None)
        sending = module._Sending(message, POLICY, lambda *_: None)

        assert sending.wait_for_delivery(5)
        assert sending.error == "can't start new thread"

    without_room(act)
