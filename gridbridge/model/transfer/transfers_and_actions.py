"""A transfer in the state file: one attempt to run a local task remotely."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from gridbridge.model.states import UNSEEN, JobState
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer_message import TransferMessage

TransferKey = tuple[str, int]  # a transfer's name, and the uid of its creator
MOMENTS = ("updated_at", "since", "missing_since", "seen_at")  # times compared with snapshots


class OwnershipProof:
    """Whether a home job list showed a transfer's task with the transfer's owner."""

    YES = "yes"  # final: a home job list showed the task with this owner
    NO = "no"  # a home job list lacked the task with this owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One transfer, a row of the state file.

    The kernel supplies the uid of the starter's record, so a forged record makes only a transfer of
    the forger. Unknown texts are empty, unknown ids 0 and unknown times None.
    """

    name: str  # transfer name: gb.<cluster>.<job>.<task>.<attempt>
    uid: int
    owner: str
    remote: str  # name of the remote cluster
    queue: str  # name of the local transfer queue
    phase: str  # value of StarterPhase
    record: str  # the spool file that proves the owner to gridbridge-as-user
    wake: str  # name of the FIFO that wakes the starter
    rerun: str  # whether the local job may run again: yes, no, or empty (as its queue says)
    created_at: datetime
    updated_at: datetime
    remote_id: int = 0
    desired: str = ""  # value of DesiredLocalJobState; DEAD is final
    local_state: JobState = UNSEEN  # last listed state of the local job
    remote_state: JobState = UNSEEN  # last listed state of the remote job
    remote_host: str = ""  # last listed host of the remote job
    since: datetime | None = None  # begin of the remote job's state
    missed_polls: int = 0  # successive complete remote job lists without the remote job
    missing_since: datetime | None = None
    seen_at: datetime | None = None  # time of the last counted answer of the remote cluster
    verdict: TransferMessage | None = None
    closed_at: datetime | None = None  # time of the transfer's close; None: open
    pinned: bool = False  # whether the local job may start only in its transfer queue
    claim: str = ""  # name of the claim on the remote job (model.transfer.claim)
    guard: str = HomeStartGuard.HOLD  # kind of guard on the local task
    reguarded: bool = False  # whether the service has restored the guard
    claimed: str = ""  # who holds the claim: `home`, `job` (the remote job), or empty: unknown
    cause: str = ""  # TransferFailureCause of the last delay or failure
    reason: str = ""  # cause of a delay or failure in one sentence, for people
    listed: str = ""  # value of OwnershipProof

    @property
    def key(self) -> TransferKey:
        """The transfer's key, name and uid, because two people may use the same name."""
        return self.name, self.uid

    def but(self, **values: object) -> "Transfer":
        """Return the transfer with some fields changed."""
        return replace(self, **values)  # type: ignore[arg-type]  # checked by the dataclass's users

    def moved(self, step: timedelta) -> "Transfer":
        """Return the transfer with its times shifted, after the clock was set."""
        return self._with_moments(lambda moment: moment + step)

    def not_after(self, now: datetime) -> "Transfer":
        """Return the transfer with no time after `now`, as after a clock was set back."""
        return self._with_moments(lambda moment: min(moment, now))

    def _with_moments(self, change: Callable[[datetime], datetime]) -> "Transfer":
        moments = {name: moment for name in MOMENTS if (moment := getattr(self, name))}
        return self.but(**{name: change(moment) for name, moment in moments.items()})

    def is_older_than(self, asked_at: datetime) -> bool:
        """Say whether the answer to a query at `asked_at` may decide on the transfer.

        An answer queried before the owner's last message, or before the last change by the service,
        may show an older state. Such an answer lacks a job that was submitted since. At equal times
        the order is unknown, so the answer does not count.
        """
        return asked_at > self.updated_at

    @property
    def is_over(self) -> bool:
        """Say whether the transfer is closed and has no job any more."""
        return self.closed_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferEvent:
    """One line of a transfer's history."""

    name: str
    uid: int
    at: datetime
    text: str


class TaskMoveStage(StrEnum):
    """The progress of a task's move to another cluster."""

    ASKED = "asked"  # the recall is requested; the task still waits at the remote cluster
    HOME = "home"  # the task is at home and excluded from the cluster that the task left
    DONE = "done"
    DROPPED = "dropped"  # the move was given up; the reason for the move no longer holds


IN_FLIGHT = (TaskMoveStage.ASKED, TaskMoveStage.HOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTaskMove:
    """The move of one waiting task from one remote cluster to another."""

    name: str  # name of the transfer that the move ends
    uid: int
    source: str  # name of the cluster that the task leaves
    target: str  # cluster with room at the decision; Grid Engine may choose another cluster
    asked_at: datetime
    stage: TaskMoveStage = TaskMoveStage.ASKED
    reason: str = ""  # reason why the move was dropped, or the result of the move
    slots: int = 1  # number of the task's slots

    @property
    def key(self) -> TransferKey:
        """The key of the moved task's transfer."""
        return self.name, self.uid


class TransferActKind(Enum):
    """The kinds of acts on transfers, which transfer/poller/transfer_acts.py performs."""

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
