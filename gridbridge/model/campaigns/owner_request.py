"""Requests of owners about their campaigns and events, and the replies to them."""

from dataclasses import dataclass
from enum import StrEnum


class CampaignOwnerRequestVerb(StrEnum):
    """The act that an owner requests of campaigns or events."""

    CANCEL = "cancel"  # cancel campaigns
    PAUSE = "pause"
    RESUME = "resume"
    PURGE = "purge"
    CANCEL_TASK = "cancel_task"
    ABANDON = "abandon"  # root only: count undeletable tasks of a cancelled campaign as ended
    FIX = "fix"  # close events
    RESUBMIT = "resubmit"  # close events and run their tasks again
    SUBSCRIBE = "subscribe"  # subscribe the sender to messages
    UNSUBSCRIBE = "unsubscribe"
    SUBSCRIPTIONS = "subscriptions"  # list the sender's subscriptions


class CampaignOwnerRequestReply(StrEnum):
    """The reply to a request about one campaign or one event."""

    DONE = "done"
    UNKNOWN = "unknown"
    NOT_THEIRS = "not_theirs"
    NOT_ROOTS = "not_roots"  # only root may make this request
    NOT_CANCELLED = "not_cancelled"
    NOT_PAUSED = "not_paused"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    NOT_ENDED = "not_ended"
    NOT_TAKEN_UP = "not_taken_up"  # root refuses to reopen the campaign
    NO_TASK = "no_task"
    TASK_ENDED = "task_ended"
    CLOSED = "closed"  # the event is closed
    NOT_AGAIN = "not_again"  # no retry after a black hole: its tasks did not fail
    FILE_REFUSED = "file_refused"  # root refuses the campaign's file and submits no more tasks
    ONE_TRY = "one_try"  # a test campaign sends one task per cluster, ever
    NO_WAY = "no_way"  # the site has not configured the notification channel
    TOO_MANY = "too_many"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOwnerRequest:
    """A request of an owner about campaigns or events."""

    token: str
    uid: int
    verb: CampaignOwnerRequestVerb
    numbers: tuple[int, ...]  # numbers of campaigns or events
    task: int = 0  # number of the task that CANCEL_TASK cancels
    way: str = ""  # channel of a subscription, as its owner wrote it
    identity: str = ""
    severity: str = ""
