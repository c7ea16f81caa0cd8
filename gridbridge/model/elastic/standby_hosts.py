"""Hosts that are powered off and on: OAR's power requests, and the plan of a squeeze."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from gridbridge.model.elastic.elastic_nodes import short_host_name
from gridbridge.model.elastic.grid_engine_cell_snapshot import TaskResourceRequests


class OarRequestedPowerState(StrEnum):
    """The power state that OAR requests for a node; a file's name begins with it."""

    WAKE = "wake"
    SLEEP = "sleep"


@dataclass(frozen=True, slots=True, kw_only=True)
class OarPowerRequest:
    """One call of OAR's energy-saving hook."""

    file: str  # its name
    at_s: float  # when it was written, since 1970
    wish: OarRequestedPowerState
    hosts: tuple[str, ...]


STANDBY = "htools:standby:"  # the beginning of what marks a host that may be switched on
STANDBY_AUTO = "htools:standby:auto"  # what a squeeze itself writes, and alone removes


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyHostFacts:
    """The tags of each host, and which running tasks could run again elsewhere."""

    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by short name
    movable: Mapping[str, tuple[TaskResourceRequests, ...]] = field(
        default_factory=dict
    )  # what they ask for


def tags_by_short_host_name(tags: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of hosts by short host name."""
    return {short_host_name(name): host_tags for name, host_tags in tags.items()}


def tags_of_host(host: str, tags: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the tags of a host, with or without its domain."""
    return tags.get(short_host_name(host), ())


class StandbyPlanCause(Enum):
    """Why a squeeze changes hosts, or does nothing."""

    LACKING = "lacking"  # less than the minimal reserve
    ASKED = "asked"  # waiting tasks want nodes, and some rest
    PLENTY = "plenty"  # more than the target reserve
    BETWEEN = "between"  # neither
    NO_STANDBY = "no standby"  # it lacks, and no host rests
    FULL = "full"  # it lacks, and no more nodes may be there
    NO_MAXIMUM = "no maximum"  # nobody has said how many nodes there may be
    UNREADY = "unready"  # too many hosts are silent or in error


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForOtherHost:
    """A task that is to run on another host."""

    source: str
    target: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPlan:
    """Which hosts to put on standby or to wake; never both."""

    cause: StandbyPlanCause
    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    moved: tuple[TaskForOtherHost, ...] = ()
    bound: tuple[str, ...] = ()  # hosts whose tasks might move, but have no room elsewhere
    last: str = ""  # a node that the policy would give back, and the last working host
    untagged: tuple[str, ...] = ()  # hosts that are off, and that nobody wakes without a tag
    working: int = 0  # hosts
    reserve: int = 0  # standard requests that could start now, on all of them
    least: float = 0.0  # of those, for each host that works
    target: float = 0.0


class StandbyStepKind(Enum):
    """One step of putting a host on standby or waking it."""

    DRAIN = "drain"  # close its queues, and look again
    TAG = "tag"  # add the mark, if it has none
    STOP = "stop"  # switch it off
    START = "start"  # switch it on, and wait for its daemon
    OPEN = "open"  # open its queues
    UNTAG = "untag"  # remove the mark that a squeeze itself wrote, and no other


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStandbyStep:
    """A step for one host; the steps of a host are done in order."""

    host: str
    doing: StandbyStepKind
    tag: str = ""
