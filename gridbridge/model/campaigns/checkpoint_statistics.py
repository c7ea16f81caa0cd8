"""Durations and carries of checkpoints, and losses and preemptions of tasks at clusters."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTimes:
    """The times of checkpoints, from the signal until the files are replaced, summed over the timed checkpoints."""

    timed: int = 0
    total_s: float = 0.0

    def __add__(self, other: "CheckpointTimes") -> "CheckpointTimes":
        return CheckpointTimes(timed=self.timed + other.timed, total_s=self.total_s + other.total_s)

    @property
    def mean_s(self) -> float | None:
        """The mean time of a checkpoint; None: no checkpoint was timed."""
        return self.total_s / self.timed if self.timed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptCheckpoints:
    """The checkpoints of an attempt; only checkpoints after a signal are timed."""

    completed: int = 0
    times: CheckpointTimes = CheckpointTimes()
    size_bytes: int | None = None  # of the last checkpoint; None: unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCheckpointTimes:
    campaign: int
    times: CheckpointTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLossRate:
    """How long tasks of an owner ran at a cluster, and how many were lost or preempted; both numbers decay.

    Users can forge the ends of their own tasks, so no rate combines several owners.
    """

    uid: int
    cluster: str
    is_besteffort: bool
    at: datetime  # time to which the numbers have decayed
    run_s: float = 0.0
    losses: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointOfWaitingTask:
    """The checkpoint of a task that waits for a cluster with this checkpoint."""

    campaign: int
    task: int
    attempt: int  # the attempt that left the checkpoint
    clusters: tuple[str, ...]  # clusters with the checkpoint; the first is the cluster of the attempt
    size_bytes: int | None  # None: unknown, so that the checkpoint is not carried
    work_s: float  # run time that is lost if the task begins anew
    waited_s: float
    avoid: tuple[str, ...]  # clusters that the waiting task avoids now
    never: tuple[str, ...]  # clusters that can't get the waiting task now
    excluded: tuple[str, ...] = ()  # clusters where the task overran its walltime, or to which a carry has failed


class CheckpointCarryState(StrEnum):
    ALLOWED = "allowed"  # the task may be sent to the cluster; its checkpoint is then carried first
    CARRIED = "carried"  # both clusters have the checkpoint
    OVER = "over"  # carried, and removed at the first cluster, because the task no longer needs this checkpoint
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCarry:
    """A carry of a task's checkpoint to a cluster, and the two times that decided on the carry."""

    campaign: int
    task: int
    attempt: int
    source: str
    cluster: str
    carry_s: float
    lost_s: float
    state: CheckpointCarryState = CheckpointCarryState.ALLOWED
