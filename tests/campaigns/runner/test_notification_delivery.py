"""Notifications are delivered by the site's mail program or command."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.stress_and_mail_programs import deliver_notification
from gridbridge.errors import CommandFailed
from gridbridge.model.campaigns.campaign_configuration_sections import NotificationsSection
from gridbridge.model.campaigns.notification_subscriptions import (
    CampaignNotification,
    NotificationChannel,
    NotificationSeverity,
)
from gridbridge.model.campaigns.notification_subscriptions import NotificationSubscription as Subscription

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def message(way: NotificationChannel, identity: str) -> CampaignNotification:
    known = {"uid": 1000, "owner": "alice", "severity": NotificationSeverity.HIGH, "token": "ab"}
    known |= {"told_until": NOON, "next_at": NOON}
    one = Subscription(way=way, identity=identity, **known)  # type: ignore[arg-type]
    return CampaignNotification(
        subscription=one,
        subject="gridbridge: campaign 12: BLACKLIST",
        lines=("campaign 12: closed", "$(touch evil)"),
        words=("12:BLACKLIST:beta:5",),
        until=NOON,
    )


@pytest.fixture(name="policy")
def _policy(tmp_path: Path) -> NotificationsSection:
    """Return settings whose notification programs record their arguments and input."""
    for name in ("mail", "chat"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\n{{ echo "$# $*"; cat; }} >{tmp_path}/{name}.told\n')
        program.chmod(0o755)
    return NotificationsSection(mail=f"{tmp_path}/mail", command=f"{tmp_path}/chat")


def test_the_sites_command_gets_address_and_lines(policy: NotificationsSection, tmp_path: Path) -> None:
    deliver_notification(message(NotificationChannel.JABBER, "alice@chat"), policy)

    assert (tmp_path / "chat.told").read_text().splitlines() == [
        "1 alice@chat",
        "gridbridge: campaign 12: BLACKLIST",
        "campaign 12: closed",
        "$(touch evil)",
    ]
    assert not (tmp_path / "mail.told").exists()


def test_a_mail_is_sent_by_the_sites_mail_program(policy: NotificationsSection, tmp_path: Path) -> None:
    deliver_notification(message(NotificationChannel.MAIL, "alice@example.org"), policy)

    first, *lines = (tmp_path / "mail.told").read_text().splitlines()
    assert first == "2 -i alice@example.org"
    assert "To: alice@example.org" in lines
    assert "campaign 12: closed" in lines


def test_a_failing_notification_command_raises_an_error(policy: NotificationsSection, tmp_path: Path) -> None:
    (tmp_path / "chat").write_text("#!/bin/sh\nexit 75\n")

    with pytest.raises(CommandFailed):
        deliver_notification(message(NotificationChannel.JABBER, "alice@chat"), policy)
