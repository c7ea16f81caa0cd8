"""What a job asks for, whatever its batch system, and what another cluster is given to run.

Hot programs load this module. Each adapter reads its own system's answers into a Request.
"""

OURS = "gridbridge_"  # what the names of our notes in a job's context begin with
OWN_QUEUES = f"{OURS}queues"  # while it is pinned to a transfer queue: its own list
OWN_START = f"{OURS}start"  # its own start time, 0 for none, while we have set another
OWN_JOB = f"{OURS}job"  # beside it: the job's number, because qresub copies all of this
OWN_HOLD = f"{OURS}hold"  # the service has held a task that its starter had not held
BALANCE = f"{OURS}balance"  # its owner's word: `no` keeps rebalancing from moving it
YIELDS = "besteffort"  # the type of jobs that make way for others
LATEST_S = 2**32 - 1  # Grid Engine keeps no later start time
FAR_S = 2051222400  # the start time of a job that is away: 2035
# Characters of a relation behind a property's name; no name contains any of them.
RELATIONS = "<>=~"
LIKE, NOT_LIKE, IS_NULL, NOT_NULL = "~", "<>~", "==", "<>=="
VALUELESS = (IS_NULL, NOT_NULL)  # relations without a value behind them
EMPTY = "''"
WORDS = {LIKE: "LIKE", NOT_LIKE: "NOT LIKE", IS_NULL: "IS NULL", NOT_NULL: "IS NOT NULL"}

HOSTNAME, QNAME = "hostname", "qname"
USUAL = (  # shortcuts of the resources that every cell has (complex(5)); its own may differ
    "a=arch c=calendar core=m_core dwg=display_win_gui h=hostname la=load_avg ll=load_long"
    " lm=load_medium ls=load_short mci=min_cpu_interval mf=mem_free mt=mem_total mu=mem_used"
    " nla=np_load_avg nll=np_load_long nlm=np_load_medium nls=np_load_short p=num_proc q=qname"
    " re=rerun s=slots seq=seq_no sf=swap_free socket=m_socket sr=swap_rate srsv=swap_rsvd"
    " st=swap_total su=swap_used thread=m_thread tmp=tmpdir topo=m_topology"
    " utopo=m_topology_inuse vf=virtual_free vt=virtual_total vu=virtual_used"
)
SHORTCUTS = dict(pair.split("=") for pair in USUAL.split())

VALUES = "gb_"  # begins the load values of the sensor
AT_HOME = ("remote", HOSTNAME, QNAME)  # resources that name places of the local cluster

Pairs = tuple[tuple[str, str], ...]
Variant = tuple[Pairs | None, str | None]  # of a request: other lists of hard resources and queues


def resource_long_name(resource: str) -> str:
    """Return a resource's long name from its name or its usual shortcut, as qsub reads it."""
    return SHORTCUTS.get(resource, resource)


def is_home_place(resource: str) -> bool:
    """Say whether a resource names places at home, and so is never requested elsewhere."""
    return resource_long_name(resource) in AT_HOME or resource.startswith(VALUES)


class JobRequest:
    """What a job asks for; empty where it asks for nothing. Nobody changes one: see `but`."""

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
        self.either = either  # of each of these one resource is enough, as hard as those
        self.context = context
        self.variables = variables  # names of those that its owner gave it
        self.queues = queues
        self.targets = targets  # queues at the remote cluster, if the mapping names any
        self.stays = stays  # there it asks for queues that send no jobs on
        self.types = types  # of a job of OAR; YIELDS means the same at Grid Engine
        self.groups = groups  # of OAR: nodes and slots; none: one node
        self.ranges = ranges  # of slots, as they were asked for: `smp 2-4,8`
        self.project = project
        self.checkpoint = checkpoint
        self.notify = notify
        self.priority = priority
        self.share = share
        self.start = start  # not before; 0: at once
        self.submitted = submitted  # Grid Engine sets it anew when it puts the job back
        self.rerun = rerun  # yes, no, or empty: its queue decides

    def but(self, **changes: object) -> "JobRequest":
        """Return the same request with some of it replaced."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values.update(changes)
        return JobRequest(**values)

    @property
    def own_queues(self) -> str:
        """Its own list of queues, also while it is pinned to another."""
        listed = dict(self.context).get(OWN_QUEUES, "")
        return listed.replace(" ", ",") or self.queues

    @property
    def is_pinned(self) -> bool:
        """Whether it may start in a transfer queue only: a task of it waits for adoption."""
        return OWN_QUEUES in dict(self.context)

    @property
    def is_deferred(self) -> bool:
        """Whether we have set its start time."""
        return self.start == FAR_S

    @property
    def own_start(self) -> int:
        """The start time that its owner gave it, also while it is deferred; 0 for none.

        The owner may have written anything there: what is not a time counts as none.
        """
        start = "" if self.odd_start else dict(self.context).get(OWN_START)
        return int(start or 0) if self.is_deferred else self.start

    @property
    def odd_start(self) -> str:
        """The text in the place of its own start time, if that is no time."""
        text = dict(self.context).get(OWN_START, "")
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return text if text and not (is_number and int(text) <= LATEST_S) else ""

    @property
    def deferred_job(self) -> int:
        """The number of the job to which we gave this start time; 0 for none, or for no number."""
        text = dict(self.context).get(OWN_JOB, "") if self.is_deferred else ""
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return int(text) if is_number else 0


class JobSpec:
    """What a cluster is given to run a job; whatever is added is a field with a default."""

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
        self.transfer = transfer  # its name and its account
        self.request = request
        self.script = script
        self.shell = shell
        self.cwd = cwd  # empty: its owner's home
        self.pe = pe  # its parallel environment; empty: it is serial
        self.slots = slots  # of each task
        self.tasks = tasks  # of an array; 0: it is none

    def but(self, **changes: object) -> "JobSpec":
        """Return the same with some of it replaced."""
        values = {name: getattr(self, name) for name in self.__slots__}
        values.update(changes)
        return JobSpec(**values)


def split_relation(name: str) -> tuple[str, str]:
    """Split a name from the relation behind it; without a relation that is `=`."""
    bare = name.rstrip(RELATIONS)
    return bare, name[len(bare) :] or "="


def format_sql_condition(name: str, value: str) -> str:
    """Write a condition as people read it."""
    bare, relation = split_relation(name)
    if relation in WORDS:
        return f"{bare} {WORDS[relation]} {value}".rstrip()
    return f"{bare}{relation}{value or EMPTY}"
