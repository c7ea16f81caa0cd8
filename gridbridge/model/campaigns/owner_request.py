"""What owners ask about campaigns, and what they are answered."""

from dataclasses import dataclass
from enum import StrEnum


class OwnerVerb(StrEnum):
    """What an owner may ask."""

    CANCEL = "cancel"  # of campaigns, as those that follow
    PAUSE = "pause"
    RESUME = "resume"
    PURGE = "purge"
    CANCEL_TASK = "cancel_task"
    ABANDON = "abandon"  # by root: what nobody can delete of a cancelled campaign is over
    FIX = "fix"  # of events: they are closed
    RESUBMIT = "resubmit"  # the same, and their tasks are tried again
    SUBSCRIBE = "subscribe"  # to messages
    UNSUBSCRIBE = "unsubscribe"
    SUBSCRIPTIONS = "subscriptions"  # one's own are listed


class OwnerReply(StrEnum):
    """What became of a request about one campaign, or one event."""

    DONE = "done"
    UNKNOWN = "unknown"
    NOT_THEIRS = "not_theirs"
    NOT_ROOTS = "not_roots"  # root alone may do that
    NOT_CANCELLED = "not_cancelled"
    NOT_PAUSED = "not_paused"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    NOT_ENDED = "not_ended"
    NOT_TAKEN_UP = "not_taken_up"  # root does not let its campaign go on
    NO_TASK = "no_task"
    TASK_ENDED = "task_ended"
    CLOSED = "closed"  # of an event
    NOT_AGAIN = "not_again"  # of a sink: its tasks did not fail
    FILE_REFUSED = "file_refused"  # root submits nothing more of its campaign
    ONE_TRY = "one_try"  # of a test: it sends one task a cluster, ever
    NO_WAY = "no_way"  # this site tells nobody so
    TOO_MANY = "too_many"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRequest:
    """What somebody asks."""

    token: str
    uid: int
    verb: OwnerVerb
    numbers: tuple[int, ...]  # of campaigns or events
    task: int = 0  # of CANCEL_TASK
    way: str = ""  # of a subscription, as somebody wrote it
    identity: str = ""
    severity: str = ""
