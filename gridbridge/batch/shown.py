"""States in the letters of qstat(1), which people know: for systems that have none of their own."""

from gridbridge.model.states import Fact, QueueFact

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Collection

BEFORE = ((Fact.DELETING, "d"), (Fact.ERROR, "E"), (Fact.HELD, "h"), (Fact.RESTARTED, "R"))
OF_HOSTS = ((Fact.SUSPENDED, "s"), (Fact.STARTING, "t"), (Fact.RUNNING, "r"))
OF_QUEUES = ((QueueFact.UNREACHABLE, "u"), (QueueFact.DISABLED, "d"))


def job_letters(facts: "Collection[str]") -> str:
    """Show what a job is; empty for one that is not listed."""
    before = "".join(letter for fact, letter in BEFORE if fact in facts)
    if Fact.WAITING in facts:
        return before + ("q" if Fact.RESTARTED in facts else "qw")
    return before + next((letter for fact, letter in OF_HOSTS if fact in facts), "")


def queue_letters(facts: "Collection[str]") -> str:
    """Show what a queue is on one host; empty for an open one."""
    return "".join(letter for fact, letter in OF_QUEUES if fact in facts)
