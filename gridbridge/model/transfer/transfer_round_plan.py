"""Plans of the service for transfers: actions, each with its reason."""

from dataclasses import dataclass
from enum import Enum

from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_message import TransferMessage


class TransferActKind(Enum):
    """The closed set of acts; transfer/acts/remote_jobs.py performs each."""

    PUBLISH = "publish"  # publish the verdict and wake the starter
    CLOSE = "close"  # close a transfer that has no job any more
    DELETE_REMOTE = "delete remote"  # delete the remote job as its owner
    RELEASE_LOCAL = "release local"  # remove the task's guard, then close: no remote copy lives
    ADOPT_LOCAL = "adopt local"  # pin the task to its queue and remove its guard: a copy lives
    GUARD_LOCAL = "guard local"  # restore a removed guard
    UNPIN = "unpin"  # restore an adopted job's own queue list
    LOOK_UP_END = "look up end"  # look up the job's end in the remote accounting
    GIVE_UP = "give up"  # delete a remote job in error state and report its reason


WORDS = {  # texts for people; logs and stored decisions have the enum values
    TransferActKind.PUBLISH: "telling its starter",
    TransferActKind.CLOSE: "closing it",
    TransferActKind.DELETE_REMOTE: "deleting its job there",
    TransferActKind.RELEASE_LOCAL: "taking its guard here away, to close it",
    TransferActKind.ADOPT_LOCAL: "pinning it to its queue and taking its guard away",
    TransferActKind.GUARD_LOCAL: "guarding it here again",
    TransferActKind.UNPIN: "giving it its own list of queues again",
    TransferActKind.LOOK_UP_END: "looking up its end in the accounting there",
    TransferActKind.GIVE_UP: "giving its job there up",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAction:
    """One act on one transfer, with its reason."""

    act: TransferActKind
    transfer: Transfer
    why: str
    verdict: TransferMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanJob:
    """A held remote job to delete: a transfer's name without its recorded id."""

    cluster: str
    job_id: int
    name: str
    owner: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedStarterMessage:
    """A message that the service refuses, with the reason."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRoundPlan:
    """One round's result: the observed transfers and the planned actions."""

    transfers: tuple[Transfer, ...] = ()
    actions: tuple[TransferAction, ...] = ()
