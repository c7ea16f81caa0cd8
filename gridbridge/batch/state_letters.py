"""Renders states as qstat(1)'s letters, for batch systems that have no letters of their own."""

from gridbridge.model.states import JobFact, QueueFact

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Collection

BEFORE = (
    (JobFact.DELETING, "d"),
    (JobFact.ERROR, "E"),
    (JobFact.HELD, "h"),
    (JobFact.RESTARTED, "R"),
)
OF_HOSTS = ((JobFact.SUSPENDED, "s"), (JobFact.STARTING, "t"), (JobFact.RUNNING, "r"))
OF_QUEUES = ((QueueFact.UNREACHABLE, "u"), (QueueFact.DISABLED, "d"))


def render_job_letters(facts: "Collection[str]") -> str:
    """Render a job's state facts as letters; empty for an unlisted job."""
    before = "".join(letter for fact, letter in BEFORE if fact in facts)
    if JobFact.WAITING in facts:
        return before + ("q" if JobFact.RESTARTED in facts else "qw")
    return before + next((letter for fact, letter in OF_HOSTS if fact in facts), "")


def render_queue_letters(facts: "Collection[str]") -> str:
    """Render a queue instance's state facts as letters; empty for an open one."""
    return "".join(letter for fact, letter in OF_QUEUES if fact in facts)
