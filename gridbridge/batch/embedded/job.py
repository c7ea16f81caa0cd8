"""A job of an embedded cluster: what is asked for it, what is known of it, and how it ended."""

from typing import NamedTuple


class Job(NamedTuple):
    """A job that waits or runs; columns of its table in their order."""

    id: int
    name: str
    account: str
    owner: str
    shell: str
    cwd: str
    output: str
    slots: int
    submitted_at: float
    held: int
    error: str
    pid: int
    birth: str
    started_at: float | None
    suspended: int
    deleting: int
    wanted: str = ""  # the queue it asked for; empty: any
    pinned: str = ""  # the only queue it may start in for now
    at: str = ""  # the transfer queue that it runs in; empty: the cluster's own slots
    restarted: int = 0
    reason: str = ""  # why it came home

    @property
    def letters(self) -> str:
        """The state as Grid Engine's letters tell it (sge_status(5))."""
        held = "h" if self.held else ""
        held += "R" if self.restarted else ""
        if self.pid:
            deleting = "d" if self.deleting else ""
            return f"{deleting}{held}{'s' if self.suspended else 'r'}"
        return f"{'E' if self.error else ''}{held}{'q' if self.restarted else 'qw'}"


class Queue(NamedTuple):
    """A transfer queue: slots whose jobs are started by a starter (queue_conf(5))."""

    name: str
    slots: int
    methods: str  # the folder of starter, suspend, resume, terminate, epilog and sensor
    remote: str  # the cluster whose load values open and close it
    pending_limit: int  # it is closed while so many jobs wait there; 0: never for that


class NewJob(NamedTuple):
    """What is asked for a new job."""

    name: str
    account: str
    shell: str
    cwd: str
    output: str
    slots: int
    held: bool
    script: bytes
    queue: str = ""


class End(NamedTuple):
    """How a job ended: an exit status or a signal, or neither when nobody saw it."""

    exit_status: int | None = None
    signal: int | None = None
    reason: str = ""
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_kb: int = 0
