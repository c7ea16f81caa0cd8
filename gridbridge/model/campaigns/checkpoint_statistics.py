"""What checkpoints of tasks have cost, and how often clusters lost or preempted tasks."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointTimes:
    """The time from the checkpoint signal to the replaced files, summed over checkpoints."""

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
    """The checkpoints of one attempt; some may have been made without a signal, and so without a time."""

    completed: int = 0
    times: CheckpointTimes = CheckpointTimes()


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignCheckpointTimes:
    campaign: int
    times: CheckpointTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLossRate:
    """How long tasks of one owner ran at a cluster, and how many were lost or preempted; both decay.

    Users can forge the ends of their own tasks, so each owner has rates of his own.
    """

    uid: int
    cluster: str
    is_besteffort: bool
    at: datetime  # time for which the decayed numbers are computed
    run_s: float = 0.0
    losses: float = 0.0
