"""Plans of the service for transfers: actions, each with its reason."""

from dataclasses import dataclass
from enum import Enum

from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_message import TransferMessage


class TransferActKind(Enum):
    """The kinds of acts on transfers, which transfer/acts/remote_jobs.py performs."""

    PUBLISH = "publish"  # publish the verdict and wake the starter
    CLOSE = "close"  # close a transfer that has no job any more
    DELETE_REMOTE = "delete remote"  # delete the remote job as its owner
    RELEASE_LOCAL = "release local"  # remove the local task's guard, then close the transfer
    ADOPT_LOCAL = "adopt local"  # restrict the task to its transfer queue, remove its guard
    GUARD_LOCAL = "guard local"  # restore a local task's removed guard
    UNPIN = "unpin"  # restore the own queue list of a job after its task's adoption
    LOOK_UP_END = "look up end"  # look up the job's end in the remote accounting
    GIVE_UP = "give up"  # delete a remote job in error state and report the job's error


WORDS = {  # name of each act for people; logs and stored decisions have the value
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
class OrphanRemoteJob:
    """A held remote job to delete, which has a transfer's name but is in no record."""

    cluster: str
    job_id: int
    name: str
    owner: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedStarterMessage:
    """A starter's message that the service refuses, with the reason."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRoundPlan:
    """The result of a transfer decision: the observed transfers and the planned actions."""

    transfers: tuple[Transfer, ...] = ()
    actions: tuple[TransferAction, ...] = ()
