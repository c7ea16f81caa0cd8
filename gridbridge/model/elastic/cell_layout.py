"""How a cell is laid out: its queues, host groups, parallel environments and resources.

It says what a task may run on: complex(5), queue_conf(5), hostgroup(5) and sge_pe(5).
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from gridbridge.model.attributes import (
    ValuesByHost,
    is_besteffort,
    is_transfer,
    pairs,
    varying,
    words,
)
from gridbridge.model.elastic.access import (
    ACCESS,
    TO_ALL,
    QueueAccessLists,
    UserList,
    parse_access_lists,
)
from gridbridge.model.elastic.node import short_host_name
from gridbridge.model.request import long_name


class ResourceRelation(StrEnum):
    """How what is asked for is compared with what is there."""

    EQUAL = "=="
    OTHER = "!="
    AT_MOST = "<="  # what is asked for is at most what is there
    AT_LEAST = ">="
    LESS = "<"
    MORE = ">"
    EXCLUSIVE = "EXCL"  # who asks for it has the host alone


class ConsumableKind(Enum):
    """Whether tasks use a resource up."""

    NO = "no"
    BY_SLOT = "by slot"
    BY_JOB = "by job"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResource:
    """A row of the table of complexes."""

    name: str
    shortcut: str = ""
    relation: ResourceRelation = ResourceRelation.AT_MOST
    counted: ConsumableKind = ConsumableKind.NO
    is_forced: bool = False  # who does not ask for it does not get where it is
    default: str = "0"  # what a task uses that does not ask


class SlotSpread(Enum):
    """How the slots of a parallel task lie on hosts."""

    ONE_HOST = "one host"
    ANY_HOSTS = "any hosts"
    FIXED = "fixed"  # the same number on each
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelEnvironment:
    """A parallel environment."""

    name: str
    spread: SlotSpread = SlotSpread.UNKNOWN
    per_host: int = 0  # slots, of a fixed one
    slots: int = 0  # the most that all its tasks have together
    access: QueueAccessLists = TO_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQueue:
    """A cluster queue with its usual values; some hosts may have other values."""

    name: str
    hosts: tuple[str, ...] = ()  # hosts and host groups
    environments: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()  # of resources, and its limits such as h_rt
    is_batch: bool = True
    is_best_effort: bool = False  # its tasks make way for all others
    is_away: bool = False  # it sends its tasks to another cluster
    access: QueueAccessLists = TO_ALL
    varying: tuple[tuple[str, ValuesByHost], ...] = ()  # all attributes, if a host differs in any

    @property
    def is_left_out(self) -> bool:
        """Whether the queue's tasks don't occupy the cluster: best-effort or transfer."""
        return self.is_best_effort or self.is_away

    @property
    def offered(self) -> frozenset[str]:
        """The resources and limits that the queue has on any host."""
        lists = (value for key, value in self.varying if key == COMPLEX_VALUES)
        own = (pairs(text) for value in lists for _, text in value.others)
        return frozenset(name for name, _ in self.values).union(*own)

    @property
    def accesses(self) -> tuple[QueueAccessLists, ...]:
        """Its lists as they usually are, and each that a host or host group has instead."""
        lists = ((key, value) for key, value in self.varying if key in ACCESS)
        own = (parse_access_lists({key: text}) for key, value in lists for _, text in value.others)
        return (self.access, *own)

    def on(self, host: str, groups: Container[str]) -> "CellQueue":
        """Return the queue as it is on a host."""
        if not self.varying:
            return self
        return parse_cell_queue(
            self.name, {name: value.on(host, groups) for name, value in self.varying}
        )


ARCH = "arch"  # a load value of every host that reports
BATCH = "BATCH"
LIMITS = ("s_rt", "h_rt", "s_cpu", "h_cpu", "s_fsize", "h_fsize", "s_data", "h_data")
MEMORY = ("s_stack", "h_stack", "s_core", "h_core", "s_rss", "h_rss", "s_vmem", "h_vmem")


def parse_cell_queue(name: str, settings: Mapping[str, str]) -> CellQueue:
    """Return a queue from its attributes as qconf(1) prints them."""
    values = {key: varying(text) for key, text in settings.items() if key != HOSTS}
    usual = {key: value.usual for key, value in values.items()}
    limits = {key: usual[key] for key in (*LIMITS, *MEMORY) if key in usual}
    return CellQueue(
        name=name,
        hosts=words(settings.get(HOSTS, "")),
        environments=words(usual.get("pe_list", "")),
        values=tuple((limits | pairs(usual.get(COMPLEX_VALUES, ""))).items()),
        is_batch=BATCH in words(usual.get("qtype", BATCH)),
        is_best_effort=is_besteffort(usual),
        is_away=is_transfer(usual),
        access=parse_access_lists(usual),
        varying=tuple(values.items()) if any(value.others for value in values.values()) else (),
    )


HOSTS, COMPLEX_VALUES = "hostlist", "complex_values"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellConfiguration:
    """What a cell's configuration tells; nothing at all where nobody asked for it."""

    resources: Mapping[str, CellResource] = field(default_factory=dict)  # by name and by shortcut
    environments: Mapping[str, ParallelEnvironment] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)  # with those of their groups
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # groups in each, and so on
    queues: Mapping[str, CellQueue] = field(default_factory=dict)
    deferred: frozenset[int] = frozenset()  # jobs whose start time is in the future
    caps: Mapping[int, int] = field(default_factory=dict)  # how many tasks of an array may run
    promised: Mapping[str, int] = field(default_factory=dict)  # slots reserved, by QUEUE@HOST
    user_lists: Mapping[str, UserList] = field(default_factory=dict)  # those that anything names
    projects: Mapping[int, str] | None = None  # of jobs that have one; None: nobody asked
    owners_groups: Mapping[int, str] = field(default_factory=dict)  # of jobs, as far as asked for
    checkpoints: Mapping[int, str] = field(default_factory=dict)  # environments of jobs, the same

    def long_name(self, resource: str) -> str:
        """Return a resource's long name, by the cell's list or else the usual shortcuts."""
        entry = self.resources.get(resource)
        return entry.name if entry else long_name(resource)

    def groups_of(self, host: str) -> frozenset[str]:
        """Return the host groups that a host is in."""
        return frozenset(name for name, hosts in self.groups.items() if host in hosts)

    def around(self, groups: Set[str]) -> frozenset[str]:
        """Return the host groups that a host is in which is put into some."""
        return frozenset(groups | {name for name, inner in self.parts.items() if inner & groups})

    def counted(self, values: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Give the values of consumables, by the names of resources."""
        for name, text in values:
            resource = self.resources.get(name)
            if (
                resource
                and resource.counted != ConsumableKind.NO
                and resource.relation != ResourceRelation.EXCLUSIVE
            ):
                yield resource.name, text

    @property
    def accesses(self) -> tuple[QueueAccessLists, ...]:
        """The lists of all queues, on any host, and of all parallel environments."""
        of_queues = (access for queue in self.queues.values() for access in queue.accesses)
        return (*of_queues, *(environment.access for environment in self.environments.values()))

    def queue_on(self, queue: str, host: str) -> CellQueue | None:
        """Return a queue as it is on a host; None for an unknown queue."""
        cell_queue = self.queues.get(queue)
        return (
            cell_queue.on(host, self.groups_of(host))
            if cell_queue and cell_queue.varying
            else cell_queue
        )

    @property
    def placed(self) -> frozenset[str]:
        """The short names of the hosts that are in a queue, by name or by a host group."""
        names = (name for queue in self.queues.values() for name in queue.hosts)
        named = (host for name in names for host in self.groups.get(name, (name,)))
        return frozenset(map(short_host_name, named))
