"""Users' subscriptions to messages about their campaigns, and these messages."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.config_key_descriptions import ConfigTextFormat


class NotificationSeverity(StrEnum):
    """How severe an event is; a subscription to a severity also covers all higher severities."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """The severity as a number: 0 for the lowest severity."""
        return list(NotificationSeverity).index(self)


class NotificationChannel(StrEnum):
    MAIL = "mail"
    JABBER = "jabber"  # a command from gridbridge.toml delivers the messages
    PROGRAM = "program"  # a program of the subscriber gets the messages


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
    """The start and the end of a campaign as reasons for a message, named as in CiGri."""

    NEW_CAMPAIGN = "NEW_CAMPAIGN"
    FINISHED_CAMPAIGN = "FINISHED_CAMPAIGN"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationSubscription:
    number: int = 0  # 0: not yet stored
    uid: int
    owner: str
    way: NotificationChannel
    identity: str  # mail address, Jabber name or program path
    severity: NotificationSeverity
    token: str
    told_until: datetime  # messages about earlier events were sent or given up
    tries: int = 0  # number of consecutive failed deliveries
    next_at: datetime  # earliest time of the next message


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiableEvent:
    at: datetime
    uid: int  # uid of the campaign's owner, or of root if only root can act
    severity: NotificationSeverity
    code: str
    campaign: int
    cluster: str
    tasks: int
    text: str

    @property
    def summary_word(self) -> str:
        """The event as a text of the form CAMPAIGN:CODE:CLUSTER:TASKS."""
        return f"{self.campaign}:{self.code}:{self.cluster}:{self.tasks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignNotification:
    """A message to a subscriber about all events since the previous message."""

    subscription: NotificationSubscription
    until: datetime
    subject: str
    lines: tuple[str, ...]
    words: tuple[str, ...]
