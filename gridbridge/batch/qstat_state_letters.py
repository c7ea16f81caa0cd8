"""Parses Grid Engine's state letters one by one, even in unknown groups (sge_status(5), qstat(1))."""

from gridbridge.model.job_and_queue_states import JobState, JobStateFact, QueueInstanceState, QueueStartBlocker

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from collections.abc import Collection


OF_JOBS = {
    "q": (JobStateFact.WAITING,),
    "w": (JobStateFact.WAITING,),
    "h": (JobStateFact.HELD,),
    "r": (JobStateFact.RUNNING,),
    "t": (JobStateFact.RUNNING, JobStateFact.STARTING),
    "s": (JobStateFact.RUNNING, JobStateFact.SUSPENDED, JobStateFact.BY_HAND),  # set by `qmod -sj`
    # suspended with the whole queue: by qmod -sq, a calendar or a superordinate queue
    "S": (JobStateFact.RUNNING, JobStateFact.SUSPENDED, JobStateFact.BY_QUEUE),
    "T": (JobStateFact.RUNNING, JobStateFact.SUSPENDED, JobStateFact.BY_THRESHOLD),  # set by suspend_thresholds
    "d": (JobStateFact.DELETING,),
    "E": (JobStateFact.ERROR,),  # cleared by `qmod -cj`
    "R": (JobStateFact.RESTARTED,),
    "z": (JobStateFact.FINISHED,),
}
OF_QUEUES = {
    "E": (QueueStartBlocker.ERROR,),  # cleared by `qmod -cq`
    "d": (QueueStartBlocker.DISABLED,),
    "D": (QueueStartBlocker.OFF_HOURS,),
    "s": (QueueStartBlocker.SUSPENDED, QueueStartBlocker.BY_HAND),  # set by `qmod -sq`
    "S": (QueueStartBlocker.SUSPENDED,),  # suspended by a superordinate queue of the host
    "C": (QueueStartBlocker.SUSPENDED, QueueStartBlocker.OFF_HOURS),
    "u": (QueueStartBlocker.UNREACHABLE,),
    "a": (QueueStartBlocker.LOADED,),
    "A": (QueueStartBlocker.OVERLOADED,),
}
UNKNOWN, UNKNOWN_QUEUE = (JobStateFact.UNKNOWN,), (QueueStartBlocker.UNKNOWN,)


def parse_job_state_letters(letters: str) -> JobState:
    """Parse a job's state letters; an unknown letter, or a missing state, becomes the fact UNKNOWN."""
    facts = {fact for letter in letters for fact in OF_JOBS.get(letter, UNKNOWN)}
    return JobState(facts or UNKNOWN, letters)


def parse_queue_state_letters(letters: str) -> QueueInstanceState:
    """Parse a queue instance's state letters; without letters the queue instance is open."""
    facts = {fact for letter in letters for fact in OF_QUEUES.get(letter, UNKNOWN_QUEUE)}
    return QueueInstanceState(facts, letters)


BEFORE = (
    (JobStateFact.DELETING, "d"),
    (JobStateFact.ERROR, "E"),
    (JobStateFact.HELD, "h"),
    (JobStateFact.RESTARTED, "R"),
)
OF_HOSTS = ((JobStateFact.SUSPENDED, "s"), (JobStateFact.STARTING, "t"), (JobStateFact.RUNNING, "r"))
LETTER_OF_QUEUE_FACT = ((QueueStartBlocker.UNREACHABLE, "u"), (QueueStartBlocker.DISABLED, "d"))


def render_job_state_letters(facts: "Collection[str]") -> str:
    """Render a job's state facts as letters; return an empty result for a job that does not exist."""
    before = "".join(letter for fact, letter in BEFORE if fact in facts)
    if JobStateFact.WAITING in facts:
        return before + ("q" if JobStateFact.RESTARTED in facts else "qw")
    return before + next((letter for fact, letter in OF_HOSTS if fact in facts), "")


def render_queue_state_letters(facts: "Collection[str]") -> str:
    """Render a queue instance's state facts as letters; an open queue instance has no letters."""
    return "".join(letter for fact, letter in LETTER_OF_QUEUE_FACT if fact in facts)
