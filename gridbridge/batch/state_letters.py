"""Renders states as qstat(1)'s letters, for batch systems that have no letters of their own."""

from gridbridge.model.states import JobStateFact, QueueInstanceStateFact

TYPE_CHECKING = False  # importing typing takes as long as importing json
if TYPE_CHECKING:
    from collections.abc import Collection

BEFORE = (
    (JobStateFact.DELETING, "d"),
    (JobStateFact.ERROR, "E"),
    (JobStateFact.HELD, "h"),
    (JobStateFact.RESTARTED, "R"),
)
OF_HOSTS = ((JobStateFact.SUSPENDED, "s"), (JobStateFact.STARTING, "t"), (JobStateFact.RUNNING, "r"))
LETTER_OF_QUEUE_FACT = ((QueueInstanceStateFact.UNREACHABLE, "u"), (QueueInstanceStateFact.DISABLED, "d"))


def render_job_state_letters(facts: "Collection[str]") -> str:
    """Render a job's state facts as letters; empty for an unlisted job."""
    before = "".join(letter for fact, letter in BEFORE if fact in facts)
    if JobStateFact.WAITING in facts:
        return before + ("q" if JobStateFact.RESTARTED in facts else "qw")
    return before + next((letter for fact, letter in OF_HOSTS if fact in facts), "")


def render_queue_state_letters(facts: "Collection[str]") -> str:
    """Render a queue instance's state facts as letters; empty for an open one."""
    return "".join(letter for fact, letter in LETTER_OF_QUEUE_FACT if fact in facts)
