"""What the balancer looks at, and what it decides."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum

from gridbridge.model.elastic.cell import CellSeen
from gridbridge.model.elastic.layout import Layout
from gridbridge.model.elastic.nodes import Node

NOTHING_TOLD = Layout()


class Rules(StrEnum):
    """The rules by which a cluster grows and shrinks."""

    STARCLUSTER = "starcluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A cell, the nodes that the balancer owns, and the moment."""

    now: datetime
    cell: CellSeen
    master: str = ""  # the qmaster's host, which is never removed
    last_change: datetime | None = None  # when a node came or went; None: none has
    nodes: tuple[Node, ...] = ()
    layout: Layout = NOTHING_TOLD


class Verdict(Enum):
    """Why a round adds or removes nodes, or does nothing."""

    NO_MAXIMUM = "no maximum"
    FULL = "full"
    NOT_STABLE = "not stable"
    BELOW_MINIMUM = "below the minimum"
    NO_SLOTS = "no slots"
    ON_THEIR_WAY = "on their way"
    WAITS_TOO_LONG = "waits too long"
    WAITS = "waits"
    FITS = "fits"
    SEVERAL_SLOT_COUNTS = "several slot counts"
    AT_MINIMUM = "at the minimum"
    IDLE = "idle"
    NONE_IDLE = "none idle"


class Refusal(Enum):
    """Why a job does not make the cluster grow, or a host is not removed."""

    HELD = "it is held"
    ERROR = "it is in error"
    DELETED = "it is being deleted"
    FUTURE = "its start time is in the future"
    DEPENDENT = "it waits for the end of other jobs"
    OTHER_QUEUE = "it asks for another queue"
    MASTER = "it is the master"
    BUSY = "jobs run there"
    NOT_READY = "it is not ready"
    NOT_LISTED = "the cell does not list it"
    UPTIME_UNKNOWN = "it is not known since when it is up"
    HOUR_IS_PAID = "its hour is paid for: minute {minute} of it, not yet {kill_after}"
    AT_MINIMUM = "no more than {min_nodes} nodes would be left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A job or a host, and why nothing is done about it."""

    job: int = 0
    host: str = ""
    cause: Refusal
    minute: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The numbers that a decision was made from."""

    nodes: int
    running: int  # of those, the ones that are up
    jobs: int  # that wait and could start
    wanted: int  # the slots that they need
    free: int  # slots
    slots: int  # of the cluster
    slots_per_node: int | None  # None: hosts have several counts
    waited_s: float
    unchanged_s: float | None  # since the last change; None: there was none


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one round does; an empty one does nothing."""

    verdict: Verdict
    figures: Figures
    add: int = 0
    pool: str = ""  # where the new nodes come from
    remove: tuple[str, ...] = ()
    refused: tuple[Refused, ...] = ()
