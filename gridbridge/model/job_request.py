"""A job's request in any batch system, and the spec of a job to submit.

Starters load this module. Each batch adapter parses its system's answers into a JobRequest.
"""

OURS = "gridbridge_"  # prefix of gridbridge's variables in a job's context
OWN_QUEUES = f"{OURS}queues"  # the owner's queue list while the service restricts the queues
OWN_START = f"{OURS}start"  # the owner's start time of a deferred job; 0 for none
OWN_JOB = f"{OURS}job"  # the deferred job's number, by which a qresub copy is recognised
OWN_HOLD = f"{OURS}hold"  # the mark of a job whose task the service, not the starter, held
BALANCE = f"{OURS}balance"  # the owner's `no` keeps rebalance from moving the job
YIELDS = "besteffort"  # the OAR type of preemptible jobs
LATEST_S = 2**32 - 1  # latest start time that Grid Engine can store
FAR_S = 2051222400  # start time of a deferred job, in the year 2035
# Characters of SQL relations; no property name contains any of these characters.
RELATIONS = "<>=~"
LIKE, NOT_LIKE, IS_NULL, NOT_NULL = "~", "<>~", "==", "<>=="
VALUELESS = (IS_NULL, NOT_NULL)  # SQL relations that take no value
EMPTY = "''"
WORDS = {LIKE: "LIKE", NOT_LIKE: "NOT LIKE", IS_NULL: "IS NULL", NOT_NULL: "IS NOT NULL"}

HOSTNAME, QNAME = "hostname", "qname"
USUAL = (  # usual shortcut of each resource (complex(5)); a cell may differ
    "a=arch c=calendar core=m_core dwg=display_win_gui h=hostname la=load_avg ll=load_long"
    " lm=load_medium ls=load_short mci=min_cpu_interval mf=mem_free mt=mem_total mu=mem_used"
    " nla=np_load_avg nll=np_load_long nlm=np_load_medium nls=np_load_short p=num_proc q=qname"
    " re=rerun s=slots seq=seq_no sf=swap_free socket=m_socket sr=swap_rate srsv=swap_rsvd"
    " st=swap_total su=swap_used thread=m_thread tmp=tmpdir topo=m_topology"
    " utopo=m_topology_inuse vf=virtual_free vt=virtual_total vu=virtual_used"
)
SHORTCUTS = dict(pair.split("=") for pair in USUAL.split())

VALUES = "gb_"  # prefix of the load sensor's load values
AT_HOME = ("remote", HOSTNAME, QNAME)  # resources with local names or values

Pairs = tuple[tuple[str, str], ...]
Variant = tuple[Pairs | None, str | None]  # replacement of hard resources and queues


def resource_long_name(resource: str) -> str:
    """Return the long name of a resource, which may be given by its usual shortcut."""
    return SHORTCUTS.get(resource, resource)


def is_home_only_resource(resource: str) -> bool:
    """Say whether a resource has only local names and is never requested remotely."""
    return resource_long_name(resource) in AT_HOME or resource.startswith(VALUES)


class JobRequest:
    """A job's immutable request; values that the job does not request are empty."""

    __slots__ = (
        "checkpoint",
        "context",
        "either",
        "groups",
        "hard",
        "notify",
        "owner",
        "priority",
        "project",
        "queues",
        "ranges",
        "rerun",
        "share",
        "soft",
        "start",
        "stays",
        "submitted",
        "targets",
        "types",
        "variables",
    )

    def __init__(
        self,
        *,
        owner: str = "",
        hard: Pairs = (),
        soft: Pairs = (),
        either: tuple[Pairs, ...] = (),
        context: Pairs = (),
        variables: frozenset[str] = frozenset(),
        queues: str = "",
        targets: str = "",
        stays: bool = False,
        types: tuple[str, ...] = (),
        groups: tuple[tuple[int, int], ...] = (),
        ranges: str = "",
        project: str = "",
        checkpoint: str = "",
        notify: bool = False,
        priority: int = 0,
        share: int = 0,
        start: int = 0,
        submitted: str = "",
        rerun: str = "",
    ) -> None:
        self.owner = owner
        self.hard = hard
        self.soft = soft
        self.either = either  # alternatives: one hard resource of each tuple is enough
        self.context = context
        self.variables = variables  # names of the environment variables set by the owner
        self.queues = queues
        self.targets = targets  # remote queues that the mapping names; empty: none
        self.stays = stays  # whether the remote job must not be sent to a third cluster
        self.types = types  # OAR job types; YIELDS also has a meaning for Grid Engine
        self.groups = groups  # (node count, slots on each) of an OAR request; empty: one node
        self.ranges = ranges  # requested environment and slot ranges, such as `smp 2-4,8`
        self.project = project
        self.checkpoint = checkpoint
        self.notify = notify
        self.priority = priority
        self.share = share
        self.start = start  # earliest start time in epoch seconds; 0: at once
        self.submitted = submitted  # submission time; Grid Engine resets this time on a reschedule
        self.rerun = rerun  # whether the job may run again: yes, no, or empty (as its queue says)

    def but(self, **changes: object) -> "JobRequest":
        """Return a copy of the request with some values replaced."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values.update(changes)
        return JobRequest(**values)

    @property
    def own_queues(self) -> str:
        """The owner's queue list, even while the service restricts the job's queues."""
        listed = dict(self.context).get(OWN_QUEUES, "")
        return listed.replace(" ", ",") or self.queues

    @property
    def is_pinned(self) -> bool:
        """Whether the service restricts the job to a transfer queue until a task's adoption."""
        return OWN_QUEUES in dict(self.context)

    @property
    def is_deferred(self) -> bool:
        """Whether the service has set the job's start time."""
        return self.start == FAR_S

    @property
    def own_start(self) -> int:
        """The start time that the job's owner requested, in epoch seconds; 0 for none.

        The owner may write any text into the job's context; an invalid time counts as none.
        """
        start = "" if self.odd_start else dict(self.context).get(OWN_START)
        return int(start or 0) if self.is_deferred else self.start

    @property
    def odd_start(self) -> str:
        """An invalid text stored as the owner's start time; '' for a valid time."""
        text = dict(self.context).get(OWN_START, "")
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return text if text and not (is_number and int(text) <= LATEST_S) else ""

    @property
    def deferred_job(self) -> int:
        """The number of the job whose start time the service set; 0 without such a job."""
        text = dict(self.context).get(OWN_JOB, "") if self.is_deferred else ""
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return int(text) if is_number else 0


class JobSpec:
    """The description of a job to submit: all values that a cluster needs to run the job."""

    __slots__ = ("cwd", "pe", "request", "script", "shell", "slots", "tasks", "transfer")

    def __init__(
        self,
        *,
        transfer: str,
        request: JobRequest,
        script: bytes = b"",
        shell: str = "/bin/sh",
        cwd: str = "",
        pe: str = "",
        slots: int = 1,
        tasks: int = 0,
    ) -> None:
        self.transfer = transfer  # transfer name, used as job name and account
        self.request = request
        self.script = script
        self.shell = shell
        self.cwd = cwd  # working directory; empty: the owner's home directory
        self.pe = pe  # parallel environment; empty: a serial job
        self.slots = slots  # number of slots of each task
        self.tasks = tasks  # number of an array's tasks; 0: no array

    def but(self, **changes: object) -> "JobSpec":
        """Return a copy of the job spec with some fields replaced."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values.update(changes)
        return JobSpec(**values)


def split_property_and_sql_relation(name: str) -> tuple[str, str]:
    """Split a property name from its SQL relation, which is `=` if absent."""
    bare = name.rstrip(RELATIONS)
    return bare, name[len(bare) :] or "="


def format_sql_condition_for_people(name: str, value: str) -> str:
    """Format an SQL condition for people."""
    bare, relation = split_property_and_sql_relation(name)
    if relation in WORDS:
        return f"{bare} {WORDS[relation]} {value}".rstrip()
    return f"{bare}{relation}{value or EMPTY}"
