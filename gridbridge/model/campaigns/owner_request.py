"""Requests of owners about their campaigns and events, and the replies to them."""

from dataclasses import dataclass
from enum import StrEnum


class OwnerRequestVerb(StrEnum):
    """The act that an owner requests of campaigns or events."""

    CANCEL = "cancel"  # for campaigns, as the following
    PAUSE = "pause"
    RESUME = "resume"
    PURGE = "purge"
    CANCEL_TASK = "cancel_task"
    ABANDON = "abandon"  # root alone: undeletable tasks of a cancelled campaign count as ended
    FIX = "fix"  # for events: close them
    RESUBMIT = "resubmit"  # for events: close them and run their tasks again
    SUBSCRIBE = "subscribe"  # receive messages
    UNSUBSCRIBE = "unsubscribe"
    SUBSCRIPTIONS = "subscriptions"  # list the sender's subscriptions


class OwnerRequestReply(StrEnum):
    """The reply to a request about one campaign or one event."""

    DONE = "done"
    UNKNOWN = "unknown"
    NOT_THEIRS = "not_theirs"
    NOT_ROOTS = "not_roots"  # only root may do this
    NOT_CANCELLED = "not_cancelled"
    NOT_PAUSED = "not_paused"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    NOT_ENDED = "not_ended"
    NOT_TAKEN_UP = "not_taken_up"  # root does not let the campaign go on
    NO_TASK = "no_task"
    TASK_ENDED = "task_ended"
    CLOSED = "closed"  # for an event
    NOT_AGAIN = "not_again"  # for a black hole: its tasks did not fail
    FILE_REFUSED = "file_refused"  # root submits nothing more of the campaign
    ONE_TRY = "one_try"  # for a test campaign: it sends one task per cluster, ever
    NO_WAY = "no_way"  # this site has not configured the channel
    TOO_MANY = "too_many"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOwnerRequest:
    """A request of an owner about campaigns or events."""

    token: str
    uid: int
    verb: OwnerRequestVerb
    numbers: tuple[int, ...]  # numbers of campaigns or events
    task: int = 0  # task of CANCEL_TASK
    way: str = ""  # channel of a subscription, as its owner wrote it
    identity: str = ""
    severity: str = ""
