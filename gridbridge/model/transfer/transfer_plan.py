"""What the service is going to do about transfers: actions, each with a sentence that says why."""

from dataclasses import dataclass
from enum import Enum

from gridbridge.model.message import StarterMessage
from gridbridge.model.transfer.transfer_row import Transfer


class TransferAct(Enum):
    """The closed set of acts; transfer/acts/remote_jobs.py re-checks and does each."""

    PUBLISH = "publish"  # the verdict, and wake the starter
    CLOSE = "close"  # it has no job any more
    DELETE_REMOTE = "delete remote"  # as the owner
    RELEASE_LOCAL = "release local"  # take its guard back, then close: no copy lives elsewhere
    ADOPT_LOCAL = "adopt local"  # pin the task to its queue, take its guard back: a copy lives
    GUARD_LOCAL = "guard local"  # put back the guard that somebody has taken away
    UNPIN = "unpin"  # give the job its own list of queues again: it was adopted
    LOOK_UP_END = "look up end"  # in the remote accounting
    GIVE_UP = "give up"  # a remote job in error state: delete it, tell its reason


WORDS = {  # for people; the values above are in the log and in kept decisions
    TransferAct.PUBLISH: "telling its starter",
    TransferAct.CLOSE: "closing it",
    TransferAct.DELETE_REMOTE: "deleting its job there",
    TransferAct.RELEASE_LOCAL: "taking its guard here away, to close it",
    TransferAct.ADOPT_LOCAL: "pinning it to its queue and taking its guard away",
    TransferAct.GUARD_LOCAL: "guarding it here again",
    TransferAct.UNPIN: "giving it its own list of queues again",
    TransferAct.LOOK_UP_END: "looking up its end in the accounting there",
    TransferAct.GIVE_UP: "giving its job there up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAction:
    """One act on one transfer."""

    act: TransferAct
    transfer: Transfer
    why: str
    verdict: StarterMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanJob:
    """A held remote job under a transfer's name that is not the recorded one: to be deleted."""

    cluster: str
    job_id: int
    name: str
    owner: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedAction:
    """A message that the service refuses, and why."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """What one round found and is going to do: the transfers as now known, and the actions."""

    transfers: tuple[Transfer, ...] = ()
    actions: tuple[TransferAction, ...] = ()
