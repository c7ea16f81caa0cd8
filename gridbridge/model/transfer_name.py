"""Names of transfers, gb.<cluster>.<job>.<task>.<attempt>, and ids of local jobs and tasks.

The remote job has this name as its account (`qsub -A`), and until its release as its job name. Each part has
only letters, digits and `-`, because Grid Engine forbids some characters (sge_types(1), object_name).
"""

from gridbridge.errors import ParseError

PREFIX = "gb"
WRAP = 1 << 32  # Grid Engine 8.1.9 prints task numbers from 2**31 on as negative numbers, too small by this value
NO_TASK = 0  # task number of a job that is no array job


class TransferAttemptId:
    """The parts of a transfer's name."""

    __slots__ = ("attempt", "cluster", "job", "task")

    def __init__(self, cluster: str, job: int, task: int, attempt: int) -> None:
        self.cluster = cluster
        self.job = job
        self.task = task
        self.attempt = attempt

    def __str__(self) -> str:
        return f"{PREFIX}.{self.cluster}.{self.job}.{self.task}.{self.attempt}"

    def __eq__(self, transfer_id: object) -> bool:
        return isinstance(transfer_id, TransferAttemptId) and str(self) == str(transfer_id)

    def __hash__(self) -> int:
        return hash(str(self))

    @property
    def local_job_or_task_id(self) -> str:
        """The id of the local job or task for Grid Engine's commands: `12`, or `12.3` for a task."""
        return f"{self.job}.{self.task}" if self.task else str(self.job)


def parse_transfer_name(name: str) -> TransferAttemptId:
    """Parse the name of a transfer; raise ParseError for any other text."""
    parts = name.split(".")
    if len(parts) != 5 or parts[0] != PREFIX or not is_valid_cluster_name(parts[1]):
        raise ParseError(f"{name!r} is not gb.<cluster>.<job>.<task>.<attempt>")
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts[2:]):
        raise ParseError(f"{name!r}: job, task or attempt is no number")
    return TransferAttemptId(parts[1], int(parts[2]), int(parts[3]), int(parts[4]))


def parse_local_job_and_task(job: str) -> tuple[int, int]:
    """Parse a job id `12` or a task id `12.3` into job and task; a job id gives task NO_TASK."""
    parts = job.split(".")
    are_numbers = all(part.isascii() and part.isdigit() and len(part) < 10 and part[0] != "0" for part in parts)
    if len(parts) > 2 or not are_numbers:
        raise ParseError(f"{job!r} is not a job id; expected JOB or JOB.TASK, as in qstat")
    return int(parts[0]), int(parts[1]) if len(parts) == 2 else NO_TASK


def parse_qstat_task_ranges(text: str) -> tuple[range, ...]:
    """Parse task ranges as qstat prints them, such as `1-9:2,12`; raise ParseError for any other text."""
    return tuple(_parse_qstat_task_range(part.strip()) for part in text.split(",")) if text else ()


def _parse_qstat_task_range(part: str) -> range:
    ends, has_step, step = part.partition(":")
    cut = ends.find("-", 1)  # from index 1, because a minus sign at the start belongs to the number
    first, last = (ends[:cut], ends[cut + 1 :]) if cut > 0 else (ends, "")
    numbers = (first, *([last] if cut > 0 else ()), *([step] if has_step else ()))
    if (has_step and cut <= 0) or not all(map(_is_qstat_task_number, numbers)):
        raise ParseError(f"qstat: {part[:40]!r} is no range of tasks")
    tasks = range(
        _parse_qstat_task_number(first),
        _parse_qstat_task_number(last or first) + 1,
        _parse_qstat_task_number(step or "1") or 1,
    )
    if not tasks or not tasks[0]:
        raise ParseError(f"qstat: {part[:40]!r} is an empty range of tasks")
    return tasks


def _is_qstat_task_number(part: str) -> bool:
    digits = part.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 10


def _parse_qstat_task_number(part: str) -> int:
    number = int(part)
    return number + WRAP if number < 0 else number


def job_ids_in_pushed_report(pushed: bytes) -> list[int]:
    """Return the job ids in a report of ended jobs; ignore other words, because anyone may report."""
    return [int(word) for word in pushed.split() if word.isdigit() and len(word) < 10]


def is_transfer_name(name: str) -> bool:
    try:
        return bool(parse_transfer_name(name))
    except ParseError:
        return False


def is_valid_cluster_name(name: str) -> bool:
    """Say whether a cluster's name is valid: at most 32 characters of a-z, 0-9 and `-`, a letter first."""
    return (
        0 < len(name) <= 32
        and name.isascii()
        and name[0].isalpha()
        and name == name.lower()
        and name.replace("-", "0").isalnum()
    )
