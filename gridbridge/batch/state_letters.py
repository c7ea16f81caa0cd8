"""States in the letters of qstat(1), which people know: for systems that have none of their own."""

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


def job_letters(facts: "Collection[str]") -> str:
    """Show what a job is; empty for one that is not listed."""
    before = "".join(letter for fact, letter in BEFORE if fact in facts)
    if JobFact.WAITING in facts:
        return before + ("q" if JobFact.RESTARTED in facts else "qw")
    return before + next((letter for fact, letter in OF_HOSTS if fact in facts), "")


def queue_letters(facts: "Collection[str]") -> str:
    """Show what a queue is on one host; empty for an open one."""
    return "".join(letter for fact, letter in OF_QUEUES if fact in facts)
