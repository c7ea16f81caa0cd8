"""What rebalancing advises: moves, in the order in which they are to be done."""

from dataclasses import dataclass
from enum import StrEnum


class MoveKind(StrEnum):
    """What is done with a copy."""

    LIVE = "live"  # the live copy goes to another host, or one of its replicas becomes it
    REPLICA = "replica"  # a replica goes there, or a new one is made from `source`
    DELETE = "delete"  # the copy is removed


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementMove:
    """One copy of a task from a host to another."""

    kind: MoveKind
    job: str
    number: int
    source: str
    target: str = ""  # empty: removed


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedMove:
    """A move that was considered, and why it is not advised."""

    job: str
    number: int
    reason: str
    target: str = ""  # empty: the task itself is not moved, wherever to


@dataclass(frozen=True, slots=True, kw_only=True)
class RecheckedMoves:
    """What is left of a plan when it is to be done."""

    moves: tuple[PlacementMove, ...] = ()
    dropped: tuple[RejectedMove, ...] = ()  # they don't hold any more


@dataclass(frozen=True, slots=True, kw_only=True)
class MovePlan:
    """A plan: nothing in it is done yet, and each move is checked again before it is."""

    moves: tuple[PlacementMove, ...] = ()
    rejected: tuple[RejectedMove, ...] = ()
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """One host: its disk, a part of what it may hold, 0 to 1, and its load, 0 to 100 by default."""

    host: str
    disk: float
    score: float
    disk_after: float
    score_after: float
