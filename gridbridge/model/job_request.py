"""What a job requests, and what is submitted, for any batch system; starters load this module."""

from gridbridge.model import light_dataclass

OURS = "gridbridge_"  # name prefix of gridbridge's variables in the context of a job (`qsub -ac`)
OWN_QUEUES = f"{OURS}queues"  # the owner's queue list, while the service has set another
OWN_START = f"{OURS}start"  # the owner's start time, while the service defers the job; 0: none
OWN_JOB = f"{OURS}job"  # job number of a deferred job; a copy made by qresub has another number
OWN_HOLD = f"{OURS}hold"  # set if the service, and not the starter, held the task
BALANCE = f"{OURS}balance"  # with value `no`, rebalancing must not move the job
YIELDS = "besteffort"  # OAR's type of preemptible jobs
LATEST_S = 2**32 - 1  # latest start time that Grid Engine can store, in epoch seconds
FAR_S = 2051222400  # start time of deferred jobs, in epoch seconds: in the year 2035
# The characters of SQL relations, which no property name contains.
RELATIONS = "<>=~"
LIKE, NOT_LIKE, IS_NULL, NOT_NULL = "~", "<>~", "==", "<>=="
VALUELESS = (IS_NULL, NOT_NULL)  # relations that compare with no value
EMPTY = "''"
WORDS = {LIKE: "LIKE", NOT_LIKE: "NOT LIKE", IS_NULL: "IS NULL", NOT_NULL: "IS NOT NULL"}

HOSTNAME, QNAME = "hostname", "qname"
USUAL = (  # usual short names of resources (complex(5)); a cell may define others
    "a=arch c=calendar core=m_core dwg=display_win_gui h=hostname la=load_avg ll=load_long"
    " lm=load_medium ls=load_short mci=min_cpu_interval mf=mem_free mt=mem_total mu=mem_used"
    " nla=np_load_avg nll=np_load_long nlm=np_load_medium nls=np_load_short p=num_proc q=qname"
    " re=rerun s=slots seq=seq_no sf=swap_free socket=m_socket sr=swap_rate srsv=swap_rsvd"
    " st=swap_total su=swap_used thread=m_thread tmp=tmpdir topo=m_topology"
    " utopo=m_topology_inuse vf=virtual_free vt=virtual_total vu=virtual_used"
)
SHORTCUTS = dict(pair.split("=") for pair in USUAL.split())

VALUES = "gb_"  # name prefix of the load sensor's load values
AT_HOME = ("remote", HOSTNAME, QNAME)  # resources whose name or value has no meaning at other clusters

Pairs = tuple[tuple[str, str], ...]
Variant = tuple[Pairs | None, str | None]  # new hard resources and new queue list of a job; None: unchanged


def resource_long_name(resource: str) -> str:
    """Return the long name of a resource; `resource` may be its usual short name."""
    return SHORTCUTS.get(resource, resource)


def is_home_only_resource(resource: str) -> bool:
    """Say whether a resource has a meaning only at home; remote jobs do not request such a resource."""
    return resource_long_name(resource) in AT_HOME or resource.startswith(VALUES)


@light_dataclass(kw_only=True)
class JobRequest:
    """What a job requests from its cluster; an empty value requests nothing."""

    owner: str = ""
    hard: Pairs = ()
    soft: Pairs = ()
    either: tuple[Pairs, ...] = ()  # the job needs one alternative of each tuple
    context: Pairs = ()
    variables: frozenset[str] = frozenset()  # names of the environment variables that the owner set
    queues: str = ""
    targets: str = ""  # remote queues that a mapping has chosen; empty: no choice
    stays: bool = False  # the remote cluster must not send the job to another cluster
    types: tuple[str, ...] = ()  # OAR job types; for Grid Engine only YIELDS counts
    groups: tuple[tuple[int, int], ...] = ()  # OAR: pairs (number of nodes, slots per node); empty: one node
    ranges: str = ""  # parallel environment and slot ranges, such as `smp 2-4,8`
    project: str = ""
    checkpoint: str = ""
    notify: bool = False
    priority: int = 0
    share: int = 0
    start: int = 0  # earliest start time in epoch seconds; 0: at once
    submitted: str = ""  # submission time, which Grid Engine changes on a reschedule
    rerun: str = ""  # whether the job may run again: yes, no, or empty (the queue decides)

    def with_changes(self, **changes: object) -> "JobRequest":
        return JobRequest(**(vars(self) | changes))

    @property
    def owner_requested_queues(self) -> str:
        """The queue list that the owner requested, even if the service has replaced the job's queue list."""
        listed = dict(self.context).get(OWN_QUEUES, "")
        return listed.replace(" ", ",") or self.queues

    @property
    def is_pinned_to_transfer_queue(self) -> bool:
        """Whether the job's queue list is now a transfer queue, which a starter replaces by the job's own list."""
        return OWN_QUEUES in dict(self.context)

    @property
    def is_deferred(self) -> bool:
        """Whether the service has deferred the start of the job to the far future."""
        return self.start == FAR_S

    @property
    def owner_requested_start(self) -> int:
        """The start time that the owner requested, in epoch seconds; 0 for none or an invalid time."""
        start = "" if self.invalid_start_time else dict(self.context).get(OWN_START)
        return int(start or 0) if self.is_deferred else self.start

    @property
    def invalid_start_time(self) -> str:
        """The invalid start time in the job's context, as text; '' for none or a valid time."""
        text = dict(self.context).get(OWN_START, "")
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return text if text and not (is_number and int(text) <= LATEST_S) else ""

    @property
    def job_number_if_deferred(self) -> int:
        """The job number that the service stored in a deferred job's context; 0 for any other job."""
        text = dict(self.context).get(OWN_JOB, "") if self.is_deferred else ""
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LATEST_S))
        return int(text) if is_number else 0


@light_dataclass(kw_only=True)
class JobSpec:
    """Everything that a cluster gets to run a job: script, request, shell and working directory."""

    transfer: str  # transfer's name, used as job name and account
    request: JobRequest
    script: bytes = b""
    shell: str = "/bin/sh"
    cwd: str = ""  # working directory; empty: the owner's home directory
    pe: str = ""  # parallel environment; empty: a serial job
    slots: int = 1
    tasks: int = 0  # number of tasks of an array job; 0: no array job

    def with_changes(self, **changes: object) -> "JobSpec":
        return JobSpec(**(vars(self) | changes))


def split_property_and_sql_relation(name: str) -> tuple[str, str]:
    """Split a text such as `mem>` into name and SQL relation; the default relation is `=`."""
    bare = name.rstrip(RELATIONS)
    return bare, name[len(bare) :] or "="


def format_sql_condition_for_people(name: str, value: str) -> str:
    """Format a condition on a host property for users, such as `mem > 2000`."""
    bare, relation = split_property_and_sql_relation(name)
    if relation in WORDS:
        return f"{bare} {WORDS[relation]} {value}".rstrip()
    return f"{bare}{relation}{value or EMPTY}"
