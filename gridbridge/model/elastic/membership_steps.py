"""A machine that becomes an execution host and stops being one, as far as it is."""

from dataclasses import dataclass
from enum import StrEnum


class HostJoinStep(StrEnum):
    """The last step of joining that is done."""

    NONE = "nothing"
    ADMITTED = "admitted"  # the cell knows the host, its resources and host groups; closed
    JOINED = "joined"  # its queues are open
    CLOSED = "closed"  # the same, but for queues that somebody closed on all hosts
    LEFT = "left"  # all of it was taken back


class HostLeaveStep(StrEnum):
    """What came of a try to take a host out of its cell."""

    REFERENCED = "still referenced"  # the cell has not forgotten it yet: the next round goes on
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDeparture:
    """How far a host has left its cell."""

    step: HostLeaveStep
    refused_by: str = ""  # what keeps it there, with the command that shows it

    @classmethod
    def left(cls) -> "HostDeparture":
        """Return it of a host that the cell knows no more."""
        return cls(step=HostLeaveStep.LEFT)

    @classmethod
    def kept(cls, refused_by: str) -> "HostDeparture":
        """Return it of one that the next round tries again."""
        return cls(step=HostLeaveStep.REFERENCED, refused_by=refused_by)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningMachine:
    """A machine and what it is to be in the cell."""

    name: str
    address: str
    host_key: str = ""
    slots: int = 1
    resources: tuple[tuple[str, str], ...] = ()  # complex_values of the host
    hostgroups: tuple[str, ...] = ("@allhosts",)
    queues: tuple[str, ...] = ()  # cluster queues whose slots are set there; empty: none is
    is_filled_last: bool = False  # it gets jobs when the hosts before it are full
    closed: frozenset[str] = frozenset()  # queues that somebody closed: they stay so there, too


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIdleness:
    """What a cell says when it is asked about one host once more."""

    is_idle: (
        bool  # nothing runs, starts, is suspended or is reserved there, in any queue that counts
    )
    is_closed: bool  # all its queues are disabled by hand
    is_listed: bool = True  # the cell knows the host
