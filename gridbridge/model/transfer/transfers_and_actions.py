"""Define transfers as the state file stores them, moves of waiting tasks, and the service's acts on transfers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum

from gridbridge.model.job_and_queue_states import UNSEEN, JobState
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer_messages_in_spool import TransferMessage

TransferKey = tuple[str, int]
# these fields are compared with times of cluster queries
QUERY_TIME_FIELDS = ("updated_at", "since", "missing_since", "seen_at")


class OwnerSeenInHomeJobList:
    """Whether a job list at home has shown the transfer's task with the transfer's owner."""

    YES = "yes"  # a job list at home showed the task with this owner; YES is final
    NO = "no"  # a job list at home did not show the task with this owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One attempt to run a local task at a remote cluster; one row of the state file.

    The uid is the owner of the starter's message file, so a forger can make only transfers of the forger's own uid.
    Unknown texts are empty, unknown ids 0 and unknown times None.
    """

    name: str  # gb.CLUSTER.JOB.TASK.ATTEMPT
    uid: int
    owner: str
    remote: str
    queue: str
    phase: str  # value of StarterPhase
    record: str  # path of the starter's message file; gridbridge-as-user checks the file's owner
    wake: str  # name of the FIFO that wakes the starter
    rerun: str  # whether the local job may run again: yes, no, or empty for the queue's setting
    created_at: datetime
    updated_at: datetime
    remote_id: int = 0
    desired: str = ""  # value of DesiredLocalJobState; DEAD is final
    local_state: JobState = UNSEEN
    remote_state: JobState = UNSEEN
    remote_host: str = ""
    since: datetime | None = None  # when the remote job's state last changed
    missed_polls: int = 0  # number of successive job lists without the remote job
    missing_since: datetime | None = None
    seen_at: datetime | None = None  # time of the last query of the remote cluster
    verdict: TransferMessage | None = None
    closed_at: datetime | None = None
    pinned: bool = False  # whether the local job may start only in its transfer queue
    claim: str = ""  # name of the claim (the right to run the task), KIND.TOKEN
    guard: str = HomeStartGuard.HOLD  # what keeps the task from starting at home
    reguarded: bool = False  # whether a guard may keep the task from starting after the transfer's end
    claimed: str = ""  # side that may run the task: home, job (the remote job), or empty if unknown
    cause: str = ""  # cause of the last delay or failure, a TransferFailureCause
    reason: str = ""
    listed: str = ""  # value of OwnerSeenInHomeJobList

    @property
    def transfer_key(self) -> TransferKey:
        """The transfer's key: name and uid, because two people may use one name."""
        return self.name, self.uid

    def with_changes(self, **values: object) -> "Transfer":
        return replace(self, **values)  # type: ignore[arg-type]  # checked by the dataclass's users

    def shift_times(self, step: timedelta) -> "Transfer":
        """Return the transfer with all its times shifted by `step`, after the clock was set."""
        return self._change_query_times(lambda moment: moment + step)

    def limit_times(self, now: datetime) -> "Transfer":
        """Return the transfer with all times limited to `now`, because the clock may have been set back."""
        return self._change_query_times(lambda moment: min(moment, now))

    def _change_query_times(self, change: Callable[[datetime], datetime]) -> "Transfer":
        moments = {name: moment for name in QUERY_TIME_FIELDS if (moment := getattr(self, name))}
        return self.with_changes(**{name: change(moment) for name, moment in moments.items()})

    def is_unchanged_since_query(self, asked_at: datetime) -> bool:
        """Say whether the last change came before a query; only then may the query's answer decide."""
        return asked_at > self.updated_at

    @property
    def is_over(self) -> bool:
        """Whether the transfer is closed and has no job any more."""
        return self.closed_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferEvent:
    name: str
    uid: int
    at: datetime
    text: str


class TaskMoveStage(StrEnum):
    ASKED = "asked"  # the task's return home is requested; the task still waits at the cluster
    HOME = "home"  # the task is at home, and may not return to the cluster that the task left
    DONE = "done"
    DROPPED = "dropped"


IN_FLIGHT = (TaskMoveStage.ASKED, TaskMoveStage.HOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTaskMove:
    name: str  # name of the transfer to the cluster that the task leaves
    uid: int
    source: str
    target: str  # planned cluster, with free slots; Grid Engine may send the task to another cluster
    asked_at: datetime
    stage: TaskMoveStage = TaskMoveStage.ASKED
    reason: str = ""  # reason why the move was given up, or the move's result
    slots: int = 1

    @property
    def transfer_key(self) -> TransferKey:
        return self.name, self.uid


class TransferActKind(Enum):
    PUBLISH = "publish"  # tell the starter how the remote job ended
    CLOSE = "close"  # close a transfer that has no job any more
    DELETE_REMOTE = "delete remote"  # delete the remote job as its owner
    RELEASE_LOCAL = "release local"  # let the task start at home, then close the transfer
    ADOPT_LOCAL = "adopt local"  # let a rescheduled task start in its transfer queue only
    GUARD_LOCAL = "guard local"
    UNPIN = "unpin"  # restore the queue list that the job's owner requested
    LOOK_UP_END = "look up end"  # look up the remote job's end in the accounting
    GIVE_UP = "give up"  # delete a remote job in error state and report its error


TRANSFER_ACT_WORDS = {  # names of the acts in texts for people
    TransferActKind.PUBLISH: "telling the starter",
    TransferActKind.CLOSE: "closing the transfer",
    TransferActKind.DELETE_REMOTE: "deleting the remote job",
    TransferActKind.RELEASE_LOCAL: "removing the guard at home to close the transfer",
    TransferActKind.ADOPT_LOCAL: "letting the task start in its transfer queue only",
    TransferActKind.GUARD_LOCAL: "restoring the guard that keeps the task from starting at home",
    TransferActKind.UNPIN: "restoring the job's own list of queues",
    TransferActKind.LOOK_UP_END: "looking up the job's end in the remote accounting",
    TransferActKind.GIVE_UP: "giving up the remote job",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferAction:
    act: TransferActKind
    transfer: Transfer
    why: str
    verdict: TransferMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanRemoteJob:
    """A held remote job to delete; the transfer of the same name never recorded the job."""

    cluster: str
    job_id: int
    name: str
    owner: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedStarterMessage:
    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PollerRoundPlan:
    """The transfers as of the newest job lists, and the acts planned for the transfers."""

    transfers: tuple[Transfer, ...] = ()
    actions: tuple[TransferAction, ...] = ()
