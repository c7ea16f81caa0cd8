"""Requests of campaign owners about campaigns and events, and gridbridge's replies to them."""

from dataclasses import dataclass
from enum import StrEnum


class CampaignOwnerRequestVerb(StrEnum):
    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    PURGE = "purge"
    CANCEL_TASK = "cancel_task"
    ABANDON = "abandon"  # tasks that can't be deleted count as ended; only root may request this
    FIX = "fix"  # close events
    RESUBMIT = "resubmit"  # close events and run the failed tasks again
    SUBSCRIBE = "subscribe"
    UNSUBSCRIBE = "unsubscribe"
    SUBSCRIPTIONS = "subscriptions"


class CampaignOwnerRequestReply(StrEnum):
    DONE = "done"
    UNKNOWN = "unknown"
    NOT_THEIRS = "not_theirs"
    NOT_ROOTS = "not_roots"  # only root may request this
    NOT_CANCELLED = "not_cancelled"
    NOT_PAUSED = "not_paused"
    PAUSED = "paused"
    TERMINATED = "terminated"
    CANCELLED = "cancelled"
    NOT_ENDED = "not_ended"
    NEEDED = "needed"  # an unfinished campaign waits for this campaign
    COPIES_LEFT = "copies_left"  # copies of the campaign's input files are still at a cluster
    NOT_TAKEN_UP = "not_taken_up"  # root refuses to resume the campaign
    NO_TASK = "no_task"
    TASK_ENDED = "task_ended"
    CLOSED = "closed"
    NOT_AGAIN = "not_again"  # tasks that succeeded at a black hole do not run again
    FILE_REFUSED = "file_refused"  # root refuses the campaign's file, and submits no more tasks
    ONE_TRY = "one_try"  # a test campaign runs only one task at each cluster, so no task runs again
    NO_WAY = "no_way"  # gridbridge.toml does not configure this channel for messages
    TOO_MANY = "too_many"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignOwnerRequest:
    token: str
    uid: int
    verb: CampaignOwnerRequestVerb
    numbers: tuple[int, ...]  # numbers of campaigns or events
    task: int = 0
    way: str = ""  # channel for messages, as the user wrote it
    identity: str = ""
    severity: str = ""
