"""Builds command lines of the embedded cluster's program, and parses the program's answers.

An answer is complete if its last line is a dot.
"""

from gridbridge.errors import ParseError
from gridbridge.model import transfer_message
from gridbridge.model.job_request import (
    YIELDS,
    JobRequest,
    JobSpec,
    is_home_only_resource,
    split_property_and_sql_relation,
)
from gridbridge.model.transfer_route import EmbeddedClusterAccess

Argv = tuple[str, ...]
OWN = "embedded"  # name of the queue whose jobs run in this cluster
WALLTIME = "h_rt"


def submit_held_job_command(folder: EmbeddedClusterAccess, spec: JobSpec) -> Argv:
    """Build the command that submits a held job, with the job script on standard input.

    An array enters the queue `embedded`, never a transfer queue, because tasks of campaigns are not transferred again.
    """
    names = (f"--name={spec.transfer}", f"--account={spec.transfer}", "--held")
    options = (f"--shell={spec.shell}", f"--cwd={spec.cwd}", f"--slots={spec.slots}")
    return _call(folder, "submit", *names, *options, *(_array(spec) if spec.tasks else ()))


def _array(spec: JobSpec) -> Argv:
    options: Argv = (f"--tasks={spec.tasks}", f"--queue={OWN}")
    options += tuple(f"--walltime={limit}" for name, limit in spec.request.hard if name == WALLTIME)
    return (*options, "--yields") if YIELDS in spec.request.types else options


def list_cluster_and_jobs_command(folder: EmbeddedClusterAccess) -> Argv:
    """Build the command that shows the cluster and lists all jobs."""
    return _call(folder, "list")


def show_job_command(folder: EmbeddedClusterAccess, job: str) -> Argv:
    """Build the command that shows one job."""
    return _call(folder, "list", f"--job={job}")


def list_jobs_by_name_command(folder: EmbeddedClusterAccess, name: str) -> Argv:
    """Build the command that lists all jobs with a given name."""
    return _call(folder, "list", f"--name={name}")


def show_job_end_command(folder: EmbeddedClusterAccess, job: str) -> Argv:
    """Build the command that shows the end of a job."""
    return _call(folder, "ended", job)


def rename_and_release_command(folder: EmbeddedClusterAccess, job: str, name: str) -> Argv:
    """Build the command that releases a held job and gives the job its final name."""
    return _call(folder, "release", job, f"--name={name}")


def show_array_task_ends_command(folder: EmbeddedClusterAccess, array: str) -> Argv:
    """Build the command that shows the ends of an array's tasks."""
    return _call(folder, "ended", array, "--tasks")


def release_array_command(folder: EmbeddedClusterAccess, array: str, name: str) -> Argv:
    """Build the command that releases a held array and gives the array its final name."""
    return _call(folder, "release-array", array, f"--name={name}")


def delete_array_command(folder: EmbeddedClusterAccess, array: str, indices: str = "") -> Argv:
    """Build the command that deletes all tasks of an array, or the tasks with given indices."""
    return _call(folder, "delete-array", array, f"--places={indices}")


def job_control_command(folder: EmbeddedClusterAccess, verb: str, job: str) -> Argv:
    """Build the command that holds, releases, suspends, resumes or deletes a job."""
    return _call(folder, verb, job)


def keep_on_own_slots_command(folder: EmbeddedClusterAccess, job: str, reason: str) -> Argv:
    """Build the command that restricts a job to the queue `embedded`."""
    return _call(folder, "stay", job, f"--reason={reason}")


def pin_to_queue_command(folder: EmbeddedClusterAccess, job: str, queue: str) -> Argv:
    """Build the command that restricts a job to one queue; an empty queue lifts the restriction."""
    return _call(folder, "pin", job, f"--queue={queue}")


def explain_request_refusal(request: JobRequest, *, is_array: bool = False) -> str:
    """Return the reason why an embedded cluster can't satisfy a request; empty if it can.

    An embedded cluster has slots, and walltimes for array tasks. A request for any other limit or
    resource is refused, because the cluster would not enforce the limit.
    """
    ignored = (WALLTIME,) if is_array else ()
    unsupported = [name for name, _ in request.hard if not (is_home_only_resource(name) or name in ignored)]
    unsupported += [name for clause in request.either for name, _ in clause]
    unsupported = [split_property_and_sql_relation(name)[0] for name in unsupported]
    unsupported += ["checkpointing"] if request.checkpoint else []
    unsupported += ["-notify"] if request.notify else []
    return f"an embedded cluster has no {', '.join(unsupported)}" if unsupported else ""


def _call(folder: EmbeddedClusterAccess, *words: str) -> Argv:
    return (folder.python, "-I", "-m", "gridbridge.batch.embedded", folder.path, *words)


WHOLE = b".\n"
BETWEEN = b"\n"


class PrintedEmbeddedCluster:
    """The state of an embedded cluster as printed by verb `list`; all fields are text."""

    host: str
    slots: str
    used: str
    waiting: str  # number of jobs that wait for slots, without campaigns' tasks
    yielding: str  # number of slots that preemptible jobs use
    queues: str  # transfer queues, as `NAME=USED/SLOTS` separated by blanks

    def __init__(self, **values: str) -> None:
        _fill(self, values)


class PrintedEmbeddedJob:
    """A waiting or running embedded job as printed by verb `list`; all fields are text."""

    id: str
    name: str
    account: str
    owner: str
    facts: str  # facts of the job's state (model.states), separated by blanks
    state: str  # state letters as in qstat
    slots: str
    since: str  # time of start, else of submission, in seconds since the epoch
    error: str  # reason of the job's error state
    message: str
    queue: str  # transfer queue in which the job runs; empty: queue `embedded`
    wanted: str  # requested queue; empty: any queue
    array: str  # array id; empty: not an array task
    place: str  # array index

    def __init__(self, **values: str) -> None:
        _fill(self, values)


class PrintedEmbeddedJobEnd:
    """The end of an embedded job as printed by verb `ended`; all fields are text.

    `exit_status` and `signal` are empty if the job's keeper process died.
    """

    account: str
    exit_status: str
    signal: str
    reason: str
    host: str
    user_s: str
    system_s: str
    wallclock_s: str
    killed_for: str  # why the job was killed (JobKillReason); empty: not killed
    place: str  # array index; empty: not an array task

    def __init__(self, **values: str) -> None:
        _fill(self, values)


Line = PrintedEmbeddedCluster | PrintedEmbeddedJob | PrintedEmbeddedJobEnd


def encode_embedded_answer(*blocks: Line) -> bytes:
    """Encode an answer as blocks of key-value lines, followed by a line with a dot."""
    return BETWEEN.join(transfer_message.encode_key_value_lines(vars(block)) for block in blocks) + WHOLE


def parse_embedded_cluster_and_jobs(answer: bytes) -> tuple[PrintedEmbeddedCluster, list[PrintedEmbeddedJob]]:
    """Parse the answer of verb `list`; raise ParseError for an incomplete answer."""
    blocks = _blocks(answer)
    if not blocks:
        raise ParseError("embedded: the answer lacks the cluster")
    cluster = PrintedEmbeddedCluster(
        **transfer_message.decode_key_value_lines(blocks[0], _keys(PrintedEmbeddedCluster))
    )
    keys = _keys(PrintedEmbeddedJob)
    return cluster, [PrintedEmbeddedJob(**transfer_message.decode_key_value_lines(block, keys)) for block in blocks[1:]]


def parse_embedded_job_end(answer: bytes) -> PrintedEmbeddedJobEnd | None:
    """Parse the answer of verb `ended`; return None if the job's end is unknown."""
    return next(iter(parse_embedded_task_ends(answer)), None)


def parse_embedded_task_ends(answer: bytes) -> list[PrintedEmbeddedJobEnd]:
    """Parse the answer of verb `ended` for an array: the ends of the ended tasks."""
    keys = _keys(PrintedEmbeddedJobEnd)
    return [PrintedEmbeddedJobEnd(**transfer_message.decode_key_value_lines(block, keys)) for block in _blocks(answer)]


def _blocks(answer: bytes) -> list[bytes]:
    if not (BETWEEN + answer).endswith(BETWEEN + WHOLE):
        raise ParseError("embedded: the answer is incomplete")
    body = answer.removesuffix(WHOLE)
    return [block.removesuffix(b"\n") + b"\n" for block in body.split(b"\n\n")] if body else []


def _keys(kind: type[Line]) -> tuple[str, ...]:
    return tuple(kind.__annotations__)


def _fill(block: Line, values: dict[str, str]) -> None:
    for key in _keys(type(block)):
        setattr(block, key, values.get(key, ""))
