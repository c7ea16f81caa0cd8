"""Runs the methods of an embedded transfer queue as Grid Engine's execd would (queue_conf(5)).

A starter replaces the job, methods replace signals, and an epilog runs after the end. The load
sensor is called if a job waits for the queue; without fresh load values the queue is closed.
"""

from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob, EmbeddedTransferQueue
from gridbridge.batch.embedded.job_store import EmbeddedJobStore
from gridbridge.batch.embedded.two_step_job_start import SCRIPT, Program, embedded_job_environment
from gridbridge.errors import CommandFailed
from gridbridge.model.transfer_route import BARE
from gridbridge.shell.runner import run_program

METHOD_S = 60.0  # queue methods limit themselves to much less
SENSOR_S = 10.0
PARALLEL = "slots"  # the only parallel environment, of jobs with several slots
AS_IT_IS = ("utf-8", "surrogateescape")
NO_REASON = "the starter gave no reason"


def embedded_job_private_folder(folder: str, job: int) -> str:
    """Return the path of a job's private folder."""
    return f"{folder}/active/{job}"


def embedded_job_command_line(database: EmbeddedJobStore, job: EmbeddedJob) -> Program:
    """Return the arguments and the environment of a job's first process."""
    private = embedded_job_private_folder(database.folder, job.id)
    script = f"{private}/{SCRIPT}"
    queue = _queue(database, job)
    if queue is None:
        return (job.shell, script), embedded_job_environment(job, private)
    return (f"{queue.methods}/starter", script), embedded_starter_environment(job, private)


def run_embedded_queue_method(database: EmbeddedJobStore, job: EmbeddedJob, method: str) -> None:
    """Run a method of the queue that a job runs in, if it is a transfer queue.

    The exit status is ignored, as shepherd does: a method records a request, which is handled
    later.
    """
    queue = _queue(database, job)
    if queue is None:
        return
    private = embedded_job_private_folder(database.folder, job.id)
    try:
        run_program((f"{queue.methods}/{method}",), embedded_starter_environment(job, private), METHOD_S)
    except CommandFailed:
        return


def write_embedded_execd_files(job: EmbeddedJob, private: str) -> None:
    """Write the job configuration and environment files that execd writes for a starter."""
    config = {
        "cwd": job.cwd,
        "handle_as_binary": "0",
        "no_shell": "0",
        "pe": PARALLEL if job.slots > 1 else "none",
        "pe_slots": str(job.slots),
        "h_rt": "INFINITY",
    }
    for name, values in (("config", config), ("environment", embedded_job_environment(job, private))):
        with open(f"{private}/{name}", "wb") as file:
            file.write(b"".join(f"{k}={v}\n".encode(*AS_IT_IS) for k, v in values.items()))


def embedded_starter_environment(job: EmbeddedJob, private: str) -> dict[str, str]:
    """Return the environment variables of a starter and its methods (sge_conf(5))."""
    return embedded_job_environment(job, private) | {
        "QUEUE": job.at,
        "RESTARTED": str(job.restarted),
        "JOB_SCRIPT": f"{private}/{SCRIPT}",
        "SGE_ACCOUNT": job.account,
        "SGE_JOB_SPOOL_DIR": private,
        "SGE_TASK_ID": "undefined",
        "SGE_STARTER_SHELL_PATH": job.shell,
        "SGE_STARTER_SHELL_START_MODE": "posix_compliant",
        "SGE_STDIN_PATH": "/dev/null",
        "SGE_STDOUT_PATH": job.output,
        "SGE_STDERR_PATH": job.output,
    }


def read_embedded_starter_error(private: str) -> str:
    """Return the reason that a starter gave for its job's error state."""
    try:
        with open(f"{private}/error", encoding="utf-8", errors="replace") as file:
            return " ".join(file.read().split()) or NO_REASON
    except OSError:
        return NO_REASON


def open_embedded_transfer_queues(database: EmbeddedJobStore) -> frozenset[str]:
    """Return the transfer queues in which a waiting job could start now.

    The load sensor is called only if such a job waits.
    """
    queues = [queue for queue in database.queues() if database.first_for(queue)]
    values = _load_values(queues[0].methods) if queues else {}
    return frozenset(queue.name for queue in queues if _is_open(queue, values))


def call_embedded_load_sensor(database: EmbeddedJobStore, job: EmbeddedJob) -> None:
    """Call the load sensor of the queue that a job runs in, and ignore its values."""
    if queue := _queue(database, job):
        _load_values(queue.methods)


def _is_open(queue: EmbeddedTransferQueue, values: dict[str, str]) -> bool:
    """Say whether the load values are within the thresholds that setup gives such a queue."""
    prefix = f"gb_{queue.remote.replace('-', '_')}"
    if values.get(f"{prefix}_up") != "1":
        return False
    return not queue.pending_limit or int(values[f"{prefix}_pending"]) < queue.pending_limit


def _load_values(methods: str) -> dict[str, str]:
    """Call the load sensor once (sge_execd(8)), and parse its lines `HOST:NAME:VALUE`."""
    try:
        report = run_program((f"{methods}/sensor",), dict(BARE), SENSOR_S, b"\n").stdout
    except CommandFailed:
        return {}
    lines = (line.split(":") for line in report.decode("ascii", "replace").splitlines())
    return {parts[-2]: parts[-1] for parts in lines if len(parts) > 2}


def _queue(database: EmbeddedJobStore, job: EmbeddedJob) -> EmbeddedTransferQueue | None:
    return next((queue for queue in database.queues() if queue.name == job.at), None)
