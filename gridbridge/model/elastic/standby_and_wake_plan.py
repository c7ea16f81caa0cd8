"""Hosts that are powered off and on: OAR's power requests, and the plan of a squeeze."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from gridbridge.model.elastic.elastic_nodes import short_host_name
from gridbridge.model.elastic.grid_engine_cell import TaskResourceRequests


class OarRequestedPowerState(StrEnum):
    """The power state that OAR requests for a node; names of request files begin with this word."""

    WAKE = "wake"
    SLEEP = "sleep"


@dataclass(frozen=True, slots=True, kw_only=True)
class OarPowerRequest:
    """One call of OAR's energy-saving hook."""

    file: str
    at_s: float  # time at which the request was written, in seconds since 1970
    wish: OarRequestedPowerState
    hosts: tuple[str, ...]


STANDBY = "htools:standby:"  # prefix of the tags that allow a squeeze to power a host on
STANDBY_AUTO = "htools:standby:auto"  # the only tag that a squeeze writes and removes


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTagsAndMovableTasks:
    tags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # tags, by short host name
    # requests of the reschedulable tasks, by host
    movable: Mapping[str, tuple[TaskResourceRequests, ...]] = field(default_factory=dict)


def tags_by_short_host_name(tags: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
    return {short_host_name(name): host_tags for name, host_tags in tags.items()}


def tags_of_host(host: str, tags: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the tags of a host, whose name may have a domain."""
    return tags.get(short_host_name(host), ())


def has_standby_tag(host: str, tags: Mapping[str, tuple[str, ...]]) -> bool:
    """Say whether a tag allows a squeeze to power a host on."""
    return any(tag.startswith(STANDBY) for tag in tags_of_host(host, tags))


class StandbyOrWakePlanCause(Enum):
    LACKING = "lacking"  # free capacity is below the minimal reserve
    ASKED = "asked"  # waiting tasks need hosts, and some hosts may be woken
    PLENTY = "plenty"  # free capacity is above the target reserve
    BETWEEN = "between"  # no change of hosts is needed
    NO_STANDBY = "no standby"  # hosts are needed, and none may be woken
    FULL = "full"  # hosts are needed, and the number of nodes is at its limit
    NO_MAXIMUM = "no maximum"  # max_nodes is not set
    UNREADY = "unready"  # too many hosts are silent or in error


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMovedBeforePowerOff:
    source: str
    target: str
    slots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyOrWakePlan:
    """The hosts that a squeeze powers off or wakes; no plan both powers off and wakes hosts."""

    cause: StandbyOrWakePlanCause
    off: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    moved: tuple[TaskMovedBeforePowerOff, ...] = ()
    bound: tuple[str, ...] = ()  # hosts whose tasks have no room on other hosts
    last: str = ""  # the only working host, which the balancer's policy would remove; empty: none
    untagged: tuple[str, ...] = ()  # powered-off hosts without a tag, which are never woken
    working: int = 0
    reserve: int = 0  # standard requests (sample jobs) that could start now on all working hosts together
    least: float = 0.0  # hosts are woken below this number of startable standard requests per host
    target: float = 0.0  # hosts are powered off only above this number of startable standard requests per host


class StandbyOrWakeStepKind(Enum):
    DRAIN = "drain"  # disable the host's queues, and check again that the host is idle
    TAG = "tag"  # add a standby tag if the host has none
    STOP = "stop"
    START = "start"  # power the host on, and wait for its execution daemon
    OPEN = "open"  # enable the host's queues
    UNTAG = "untag"  # remove the tag that a squeeze wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStandbyOrWakeStep:
    """A step of powering off or waking a host; the steps of one host run in order."""

    host: str
    doing: StandbyOrWakeStepKind
    tag: str = ""
