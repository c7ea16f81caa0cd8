"""Durations of checkpoints, and losses and preemptions of tasks at clusters."""

from dataclasses import dataclass
from datetime import datetime


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
