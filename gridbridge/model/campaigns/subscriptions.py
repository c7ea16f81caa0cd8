"""Subscriptions of users to messages about their campaigns, and these messages."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.key_settings import ConfigTextFormat


class NotificationSeverity(StrEnum):
    """The severity of an event; subscribers also get all higher severities."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """The position of the severity, from the lowest."""
        return list(NotificationSeverity).index(self)


class NotificationChannel(StrEnum):
    """The channel by which a user gets messages."""

    MAIL = "mail"
    JABBER = "jabber"  # the notification command that root configured; CiGri's word
    PROGRAM = "program"  # the subscriber's own program, run as the subscriber


IDENTITIES = {
    NotificationChannel.MAIL: ConfigTextFormat(
        holds=re.compile("[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}(@[A-Za-z0-9][A-Za-z0-9.-]{0,252})?").fullmatch,
        right="an address, NAME@HOST or NAME",
    ),
    NotificationChannel.JABBER: ConfigTextFormat(
        holds=re.compile("[A-Za-z0-9][A-Za-z0-9@._/+-]{0,199}").fullmatch,
        right="letters, digits and @ . _ / + -, a letter or digit first",
    ),
    NotificationChannel.PROGRAM: ConfigTextFormat(
        holds=re.compile("/[!-~]{1,1000}").fullmatch, right="an absolute path in printable ASCII without blanks"
    ),
}


class NotificationOccasion(StrEnum):
    """Occasions of messages besides events, with CiGri's names."""

    NEW_CAMPAIGN = "NEW_CAMPAIGN"
    FINISHED_CAMPAIGN = "FINISHED_CAMPAIGN"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSubscription:
    """A user's subscription to messages of one channel and severity."""

    number: int = 0  # number of the subscription; 0: not yet stored
    uid: int
    owner: str
    way: NotificationChannel
    identity: str  # mail address, Jabber name or program path, by channel
    severity: NotificationSeverity
    token: str  # token of the subscriber's request file
    told_until: datetime  # time up to which events were sent or given up
    tries: int = 0  # failed deliveries in a row
    next_at: datetime  # earliest time of the next message


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiableEvent:
    """An event or occasion that subscribers may be notified of."""

    at: datetime
    uid: int  # owner of the campaign; root for events of clusters
    severity: NotificationSeverity
    code: str
    campaign: int
    cluster: str
    tasks: int
    text: str

    @property
    def word(self) -> str:
        """The event as the text CAMPAIGN:CODE:CLUSTER:TASKS."""
        return f"{self.campaign}:{self.code}:{self.cluster}:{self.tasks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignNotification:
    """One message to a subscriber, about all events since the last message."""

    subscription: NotificationSubscription
    until: datetime
    subject: str
    lines: tuple[str, ...]
    words: tuple[str, ...]
