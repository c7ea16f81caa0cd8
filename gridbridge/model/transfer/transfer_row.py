"""A transfer as the service knows it: one attempt to run one task of a local job elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from gridbridge.model.message import StarterMessage
from gridbridge.model.states import UNSEEN, JobState
from gridbridge.model.transfer.guard import GuardKind

TransferKey = tuple[str, int]  # a transfer's name, and the uid of whoever made it
MOMENTS = ("updated_at", "since", "missing_since", "seen_at")  # with which answers are compared


class OwnershipProof:
    """Whether home's own list has a transfer's task as its owner's; empty: not asked yet."""

    YES = "yes"  # it had, once: the proof that the transfer is what its name says
    NO = "no"  # it was asked, and had not


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One row of the state file.

    The uid is what the kernel said of the starter's record, so a forged record is only ever the
    forger's own transfer. Texts are empty, ids 0 and times None while unknown.
    """

    name: str  # gb.<cluster>.<job>.<task>.<attempt>
    uid: int
    owner: str
    remote: str  # cluster
    queue: str  # the local transfer queue
    phase: str  # message.Phase
    record: str  # the spool file that proves it, for gridbridge-as-user
    wake: str  # the starter's FIFO
    rerun: str  # yes, no, or empty for as the queues at home say
    created_at: datetime
    updated_at: datetime
    remote_id: int = 0
    desired: str = ""  # message.Desired; dead wins
    local_state: JobState = UNSEEN  # as last seen; not listed: it has none
    remote_state: JobState = UNSEEN  # as last seen; not listed ever: it has none
    remote_host: str = ""  # where it runs, as last seen
    since: datetime | None = None  # of the remote state
    missed_polls: int = 0  # good answers in a row that did not have the remote job
    missing_since: datetime | None = None
    seen_at: datetime | None = None  # of the last answer that was counted
    verdict: StarterMessage | None = None
    closed_at: datetime | None = None  # when it had no job any more
    pinned: bool = False  # its local job may start in its queue only, until it is adopted
    claim: str = ""  # decides whether its remote job may run (model.claim)
    guard: str = GuardKind.HOLD  # what keeps its task from starting beside it
    reguarded: bool = False  # by the service, perhaps after its starter let the task go
    claimed: str = ""  # by home or by the job, as far as the service knows
    cause: str = ""  # message.Cause: why it did not go on, or failed
    reason: str = ""  # the same in one sentence, for readers
    listed: str = ""  # Listed

    @property
    def key(self) -> TransferKey:
        """Its key: two people may each have a transfer of one name."""
        return self.name, self.uid

    def but(self, **values: object) -> "Transfer":
        """Return the transfer with some fields changed."""
        return replace(self, **values)  # type: ignore[arg-type]  # checked by the dataclass's users

    def moved(self, step: timedelta) -> "Transfer":
        """Return it after the clock was set: how long ago everything was stays."""
        return self._with_moments(lambda moment: moment + step)

    def not_after(self, now: datetime) -> "Transfer":
        """Return it without times in the future, which a clock that was set back leaves."""
        return self._with_moments(lambda moment: min(moment, now))

    def _with_moments(self, change: Callable[[datetime], datetime]) -> "Transfer":
        moments = {name: moment for name in MOMENTS if (moment := getattr(self, name))}
        return self.but(**{name: change(moment) for name, moment in moments.items()})

    def is_older_than(self, asked_at: datetime) -> bool:
        """Say whether an answer to a question of that moment may decide about it.

        One that was asked for before its owner's last message, or before our last change of it,
        may show its jobs as they were until then: a job that was submitted since is missing from
        it. Of the same moment nobody knows which came first.
        """
        return asked_at > self.updated_at

    @property
    def is_over(self) -> bool:
        """Say whether it has no job any more."""
        return self.closed_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferEvent:
    """One line of a transfer's history."""

    name: str
    uid: int
    at: datetime
    text: str


class TaskMoveStage(StrEnum):
    """How far a move has come."""

    ASKED = "asked"  # its task waits away, as far as is known
    HOME = "home"  # its task came home, and keeps off the cluster that it left
    DONE = "done"
    DROPPED = "dropped"  # it did not hold any more


IN_FLIGHT = (TaskMoveStage.ASKED, TaskMoveStage.HOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMoveState:
    """One of them."""

    name: str  # of the transfer that is given up
    uid: int
    source: str  # cluster
    target: str  # the cluster that had room when this was decided; Grid Engine chooses
    asked_at: datetime
    stage: TaskMoveStage = TaskMoveStage.ASKED
    reason: str = ""  # why it was dropped, or how it ended
    slots: int = 1  # that its task takes where it runs

    @property
    def key(self) -> TransferKey:
        """Its transfer's key."""
        return self.name, self.uid
