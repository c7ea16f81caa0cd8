"""Plans of rebalancing: moves of task copies, in the order of execution."""

from dataclasses import dataclass
from enum import StrEnum


class PlacementMoveKind(StrEnum):
    """The kinds of action on a task's copy."""

    LIVE = "live"  # the live copy moves to `target`, or the replica at `target` becomes live
    REPLICA = "replica"  # a replica moves to `target`, or a new replica is copied from `source`
    DELETE = "delete"  # the copy at `source` is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementMove:
    """A move of one copy of a task from one host to another."""

    kind: PlacementMoveKind
    job: str
    number: int
    source: str
    target: str = ""  # empty: the copy at `source` is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMove:
    """A move that rebalancing considered and rejected, with the reason."""

    job: str
    number: int
    reason: str
    target: str = ""  # empty: the task moves to no host at all


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidAndDroppedMoves:
    """The still valid moves of a plan before execution, and the dropped moves."""

    moves: tuple[PlacementMove, ...] = ()
    dropped: tuple[RejectedMove, ...] = ()  # moves that are no longer valid


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceMovePlan:
    """Planned moves, none of them executed: each move is rechecked before execution."""

    moves: tuple[PlacementMove, ...] = ()
    rejected: tuple[RejectedMove, ...] = ()
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoadBeforeAfter:
    """A host's disk usage, 0 to 1, and load score, before and after a plan."""

    host: str
    disk: float
    score: float
    disk_after: float
    score_after: float
