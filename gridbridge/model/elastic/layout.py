"""How a cell is laid out: its queues, host groups, parallel environments and resources.

It says what a task may run on: complex(5), queue_conf(5), hostgroup(5) and sge_pe(5).
"""

from collections.abc import Container, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from gridbridge.model.elastic.nodes import short_name


class Relation(StrEnum):
    """How what is asked for is compared with what is there."""

    EQUAL = "=="
    OTHER = "!="
    AT_MOST = "<="  # what is asked for is at most what is there
    AT_LEAST = ">="
    LESS = "<"
    MORE = ">"
    EXCLUSIVE = "EXCL"  # who asks for it has the host alone


class Counted(Enum):
    """Whether tasks use a resource up."""

    NO = "no"
    BY_SLOT = "by slot"
    BY_JOB = "by job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A row of the table of complexes."""

    name: str
    shortcut: str = ""
    relation: Relation = Relation.AT_MOST
    counted: Counted = Counted.NO
    is_forced: bool = False  # who does not ask for it does not get where it is
    default: str = "0"  # what a task uses that does not ask


class Spread(Enum):
    """How the slots of a parallel task lie on hosts."""

    ONE_HOST = "one host"
    ANY_HOSTS = "any hosts"
    FIXED = "fixed"  # the same number on each
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A parallel environment."""

    name: str
    spread: Spread = Spread.UNKNOWN
    per_host: int = 0  # slots, of a fixed one
    slots: int = 0  # the most that all its tasks have together


@dataclass(frozen=True, slots=True, kw_only=True)
class Varying:
    """A value that may be another one on some hosts."""

    usual: str = ""
    others: tuple[tuple[str, str], ...] = ()  # a host or a host group, and the value there

    def on(self, host: str, groups: Container[str]) -> str:
        """Return it for a host: its own comes before those of its groups (queue_conf(5))."""
        own = (value for where, value in self.others if where == host)
        shared = (value for where, value in self.others if where in groups)
        return next(own, next(shared, self.usual))


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A cluster queue."""

    name: str
    hosts: tuple[str, ...] = ()  # hosts and host groups
    environments: Varying = Varying()
    values: tuple[tuple[str, str], ...] = ()  # of resources, and its limits such as h_rt
    is_batch: bool = True
    is_best_effort: bool = False  # its tasks make way for all others
    is_away: bool = False  # it sends its tasks to another cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What a cell's configuration tells; nothing at all where nobody asked for it."""

    resources: Mapping[str, Resource] = field(default_factory=dict)  # by name and by shortcut
    environments: Mapping[str, Environment] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)  # with those of their groups
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # groups in each, and so on
    queues: Mapping[str, Queue] = field(default_factory=dict)
    deferred: frozenset[int] = frozenset()  # jobs whose start time is in the future
    caps: Mapping[int, int] = field(default_factory=dict)  # how many tasks of an array may run
    promised: Mapping[str, int] = field(default_factory=dict)  # slots reserved, by QUEUE@HOST

    def groups_of(self, host: str) -> frozenset[str]:
        """Return the host groups that a host is in."""
        return frozenset(name for name, hosts in self.groups.items() if host in hosts)

    def around(self, groups: Set[str]) -> frozenset[str]:
        """Return the host groups that a host is in which is put into some."""
        return frozenset(groups | {name for name, inner in self.parts.items() if inner & groups})

    @property
    def placed(self) -> frozenset[str]:
        """The short names of the hosts that are in a queue, by name or by a host group."""
        every = (one for queue in self.queues.values() for one in queue.hosts)
        named = (host for one in every for host in self.groups.get(one, (one,)))
        return frozenset(map(short_name, named))
