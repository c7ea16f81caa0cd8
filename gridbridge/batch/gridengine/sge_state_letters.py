"""Parses Grid Engine's state letters: sge_status(5) and qstat(1).

The letters come in groups such as `hqw`, `Rr`, `dS` or `EhRqw`. They are parsed one by one, so that
a new combination keeps its facts. Hot programs load this module.
"""

from gridbridge.model.states import JobFact, JobState, QueueFact, QueueState

OF_JOBS = {
    "q": (JobFact.WAITING,),
    "w": (JobFact.WAITING,),
    "h": (JobFact.HELD,),
    "r": (JobFact.RUNNING,),
    "t": (JobFact.RUNNING, JobFact.STARTING),
    "s": (JobFact.RUNNING, JobFact.SUSPENDED, JobFact.BY_HAND),  # qmod -sj
    "S": (
        JobFact.RUNNING,
        JobFact.SUSPENDED,
        JobFact.BY_QUEUE,
    ),  # or its calendar, a superordinate queue
    "T": (JobFact.RUNNING, JobFact.SUSPENDED, JobFact.BY_THRESHOLD),  # suspend_thresholds
    "d": (JobFact.DELETING,),
    "E": (JobFact.ERROR,),  # qmod -cj
    "R": (JobFact.RESTARTED,),
    "z": (JobFact.FINISHED,),
}
OF_QUEUES = {
    "E": (QueueFact.ERROR,),  # qmod -cq
    "d": (QueueFact.DISABLED,),
    "D": (QueueFact.OFF_HOURS,),
    "s": (QueueFact.SUSPENDED, QueueFact.BY_HAND),  # qmod -sq
    "S": (QueueFact.SUSPENDED,),  # by a superordinate queue of its host
    "C": (QueueFact.SUSPENDED, QueueFact.OFF_HOURS),
    "u": (QueueFact.UNREACHABLE,),
    "a": (QueueFact.LOADED,),
    "A": (QueueFact.OVERLOADED,),
}
UNKNOWN, UNKNOWN_QUEUE = (JobFact.UNKNOWN,), (QueueFact.UNKNOWN,)


def parse_job_letters(letters: str) -> JobState:
    """Parse a listed job's state letters; unknown or missing letters are a fact as well."""
    facts = {fact for letter in letters for fact in OF_JOBS.get(letter, UNKNOWN)}
    return JobState(facts or UNKNOWN, letters)


def parse_queue_letters(letters: str) -> QueueState:
    """Parse a queue instance's state letters; no letters mean that it is open."""
    facts = {fact for letter in letters for fact in OF_QUEUES.get(letter, UNKNOWN_QUEUE)}
    return QueueState(facts, letters)
