"""A Grid Engine cell: its configuration, hosts and queues, and jobs grouped by equal requests."""

from collections.abc import Container, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum
from fnmatch import fnmatchcase

from gridbridge.model import qconf_attribute_parser
from gridbridge.model.elastic.elastic_nodes import short_host_name
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.job_and_queue_states import JobState, QueueInstanceState, QueueStartBlocker
from gridbridge.model.job_request import resource_long_name

USERS, BARRED_USERS = "user_lists", "xuser_lists"
PROJECTS, BARRED_PROJECTS = "projects", "xprojects"
CHECKPOINTS = "ckpt_list"
USER_LISTS = (USERS, BARRED_USERS)
PROJECT_LISTS = (PROJECTS, BARRED_PROJECTS)
ACCESS = (*USER_LISTS, *PROJECT_LISTS, CHECKPOINTS)  # queue attributes that limit access
GROUP = "@"  # first character of a group's name in a user list


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAccessIdentity:
    """The facts about a job that access lists check; an unknown fact never excludes the job."""

    owner: str = ""
    group: str = ""
    project: str | None = None  # the job's project; empty: no project; None: unknown
    checkpoint: str = ""  # checkpointing environment; empty: none or unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEngineUserList:
    """A user list of Grid Engine, which is an access list, a department or both."""

    entries: tuple[str, ...] = ()  # users, and groups with a leading @
    is_access: bool = True  # False: a department, which admits nobody to a queue

    def contains_owner_or_group(self, identity: JobAccessIdentity) -> bool:
        return identity.owner in self.entries or (bool(identity.group) and f"{GROUP}{identity.group}" in self.entries)

    def may_contain_job_owner(self, identity: JobAccessIdentity) -> bool:
        """Say whether a job's owner may be in the list; an owner of unknown group may be in any group."""
        may_be_member = any(
            not identity.group if entry.startswith(GROUP) else fnmatchcase(identity.owner, entry)
            for entry in self.entries
        )
        return self.is_access and (self.contains_owner_or_group(identity) or may_be_member)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAccessLists:
    users: tuple[str, ...] = ()  # names of the user lists that admit users; empty: all users are admitted
    barred_users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()  # empty: all projects and jobs without a project are admitted
    barred_projects: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] | None = None  # None: unknown

    @property
    def depends_on_job_owner(self) -> bool:
        return bool(self.users or self.barred_users)

    @property
    def depends_on_job_project(self) -> bool:
        return bool(self.projects or self.barred_projects)

    def refused_user_or_project(self, identity: JobAccessIdentity, lists: Mapping[str, GridEngineUserList]) -> str:
        """Return the refused user, project or checkpointing environment; empty if the job is admitted."""
        if identity.owner and not self._admits_job_owner(identity, lists):
            return f"user {identity.owner}"
        project = identity.project
        is_barred = project in self.barred_projects or (self.projects and project not in self.projects)
        if project is not None and is_barred:
            return f"project {project}" if project else "jobs without a project"
        checkpoint = identity.checkpoint
        if checkpoint and self.checkpoints is not None and checkpoint not in self.checkpoints:
            return f"checkpointing environment {checkpoint}"
        return ""

    def _admits_job_owner(self, identity: JobAccessIdentity, lists: Mapping[str, GridEngineUserList]) -> bool:
        barring = (lists[name] for name in self.barred_users if name in lists)
        if any(not user_list.is_access or user_list.contains_owner_or_group(identity) for user_list in barring):
            return False
        return not self.users or any(
            name not in lists or lists[name].may_contain_job_owner(identity) for name in self.users
        )


ANYBODY, TO_ALL = JobAccessIdentity(), QueueAccessLists()


def parse_access_lists(settings: Mapping[str, str]) -> QueueAccessLists:
    named = {key: qconf_attribute_parser.parse_qconf_words(settings.get(key, "")) for key in ACCESS}
    return QueueAccessLists(
        users=named[USERS],
        barred_users=named[BARRED_USERS],
        projects=named[PROJECTS],
        barred_projects=named[BARRED_PROJECTS],
        checkpoints=named[CHECKPOINTS] if CHECKPOINTS in settings else None,
    )


class RequestedValueComparison(StrEnum):
    """How Grid Engine compares a requested value with a host's value: relop of complex(5)."""

    EQUAL = "=="
    OTHER = "!="
    AT_MOST = "<="  # the requested value must be at most the host's value
    AT_LEAST = ">="
    LESS = "<"
    MORE = ">"
    EXCLUSIVE = "EXCL"  # a job that requests this resource has the host alone


class ConsumableKind(Enum):
    """Whether tasks use up a resource: not at all, per slot or per job."""

    NO = "no"
    BY_SLOT = "by slot"
    BY_JOB = "by job"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResourceDefinition:
    """One resource of the cell, as listed in complex(5)."""

    name: str
    shortcut: str = ""
    relation: RequestedValueComparison = RequestedValueComparison.AT_MOST
    counted: ConsumableKind = ConsumableKind.NO
    is_forced: bool = False  # on hosts with the resource, only jobs that request the resource may run
    default: str = "0"  # amount that a task without a request uses


class ParallelSlotDistribution(Enum):
    ONE_HOST = "one host"
    ANY_HOSTS = "any hosts"
    FIXED = "fixed"  # the same number of slots on each host
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParallelEnvironment:
    name: str
    spread: ParallelSlotDistribution = ParallelSlotDistribution.UNKNOWN
    per_host: int = 0  # slots on each host, if the distribution is FIXED
    slots: int = 0  # largest number of slots of all running tasks together
    access: QueueAccessLists = TO_ALL


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQueue:
    """A cluster queue with its default values, and the values that differ on single hosts."""

    name: str
    hosts: tuple[str, ...] = ()  # hosts and host groups
    environments: tuple[str, ...] = ()
    values: tuple[tuple[str, str], ...] = ()  # resource values, and limits such as h_rt
    is_batch: bool = True
    is_best_effort: bool = False  # tasks of the queue are preempted when other queues need the cores
    is_away: bool = False  # a transfer queue, which sends tasks to another cluster
    access: QueueAccessLists = TO_ALL
    varying: tuple[
        tuple[str, qconf_attribute_parser.QconfValuesByHost], ...
    ] = ()  # attributes whose values differ between hosts, with the values

    @property
    def is_ignored_by_balancer(self) -> bool:
        """Whether the queue is a best-effort or transfer queue, whose tasks the balancer ignores."""
        return self.is_best_effort or self.is_away

    @property
    def resource_names(self) -> frozenset[str]:
        """The names of resources and limits that the queue has on at least one host."""
        lists = (value for key, value in self.varying if key == COMPLEX_VALUES)
        own = (qconf_attribute_parser.parse_qconf_pairs(text) for value in lists for _, text in value.others)
        return frozenset(name for name, _ in self.values).union(*own)

    @property
    def access_lists_on_all_hosts(self) -> tuple[QueueAccessLists, ...]:
        lists = ((key, value) for key, value in self.varying if key in ACCESS)
        own = (parse_access_lists({key: text}) for key, value in lists for _, text in value.others)
        return (self.access, *own)

    def with_values_of_host(self, host: str, groups: Container[str]) -> "CellQueue":
        if not self.varying:
            return self
        return parse_cell_queue(self.name, {name: value.value_at_host(host, groups) for name, value in self.varying})


ARCH = "arch"  # load value that every reporting host has
LIMITS = ("s_rt", "h_rt", "s_cpu", "h_cpu", "s_fsize", "h_fsize", "s_data", "h_data")
MEMORY = ("s_stack", "h_stack", "s_core", "h_core", "s_rss", "h_rss", "s_vmem", "h_vmem")


def parse_cell_queue(name: str, settings: Mapping[str, str]) -> CellQueue:
    values = {
        key: qconf_attribute_parser.parse_qconf_values_by_host(text) for key, text in settings.items() if key != HOSTS
    }
    usual = {key: value.usual for key, value in values.items()}
    limits = {key: usual[key] for key in (*LIMITS, *MEMORY) if key in usual}
    return CellQueue(
        name=name,
        hosts=qconf_attribute_parser.parse_qconf_words(settings.get(HOSTS, "")),
        environments=qconf_attribute_parser.parse_qconf_words(usual.get("pe_list", "")),
        values=tuple((limits | qconf_attribute_parser.parse_qconf_pairs(usual.get(COMPLEX_VALUES, ""))).items()),
        is_batch="BATCH" in qconf_attribute_parser.parse_qconf_words(usual.get("qtype", "BATCH")),
        is_best_effort=qconf_attribute_parser.is_besteffort_queue(usual),
        is_away=qconf_attribute_parser.is_transfer_queue(usual),
        access=parse_access_lists(usual),
        varying=tuple(values.items()) if any(value.others for value in values.values()) else (),
    )


HOSTS, COMPLEX_VALUES = "hostlist", "complex_values"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellConfiguration:
    resources: Mapping[str, CellResourceDefinition] = field(default_factory=dict)  # resources, by name and by shortcut
    environments: Mapping[str, ParallelEnvironment] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)  # hosts, by host group
    parts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # host groups inside a host group, by outer group
    queues: Mapping[str, CellQueue] = field(default_factory=dict)
    deferred: frozenset[int] = frozenset()  # jobs whose start time is in the future
    # limit of running tasks, by array job number
    caps: Mapping[int, int] = field(default_factory=dict)
    promised: Mapping[str, int] = field(default_factory=dict)  # reserved slots, by QUEUE@HOST
    user_lists: Mapping[str, GridEngineUserList] = field(default_factory=dict)
    projects: Mapping[int, str] | None = None  # project of each job, by job number; None: not queried
    owners_groups: Mapping[int, str] = field(default_factory=dict)
    checkpoints: Mapping[int, str] = field(default_factory=dict)  # checkpointing environment of each job, by job number

    def full_resource_name(self, resource: str) -> str:
        """Return the full name of a resource, from the cell's list or Grid Engine's default shortcuts."""
        entry = self.resources.get(resource)
        return entry.name if entry else resource_long_name(resource)

    def groups_of_host(self, host: str) -> frozenset[str]:
        return frozenset(name for name, hosts in self.groups.items() if host in hosts)

    def add_enclosing_groups(self, groups: Set[str]) -> frozenset[str]:
        return frozenset(groups | {name for name, inner in self.parts.items() if inner & groups})

    def countable_consumables(self, values: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Yield the full name and the value of each consumable that is not an exclusive resource."""
        for name, text in values:
            resource = self.resources.get(name)
            is_counted = resource is not None and resource.counted is not ConsumableKind.NO
            if resource and is_counted and resource.relation is not RequestedValueComparison.EXCLUSIVE:
                yield resource.name, text

    @property
    def all_access_lists(self) -> tuple[QueueAccessLists, ...]:
        of_queues = (access for queue in self.queues.values() for access in queue.access_lists_on_all_hosts)
        return (*of_queues, *(environment.access for environment in self.environments.values()))

    def queue_on_host(self, queue: str, host: str) -> CellQueue | None:
        """Return a queue with the values that apply on one host; None for an unknown queue."""
        cell_queue = self.queues.get(queue)
        return (
            cell_queue.with_values_of_host(host, self.groups_of_host(host))
            if cell_queue and cell_queue.varying
            else cell_queue
        )

    @property
    def hosts_with_queue(self) -> frozenset[str]:
        """The short names of all hosts with a queue."""
        names = (name for queue in self.queues.values() for name in queue.hosts)
        named = (host for name in names for host in self.groups.get(name, (name,)))
        return frozenset(map(short_host_name, named))


TRUE = ("TRUE", "true", "1")  # how qstat shows a requested boolean (complex(5))


@dataclass(frozen=True, slots=True, kw_only=True)
class CellExecutionHost:
    name: str
    load: float | None = None  # None: the execution daemon reports no load
    left: tuple[tuple[str, str], ...] = ()  # free amounts of consumables, by name
    values: tuple[tuple[str, str], ...] = ()  # values of resources that are not consumable, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTaskGroup:
    """Running tasks of one owner and job name that started together in a queue instance."""

    owner: str
    name: str
    slots: int  # slots of all tasks together
    since: datetime | None  # start time; None: the tasks are still starting


@dataclass(frozen=True, slots=True, kw_only=True)
class CellQueueInstance:
    queue: str
    host: str
    used: int
    reserved: int
    total: int
    state: QueueInstanceState
    running: tuple[int, ...] = ()  # slots of each task that runs or starts in the queue instance
    is_taken: bool = False  # a running task uses the host exclusively
    begun: tuple[RunningTaskGroup, ...] = ()
    promised: int = 0  # slots of present and future advance reservations

    @property
    def is_usable(self) -> bool:
        """Whether the state of the queue instance lets tasks start; overload is ignored."""
        return self.state.facts <= {QueueStartBlocker.LOADED}

    @property
    def has_tasks_or_reserved_slots(self) -> bool:
        return bool(self.running or self.used or self.reserved or self.promised)

    @property
    def free_slots(self) -> int:
        return 0 if self.state.facts else max(0, self.total - self.used - self.reserved)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResourceRequests:
    slots: int = 1  # requested slots; of a slot range, the smallest number
    pe: str = ""  # requested parallel environment, maybe with wildcards
    requests: tuple[tuple[str, str], ...] = ()  # hard resource requests: names and unparsed values
    queues: tuple[str, ...] = ()  # hard queue requests; a task may run in any of these queues
    array: int = 0  # job number of an array job that limits its running tasks (-tc); 0: no such limit
    is_range: bool = False  # True: the job requests a slot range, so a task may get more than `slots`
    is_on_all: bool = False  # the task requests all hosts of the cluster, so that a new node does not help
    groups: tuple["TaskResourceRequests", ...] = ()  # requests of each part, for a task with several parts
    others: tuple["TaskResourceRequests", ...] = ()  # larger requests; the task may start with any of these instead
    identity: JobAccessIdentity = ANYBODY

    @property
    def requests_besteffort_queues(self) -> bool:
        return any(name == BEST_EFFORT and text in TRUE for name, text in self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJobGroup:
    """The waiting jobs of one owner with equal requests and equal state."""

    shape: TaskResourceRequests
    state: JobState
    jobs: tuple[int, ...]  # job numbers in the order of the scheduler's list
    tasks: int  # number of tasks of all jobs together
    first_since: datetime | None  # submission time of the first job in the scheduler's list
    oldest_since: datetime | None  # submission time of the oldest job; None: unknown
    capped: int = 0  # number of tasks that wait because of the limit -tc of qsub(1)
    is_deferred: bool = False
    is_dependent: bool = False
    is_inner: bool = False  # the jobs run inside a container job of OAR: oarsub -t inner=JOB
    is_campaign: bool = False
    kinds: tuple[tuple[str, str, int], ...] = ()  # owner, job name and number of tasks, for each job name in the group

    @property
    def lowest_job_number(self) -> int:
        return min(self.jobs)

    @property
    def total_requested_slots(self) -> int:
        return self.tasks * self.shape.slots

    @property
    def can_start(self) -> bool:
        return self.state.can_start and not self.is_deferred

    @property
    def uses_only_spare_slots(self) -> bool:
        """Whether the jobs use only spare slots, so that no node is added for the jobs."""
        return self.is_campaign or self.shape.requests_besteffort_queues


@dataclass(frozen=True, slots=True, kw_only=True)
class GridEngineCellSnapshot:
    hosts: tuple[CellExecutionHost, ...]
    instances: tuple[CellQueueInstance, ...]
    waiting: tuple[WaitingJobGroup, ...]  # in the order of the scheduler's list
    granted: tuple[tuple[str, int], ...] = ()  # number of slots in use, by parallel environment
    left: tuple[tuple[str, str], ...] = ()  # free consumables of the cell as a whole, such as licences
