"""What the record of a job says about the job's tasks, which ran one after another; batch/group.sh writes it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

LONGEST_CS = 10**10  # a century: the owner of a record may write anything
MOST_DIGITS = len(str(LONGEST_CS))
HIGHEST_STATUS = 255
MOST_TASKS_OF_JOB = 2000  # of a job that gets further tasks; task_record_reader reads the records of so many tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTaskRun:
    """A task's run in the record of its job; times are hundredths of a second since the job's start."""

    began_cs: int
    ended_cs: int | None = None  # None: the record has no end of the task
    exit_status: int | None = None
    signal: int | None = None


TaskAndAttempt = tuple[int, int]  # task number, attempt number
JobRecord = Mapping[TaskAndAttempt, RecordedTaskRun]  # the begun tasks of a job, in the order of their begins


@dataclass(frozen=True, slots=True, kw_only=True)
class PullingJob:
    """A running job that gets further tasks, as its record has shown it."""

    campaign: int
    cluster: str
    array: int
    index: int
    begin_s: int  # the job begins no task after this many seconds
    wait_s: int  # the job without a task ends after this many seconds
    tasks: int  # number of tasks that the job has got
    begun: int
    ended: int
    failed: int  # of the ended tasks
    last_end_s: float  # seconds from the job's start to the last end of a task
    age_s: float  # seconds since the record was read


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksForRunningJob:
    """Further tasks for a running job."""

    campaign: int
    cluster: str
    array: int
    index: int
    tasks: int


def parse_job_record(text: str) -> JobRecord:
    """Parse the record of a job; ignore lines that are cut off or otherwise wrong."""
    runs: dict[TaskAndAttempt, RecordedTaskRun] = {}
    for line in text.split("\n")[:-1]:
        word, key, *numbers = (*line.split(), "", "")[:4] if line else ("", "")
        task, _, attempt = key.partition(".")
        if not all(_is_number(number) for number in (task, attempt, *filter(None, numbers))):
            continue
        of, amounts = (int(task), int(attempt)), [int(number) for number in numbers if number]
        if word == "begin" and len(amounts) == 1 and of not in runs:
            runs[of] = RecordedTaskRun(began_cs=amounts[0])
        elif word in ("exit", "signal") and len(amounts) == 2 and of in runs and amounts[1] <= HIGHEST_STATUS:
            end = {"exit_status" if word == "exit" else "signal": amounts[1]}
            runs[of] = replace(runs[of], ended_cs=max(runs[of].began_cs, amounts[0]), **end)
    return runs


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and int(text) <= LONGEST_CS
