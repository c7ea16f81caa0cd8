"""A transfer in the state file: one attempt to run a local task remotely."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gridbridge.model.states import UNSEEN, JobState
from gridbridge.model.transfer.guard import HomeStartGuard
from gridbridge.model.transfer_message import TransferMessage

TransferKey = tuple[str, int]  # a transfer's name, and the uid of its creator
MOMENTS = ("updated_at", "since", "missing_since", "seen_at")  # compared with snapshot times


class OwnershipProof:
    """Whether the home job list showed the task with this owner; empty: unknown."""

    YES = "yes"  # a home list showed the task with this owner, which is final
    NO = "no"  # a home list lacked the task with this owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One transfer, a row of the state file.

    The kernel supplies the uid of the starter's record, so a forged record only makes a transfer of
    the forger. Unknown texts are empty, unknown ids 0 and unknown times None.
    """

    name: str  # gb.<cluster>.<job>.<task>.<attempt>
    uid: int
    owner: str
    remote: str  # cluster
    queue: str  # the local transfer queue
    phase: str  # StarterPhase
    record: str  # the spool file that proves the owner to gridbridge-as-user
    wake: str  # the starter's FIFO
    rerun: str  # yes, no, or empty: the home queues decide
    created_at: datetime
    updated_at: datetime
    remote_id: int = 0
    desired: str = ""  # DesiredLocalJobState; DEAD is final
    local_state: JobState = UNSEEN  # home state as last seen; UNSEEN: not listed
    remote_state: JobState = UNSEEN  # remote state as last seen; UNSEEN: never listed
    remote_host: str = ""  # host of the remote job, as last seen
    since: datetime | None = None  # begin of the remote state
    missed_polls: int = 0  # successive good answers without the remote job
    missing_since: datetime | None = None
    seen_at: datetime | None = None  # time of the last counted answer
    verdict: TransferMessage | None = None
    closed_at: datetime | None = None  # when the transfer had no job any more
    pinned: bool = False  # until adoption the local job may only start in its transfer queue
    claim: str = ""  # decides whether the remote job may run (model.transfer.claim)
    guard: str = HomeStartGuard.HOLD  # keeps the home task from starting beside the remote job
    reguarded: bool = False  # the service restored the guard, perhaps after the task's release
    claimed: str = ""  # holder of the claim, home or job, if known
    cause: str = ""  # TransferFailureCause of a delay or failure
    reason: str = ""  # the cause in one sentence, for people
    listed: str = ""  # OwnershipProof

    @property
    def key(self) -> TransferKey:
        """The transfer's key; two people may each have a transfer of the same name."""
        return self.name, self.uid

    def but(self, **values: object) -> "Transfer":
        """Return the transfer with some fields changed."""
        return replace(self, **values)  # type: ignore[arg-type]  # checked by the dataclass's users

    def moved(self, step: timedelta) -> "Transfer":
        """Return the transfer with its times shifted, after the clock was set."""
        return self._with_moments(lambda moment: moment + step)

    def not_after(self, now: datetime) -> "Transfer":
        """Return the transfer without future times, which a clock set back leaves."""
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
        """Say whether the transfer has no job any more."""
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

    ASKED = "asked"  # the task still waits remotely, as far as known
    HOME = "home"  # the task came home and avoids the cluster that it left
    DONE = "done"
    DROPPED = "dropped"  # the reason for the move no longer holds


IN_FLIGHT = (TaskMoveStage.ASKED, TaskMoveStage.HOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTaskMove:
    """The move of one waiting task from one remote cluster to another."""

    name: str  # name of the transfer that ends
    uid: int
    source: str  # cluster
    target: str  # cluster with room at the decision; Grid Engine has the choice
    asked_at: datetime
    stage: TaskMoveStage = TaskMoveStage.ASKED
    reason: str = ""  # why the move was dropped, or how the move ended
    slots: int = 1  # slots of the task

    @property
    def key(self) -> TransferKey:
        """The key of the moved task's transfer."""
        return self.name, self.uid
