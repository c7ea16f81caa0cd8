"""Who wants to be told of campaigns, how, and what a message says."""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.settings import TextFormat


class Severity(StrEnum):
    """How much something matters; who asks for one is told of it and of those above."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """Its place, the lowest first."""
        return list(Severity).index(self)


class NotificationChannel(StrEnum):
    """How somebody is told."""

    MAIL = "mail"
    JABBER = "jabber"  # CiGri's word: the command that root configured, with an identity
    PROGRAM = "program"  # the person's own, run as that person


IDENTITIES = {
    NotificationChannel.MAIL: TextFormat(
        holds=re.compile(
            "[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}(@[A-Za-z0-9][A-Za-z0-9.-]{0,252})?"
        ).fullmatch,
        right="an address, NAME@HOST or NAME",
    ),
    NotificationChannel.JABBER: TextFormat(
        holds=re.compile("[A-Za-z0-9][A-Za-z0-9@._/+-]{0,199}").fullmatch,
        right="letters, digits and @ . _ / + -, a letter or digit first",
    ),
    NotificationChannel.PROGRAM: TextFormat(
        holds=re.compile("/[!-~]{1,1000}").fullmatch,
        right="an absolute path in printable ASCII without blanks",
    ),
}


class NotificationOccasion(StrEnum):
    """What somebody may be told of besides events; CiGri's words."""

    NEW_CAMPAIGN = "NEW_CAMPAIGN"
    FINISHED_CAMPAIGN = "FINISHED_CAMPAIGN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One person's wish to be told."""

    number: int = 0  # 0: not yet kept
    uid: int
    owner: str
    way: NotificationChannel
    identity: str  # an address, a name, or a path
    severity: Severity
    token: str  # of the file that asked for it, which is its owner's
    told_until: datetime  # what happened before was told, or was given up
    tries: int = 0  # in a row, that failed
    next_at: datetime  # nothing is sent before


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiableEvent:
    """One thing that somebody may be told."""

    at: datetime
    uid: int  # whose campaign it is; root's: of a cluster
    severity: Severity
    code: str
    campaign: int
    cluster: str
    tasks: int
    text: str

    @property
    def word(self) -> str:
        """Return it as programs are told: numbers and known words alone."""
        return f"{self.campaign}:{self.code}:{self.cluster}:{self.tasks}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What one subscription is told at once."""

    subscription: Subscription
    until: datetime
    subject: str
    lines: tuple[str, ...]
    words: tuple[str, ...]
