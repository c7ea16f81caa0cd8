"""A job's request in any batch system, and the spec of a job to submit.

Hot programs load this module. Each batch adapter parses its system's answers into a JobRequest.
"""

OURS = "gridbridge_"  # prefix of gridbridge's variables in a job's context
OWN_QUEUES = f"{OURS}queues"  # the owner's queue list of a job pinned to a transfer queue
OWN_START = f"{OURS}start"  # the owner's start time of a deferred job; 0 for none
OWN_JOB = f"{OURS}job"  # the deferred job's number, because qresub copies the context
OWN_HOLD = f"{OURS}hold"  # the service, not the starter, has held a task
BALANCE = f"{OURS}balance"  # set by the owner: `no` keeps rebalance from moving the job
YIELDS = "besteffort"  # the OAR type of preemptible jobs
LATEST_S = 2**32 - 1  # Grid Engine keeps no later start time
FAR_S = 2051222400  # the start time of a deferred job: 2035
# Characters of a relation behind a property's name; no name contains any of them.
RELATIONS = "<>=~"
LIKE, NOT_LIKE, IS_NULL, NOT_NULL = "~", "<>~", "==", "<>=="
VALUELESS = (IS_NULL, NOT_NULL)  # relations without a value behind them
EMPTY = "''"
WORDS = {LIKE: "LIKE", NOT_LIKE: "NOT LIKE", IS_NULL: "IS NULL", NOT_NULL: "IS NOT NULL"}

HOSTNAME, QNAME = "hostname", "qname"
USUAL = (  # usual shortcuts of every cell's resources (complex(5)); a cell's own may differ
    "a=arch c=calendar core=m_core dwg=display_win_gui h=hostname la=load_avg ll=load_long"
    " lm=load_medium ls=load_short mci=min_cpu_interval mf=mem_free mt=mem_total mu=mem_used"
    " nla=np_load_avg nll=np_load_long nlm=np_load_medium nls=np_load_short p=num_proc q=qname"
    " re=rerun s=slots seq=seq_no sf=swap_free socket=m_socket sr=swap_rate srsv=swap_rsvd"
    " st=swap_total su=swap_used thread=m_thread tmp=tmpdir topo=m_topology"
    " utopo=m_topology_inuse vf=virtual_free vt=virtual_total vu=virtual_used"
)
SHORTCUTS = dict(pair.split("=") for pair in USUAL.split())

VALUES = "gb_"  # prefix of the sensor's load values
AT_HOME = ("remote", HOSTNAME, QNAME)  # resources that name places of the local cluster

Pairs = tuple[tuple[str, str], ...]
Variant = tuple[Pairs | None, str | None]  # other hard resources and queues for a request


def resource_long_name(resource: str) -> str:
    """Return a resource's long name for its name or usual shortcut, as qsub does."""
    return SHORTCUTS.get(resource, resource)


def is_home_only_resource(resource: str) -> bool:
    """Say whether a resource names home places and is never requested remotely."""
    return resource_long_name(resource) in AT_HOME or resource.startswith(VALUES)


class JobRequest:
    """A job's immutable request; unrequested values are empty. `but` makes copies."""

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
        self.either = either  # hard alternatives: one resource of each tuple is enough
        self.context = context
        self.variables = variables  # names of environment variables that the owner set
        self.queues = queues
        self.targets = targets  # queues at the remote cluster, if the mapping names any
        self.stays = stays  # remotely the job requests queues that send no jobs on
        self.types = types  # OAR job types; YIELDS also holds at Grid Engine
        self.groups = groups  # OAR groups of (nodes, slots a node); empty: one node
        self.ranges = ranges  # slot ranges as requested: `smp 2-4,8`
        self.project = project
        self.checkpoint = checkpoint
        self.notify = notify
        self.priority = priority
        self.share = share
        self.start = start  # earliest start time; 0: at once
        self.submitted = submitted  # submission time; Grid Engine resets this time on a reschedule
        self.rerun = rerun  # yes, no, or empty: the queue decides

    def but(self, **changes: object) -> "JobRequest":
        """Return a copy of the request with some values replaced."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values.update(changes)
        return JobRequest(**values)

    @property
    def own_queues(self) -> str:
        """The owner's queue list, also while the job is pinned to a transfer queue."""
        listed = dict(self.context).get(OWN_QUEUES, "")
        return listed.replace(" ", ",") or self.queues

    @property
    def is_pinned(self) -> bool:
        """Whether the job may only start in a transfer queue, for a task to be adopted."""
        return OWN_QUEUES in dict(self.context)

    @property
    def is_deferred(self) -> bool:
        """Whether the service has set the job's start time."""
        return self.start == FAR_S

    @property
    def own_start(self) -> int:
        """The start time that the owner requested, also of a deferred job; 0 for none.

        The owner may write any text into the job's context; an invalid time counts as none.
        """
        start = "" if self.odd_start else dict(self.context).get(OWN_START)
        return int(start or 0) if self.is_deferred else self.start

    @property
    def odd_start(self) -> str:
        """The invalid text in place of the owner's start time; '' for a valid time."""
        text = dict(self.context).get(OWN_START, "")
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return text if text and not (is_number and int(text) <= LATEST_S) else ""

    @property
    def deferred_job(self) -> int:
        """The job for which the service set this start time; 0 for none or invalid."""
        text = dict(self.context).get(OWN_JOB, "") if self.is_deferred else ""
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return int(text) if is_number else 0


class JobSpec:
    """All that a cluster needs to run a job; each new field has a default."""

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
        self.transfer = transfer  # the transfer name: job name and account
        self.request = request
        self.script = script
        self.shell = shell
        self.cwd = cwd  # empty: the owner's home
        self.pe = pe  # parallel environment; empty: a serial job
        self.slots = slots  # slots of each task
        self.tasks = tasks  # tasks of an array; 0: no array

    def but(self, **changes: object) -> "JobSpec":
        """Return a copy of the job spec with some fields replaced."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values.update(changes)
        return JobSpec(**values)


def split_name_and_relation(name: str) -> tuple[str, str]:
    """Split a property name from its SQL relation, which is `=` if absent."""
    bare = name.rstrip(RELATIONS)
    return bare, name[len(bare) :] or "="


def format_resource_condition(name: str, value: str) -> str:
    """Format an SQL condition for people."""
    bare, relation = split_name_and_relation(name)
    if relation in WORDS:
        return f"{bare} {WORDS[relation]} {value}".rstrip()
    return f"{bare}{relation}{value or EMPTY}"
