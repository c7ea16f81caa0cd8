"""Starts embedded jobs' first processes; runs methods and load sensors of transfer queues.

A first process waits until its job is recorded as running, and ends if the keeper dies before that.
"""

import os
import pwd
import select
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from gridbridge.batch.embedded import embedded_job_processes
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob, EmbeddedTransferQueue
from gridbridge.batch.embedded.embedded_job_store import EmbeddedJobStore
from gridbridge.decisions.transfer.transfer_queue_closing import load_value_closing_queue
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.transfer_route import BARE
from gridbridge.shell.program_runs import run_program

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
READY, GO = b"+", b"g"
UNABLE = 127
READY_LIMIT_S = 5  # shorter than the time for which other processes wait for the SQLite file
SCRIPT, TMPDIR, PID = "script", "tmpdir", "job_pid"
PATH = "/usr/local/bin:/usr/bin:/bin"
Program = tuple[tuple[str, ...], dict[str, str]]


class EmbeddedJobStartFailure(GridbridgeError):
    """Raised when a job's first process can't start; the job's owner can correct the reason."""


class EmbeddedJobFirstProcess:
    def __init__(self, job: EmbeddedJob, private: str, argv: tuple[str, ...], environment: dict[str, str]) -> None:
        """Fork the first process and wait until it is ready; raise EmbeddedJobStartFailure on failure."""
        line_read, self._line = os.pipe()
        self._news, news_write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._line)
            _run_first_process(job, private, (argv, environment), line_read, news_write)
        os.close(line_read)
        os.close(news_write)
        message = self._await_first_process_readiness()
        if message != READY:
            self.end_process_without_job()
            raise EmbeddedJobStartFailure(message.decode("utf-8", "replace") or "the job's first process was killed")
        self.birth = embedded_job_processes.unique_process_id(self.pid)

    def _await_first_process_readiness(self) -> bytes:
        poll = select.poll()
        poll.register(self._news, select.POLLIN)
        if poll.poll(READY_LIMIT_S * 1000):
            return os.read(self._news, 4096)
        os.kill(self.pid, signal.SIGKILL)
        return f"the job's first process is not ready after {READY_LIMIT_S} s: does a filesystem hang?".encode()

    def end_process_without_job(self) -> None:
        os.close(self._line)
        os.close(self._news)
        os.waitpid(self.pid, os.WNOHANG)

    def run_job(self) -> str:
        """Let the first process run the job; return the reason of a failure, empty on success."""
        with suppress(BrokenPipeError):  # the job was deleted before its start
            os.write(self._line, GO)
        message = os.read(self._news, 4096)  # on success execve(2) closes the pipe
        os.close(self._line)
        os.close(self._news)
        return message.decode("utf-8", "replace")


def _run_first_process(job: EmbeddedJob, private: str, program: Program, line: int, news: int) -> NoReturn:
    argv, environment = program
    try:
        os.setsid()
        _prepare_job_session_and_streams(job)
        os.write(news, READY)
        if os.read(line, 1) == GO:
            with open(f"{private}/{PID}", "w", encoding="ascii") as file:
                file.write(str(os.getpid()))
            os.execve(argv[0], argv, environment)  # noqa: S606 - the job's own shell
    except OSError as error:
        os.write(news, f"{error.strerror}: {error.filename or argv[0]}".encode()[:4096])
    finally:
        os._exit(UNABLE)


def _prepare_job_session_and_streams(job: EmbeddedJob) -> None:
    os.umask(0o022)
    os.chdir(job.cwd)
    null = os.open("/dev/null", os.O_RDONLY)
    output = os.open(job.output, APPEND | os.O_NONBLOCK, 0o644)  # opening a FIFO without a reader must fail at once
    os.set_blocking(output, True)
    for number, end in enumerate((null, output, output)):
        os.dup2(end, number)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def embedded_job_environment(job: EmbeddedJob, private: str) -> dict[str, str]:
    """Return a job's environment variables under Grid Engine's names (qsub(1))."""
    person = pwd.getpwuid(os.getuid())
    return {
        "HOME": person.pw_dir,
        "USER": person.pw_name,
        "LOGNAME": person.pw_name,
        "SHELL": person.pw_shell,
        "PATH": PATH,
        "TMPDIR": f"{private}/{TMPDIR}",
        "HOSTNAME": socket.gethostname(),
        "ENVIRONMENT": "BATCH",
        "JOB_ID": str(job.id),
        "JOB_NAME": job.name,
        "NSLOTS": str(job.slots),
        **({"SGE_TASK_ID": str(job.place)} if job.array else {}),
    }


METHOD_S = 60.0  # time limit of a queue method; the method's own limits are shorter
SENSOR_S = 10.0
PARALLEL = "slots"  # parallel environment of jobs with several slots
AS_IT_IS = ("utf-8", "surrogateescape")
NO_REASON = "the job's starter process gave no reason"


def embedded_job_private_folder(folder: str, job: int) -> str:
    return f"{folder}/active/{job}"


def embedded_job_command_line(database: EmbeddedJobStore, job: EmbeddedJob) -> Program:
    private = embedded_job_private_folder(database.folder, job.id)
    script = f"{private}/{SCRIPT}"
    queue = _transfer_queue_of_job(database, job)
    if queue is None:
        return (job.shell, script), embedded_job_environment(job, private)
    return (f"{queue.methods}/starter", script), embedded_starter_environment(job, private)


def run_embedded_queue_method(database: EmbeddedJobStore, job: EmbeddedJob, method: str) -> None:
    """Run a method, such as suspend, of a job's transfer queue, if any; ignore its exit status."""
    queue = _transfer_queue_of_job(database, job)
    if queue is None:
        return
    private = embedded_job_private_folder(database.folder, job.id)
    try:
        run_program((f"{queue.methods}/{method}",), embedded_starter_environment(job, private), METHOD_S)
    except CommandFailed:
        return


def write_embedded_execd_files(job: EmbeddedJob, private: str) -> None:
    """Write the files `config` and `environment`, which Grid Engine's execd writes for each job."""
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
    """Return the environment variables of a starter and of queue methods (sge_conf(5))."""
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
    try:
        with open(f"{private}/error", encoding="utf-8", errors="replace") as file:
            return " ".join(file.read().split()) or NO_REASON
    except OSError:
        return NO_REASON


def find_open_embedded_transfer_queues(database: EmbeddedJobStore) -> frozenset[str]:
    """Return the open transfer queues that have a job to start; without load values all are closed."""
    queues = [queue for queue in database.transfer_queues() if database.next_job_of_queue(queue)]
    values = _call_transfer_queue_load_sensor(queues[0].methods) if queues else {}
    return frozenset(
        queue.name for queue in queues if not load_value_closing_queue(values, queue.remote, queue.pending_limit)
    )


def call_embedded_load_sensor(database: EmbeddedJobStore, job: EmbeddedJob) -> None:
    if queue := _transfer_queue_of_job(database, job):
        _call_transfer_queue_load_sensor(queue.methods)


def _call_transfer_queue_load_sensor(methods: str) -> dict[str, str]:
    try:
        report = run_program((f"{methods}/sensor",), dict(BARE), SENSOR_S, b"\n").stdout
    except CommandFailed:
        return {}
    lines = (line.split(":") for line in report.decode("ascii", "replace").splitlines())
    return {parts[-2]: parts[-1] for parts in lines if len(parts) > 2}


def _transfer_queue_of_job(database: EmbeddedJobStore, job: EmbeddedJob) -> EmbeddedTransferQueue | None:
    return next((queue for queue in database.transfer_queues() if queue.name == job.at), None)
