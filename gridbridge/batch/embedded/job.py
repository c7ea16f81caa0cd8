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

    @property
    def letters(self) -> str:
        """The state as Grid Engine's letters tell it (sge_status(5))."""
        held = "h" if self.held else ""
        if self.pid:
            deleting = "d" if self.deleting else ""
            return f"{deleting}{held}{'s' if self.suspended else 'r'}"
        return f"{'E' if self.error else ''}{held}qw"


class Request(NamedTuple):
    """What is asked for a new job."""

    name: str
    account: str
    shell: str
    cwd: str
    output: str
    slots: int
    held: bool
    script: bytes


class End(NamedTuple):
    """How a job ended: an exit status or a signal, or neither when nobody saw it."""

    exit_status: int | None = None
    signal: int | None = None
    reason: str = ""
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_kb: int = 0
