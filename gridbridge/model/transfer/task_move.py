"""Moves of tasks that wait at a remote cluster: they come home, and start somewhere else."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gridbridge.model.transfer.transfer_row import Key


class MoveStage(StrEnum):
    """How far a move has come."""

    ASKED = "asked"  # its task waits away, as far as is known
    HOME = "home"  # its task came home, and keeps off the cluster that it left
    DONE = "done"
    DROPPED = "dropped"  # it did not hold any more


IN_FLIGHT = (MoveStage.ASKED, MoveStage.HOME)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMoveState:
    """One of them."""

    name: str  # of the transfer that is given up
    uid: int
    source: str  # cluster
    target: str  # the cluster that had room when this was decided; Grid Engine chooses
    asked_at: datetime
    stage: MoveStage = MoveStage.ASKED
    reason: str = ""  # why it was dropped, or how it ended
    slots: int = 1  # that its task takes where it runs

    @property
    def key(self) -> Key:
        """Its transfer's key."""
        return self.name, self.uid
