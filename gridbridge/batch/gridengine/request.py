"""What a job asked for and its environment: what only qmaster and execd know.

Read without lxml and re, because every transfer does it (design: hot programs). Sources:
`qstat -j N -xml` of 8.1.9, whose lists lose their inner tags after a qalter, and whose `<` is
`%lt;`; and execd's active_jobs/N.T/environment, which holds values whole that the shepherd
would cut at 10 kB. See tests/golden/gridengine-8.1.9.
"""

from gridbridge.errors import ParseError

AUTOMATIC = b"__SGE_PREFIX__"  # variables that qsub adds by itself
PRIORITY_ZERO = 1024  # JB_priority of `-p 0`
INTERACTIVE = 0x1E  # in JB_type: of qsh, qlogin, qrsh and qrsh without a command (sge_job.h)
OURS = "gridbridge_"  # what the names of our notes in a job's context begin with
OWN_START = f"{OURS}start"  # in its context while its start time is ours: its own, 0 for none
LATEST_S = 2**32 - 1  # Grid Engine keeps no later start time
FAR_S = 2051222400  # the start time of a job that is away: 2035
ARRAY = 0x80  # in JB_type: of `qsub -t`
RERUN = {b"1": "yes", b"2": "no"}  # JB_restart; 0: as the queue says
_ESCAPES = ((b"%lt;", b"<"), (b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&apos;", b"'"))

Pairs = tuple[tuple[str, str], ...]


class Request:
    """A job's request, as text; empty where it asked for nothing."""

    __slots__ = (
        "checkpoint",
        "context",
        "groups",
        "hard",
        "notify",
        "owner",
        "priority",
        "project",
        "queues",
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

    def __init__(self, xml: bytes) -> None:
        if b"<JB_job_number>" not in xml:
            raise ParseError("qstat -j: no such job, or no answer of qstat")
        self.owner = _leaf(xml, b"JB_owner")
        self.hard: Pairs = _pairs(
            _section(xml, b"JB_hard_resource_list"), b"CE_name", b"CE_stringval"
        )
        self.soft: Pairs = _pairs(
            _section(xml, b"JB_soft_resource_list"), b"CE_name", b"CE_stringval"
        )
        self.context: Pairs = _pairs(_section(xml, b"JB_context"), b"VA_variable", b"VA_value")
        self.variables = frozenset(
            _text(name)
            for name in _leaves(_section(xml, b"JB_env_list"), b"VA_variable")
            if not name.startswith(AUTOMATIC)
        )
        queues = _leaves(_section(xml, b"JB_hard_queue_list"), b"QR_name")
        self.queues = ",".join(map(_text, queues))
        self.targets = ""  # queues at the remote cluster, when a mapping names some
        self.stays = False  # it asks there for queues that send nothing away
        self.types: tuple[str, ...] = ()  # of a job of OAR
        self.groups: tuple[tuple[int, int], ...] = ()  # of OAR: nodes and slots; none: one node
        self.project = _leaf(xml, b"JB_project")
        self.checkpoint = _leaf(xml, b"JB_checkpoint_name")
        self.notify = _leaf(xml, b"JB_notify") == "true"
        self.priority = int(_leaf(xml, b"JB_priority") or PRIORITY_ZERO) - PRIORITY_ZERO
        self.share = int(_leaf(xml, b"JB_jobshare") or 0)
        self.start = int(_leaf(xml, b"JB_execution_time") or 0)  # not before; 0: at once
        self.submitted = _leaf(xml, b"JB_submission_time")  # anew when it is put back
        self.rerun = RERUN.get(_section(xml, b"JB_restart"), "")

    @property
    def is_deferred(self) -> bool:
        """Whether its start time is ours."""
        return self.start == FAR_S

    @property
    def own_start(self) -> int:
        """The start time that its owner gave it, also while it is deferred; 0 for none.

        The owner may have written anything where we keep it: what is no time is none.
        """
        kept = "" if self.odd_start else dict(self.context).get(OWN_START)
        return int(kept or 0) if self.is_deferred else self.start

    @property
    def odd_start(self) -> str:
        """What stands where we keep its own start time, if that can be none."""
        kept = dict(self.context).get(OWN_START, "")
        is_number = kept.isascii() and kept.isdigit() and len(kept) <= len(str(LATEST_S))
        return kept if kept and not (is_number and int(kept) <= LATEST_S) else ""


def owner_and_account_of(xml: bytes) -> tuple[str, str]:
    """Return JB_owner and JB_account; ParseError when there is no job in the answer."""
    if b"<JB_job_number>" not in xml:
        raise ParseError("qstat -j: neither a job nor an unknown one")
    return _leaf(xml, b"JB_owner"), _leaf(xml, b"JB_account")


def read_environment(data: bytes) -> dict[str, str]:
    """Read execd's `environment` file: `NAME=value`, newlines and backslashes escaped."""
    pairs = (line.partition(b"=") for line in data.split(b"\n") if line)
    return {_decode(name): _decode(_unescape(value)) for name, _, value in pairs}


def read_config(data: bytes) -> dict[str, str]:
    """Read execd's `config` file: `name=value` lines."""
    pairs = (line.partition(b"=") for line in data.split(b"\n") if line)
    return {_decode(name): _decode(value) for name, _, value in pairs}


def cwd_of(xml: bytes) -> str:
    """Return the working directory of `qsub -cwd` or `-wd`, empty for the owner's home."""
    return _leaf(xml, b"JB_cwd")


def parallel_of(xml: bytes) -> str:
    """Return `PE SLOTS`, the most that are asked for (qsub(1) -pe), empty for a serial job."""
    name = _leaf(xml, b"JB_pe")
    ends = _leaves(_section(xml, b"JB_pe_range"), b"RN_max") if name else ()
    return f"{name} {max(map(int, ends), default=1)}" if name else ""


def is_interactive(xml: bytes) -> bool:
    """Say whether somebody sits at a terminal and waits for the job (qrsh, qlogin)."""
    return bool(_type(xml) & INTERACTIVE)


def has_task(xml: bytes, task: int) -> bool:
    """Say whether a job was submitted with a task of this number, over by now or not."""
    tasks = _section(xml, b"JB_ja_structure")
    ends = (map(int, _leaves(tasks, tag)) for tag in (b"RN_min", b"RN_max", b"RN_step"))
    ranges = (range(low, high + 1, max(step, 1)) for low, high, step in zip(*ends, strict=True))
    return bool(_type(xml) & ARRAY) and any(task in each for each in ranges)


def _type(xml: bytes) -> int:
    return int(_leaf(xml, b"JB_type") or 0)


def ranges_of(xml: bytes) -> str:
    """Return `PE RANGES` as it was asked for, `smp 2-4,8`, empty for a serial job."""
    name = _leaf(xml, b"JB_pe")
    ranges = _section(xml, b"JB_pe_range")
    ends = zip(_leaves(ranges, b"RN_min"), _leaves(ranges, b"RN_max"), strict=True)
    return f"{name} {','.join(f'{int(low)}-{int(high)}' for low, high in ends)}" if name else ""


def _section(xml: bytes, tag: bytes) -> bytes:
    """Return what is inside the first element of this name, which holds no other of it."""
    return xml.partition(b"<" + tag + b">")[2].partition(b"</" + tag + b">")[0]


def _leaves(xml: bytes, tag: bytes) -> list[bytes]:
    return [part.partition(b"</")[0] for part in xml.split(b"<" + tag + b">")[1:]]


def _leaf(xml: bytes, tag: bytes) -> str:
    return _text(_section(xml, tag))


def _pairs(xml: bytes, name: bytes, value: bytes) -> Pairs:
    """Return (name, value) in their order; a name without a value has an empty one."""
    entries = xml.split(b"<" + name + b">")[1:]
    return tuple((_text(entry.partition(b"</")[0]), _leaf(entry, value)) for entry in entries)


def _text(raw: bytes) -> str:
    if b"&" in raw or b"%" in raw:
        for escape, meaning in _ESCAPES:
            raw = raw.replace(escape, meaning)
        raw = raw.replace(b"&amp;", b"&")
    return _decode(raw)


def _unescape(value: bytes) -> bytes:
    if b"\\" not in value:
        return value
    return b"\\".join(part.replace(b"\\n", b"\n") for part in value.split(b"\\\\"))


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
