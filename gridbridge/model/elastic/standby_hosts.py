"""Data of hosts that are powered off and on: OAR's power requests, and a squeeze's plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from gridbridge.model.elastic.elastic_nodes import short_host_name
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests


class OarRequestedPowerState(StrEnum):
    """The power state that OAR requests for a node; the request file's name begins with it."""

    WAKE = "wake"
    SLEEP = "sleep"


@dataclass(frozen=True, slots=True, kw_only=True)
class OarPowerRequest:
    """One call of OAR's energy-saving hook."""

    file: str  # name of the request file
    at_s: float  # time of writing, in seconds since 1970
    wish: OarRequestedPowerState
    hosts: tuple[str, ...]


STANDBY = "htools:standby:"  # prefix of the tags of hosts that may be powered on
STANDBY_AUTO = "htools:standby:auto"  # the only tag that a squeeze writes and removes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTagsAndMovableTasks:
    """The tags of each host, and the running tasks that can be rescheduled to other hosts."""

    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # tags, by short host name
    # requests of the reschedulable tasks, by host
    movable: Mapping[str, tuple[TaskResourceRequests, ...]] = field(default_factory=dict)


def tags_by_short_host_name(tags: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    """Return the tags of hosts by short host name."""
    return {short_host_name(name): host_tags for name, host_tags in tags.items()}


def tags_of_host(host: str, tags: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the tags of a host, whose name may have a domain."""
    return tags.get(short_host_name(host), ())


class StandbyOrWakePlanCause(Enum):
    """Why a squeeze changes hosts, or does nothing."""

    LACKING = "lacking"  # less than the minimal reserve is free
    ASKED = "asked"  # waiting tasks need nodes, and standby hosts exist
    PLENTY = "plenty"  # more than the target reserve is free
    BETWEEN = "between"  # the reserve needs no change
    NO_STANDBY = "no standby"  # nodes are needed, but no standby host may be woken
    FULL = "full"  # nodes are needed, but the node maximum is reached
    NO_MAXIMUM = "no maximum"  # max_nodes is not set
    UNREADY = "unready"  # too many hosts are silent or in error


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskForOtherHost:
    """A task that is to run on another host."""

    source: str
    target: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyOrWakePlan:
    """The hosts that a squeeze puts on standby or wakes; one plan never does both."""

    cause: StandbyOrWakePlanCause
    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    moved: tuple[TaskForOtherHost, ...] = ()
    bound: tuple[str, ...] = ()  # hosts whose movable tasks have no room on other hosts
    last: str = ""  # the last working host, if the balancer's policy would remove it
    untagged: tuple[str, ...] = ()  # hosts on standby without a tag, which are never woken
    working: int = 0  # working hosts
    reserve: int = 0  # standard requests that could start now on all working hosts
    least: float = 0.0  # minimal reserve: standard requests per working host
    target: float = 0.0  # target reserve: standard requests per working host


class StandbyOrWakeStepKind(Enum):
    """One step of putting a host on standby or waking it."""

    DRAIN = "drain"  # disable the host's queues, and check again that the host is idle
    TAG = "tag"  # add a standby tag if the host has none
    STOP = "stop"  # power the host off
    START = "start"  # power the host on, and wait for its execution daemon
    OPEN = "open"  # enable the host's queues
    UNTAG = "untag"  # remove only the tag that a squeeze wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStandbyOrWakeStep:
    """A standby or wake step for one host; each host's steps run in order."""

    host: str
    doing: StandbyOrWakeStepKind
    tag: str = ""
