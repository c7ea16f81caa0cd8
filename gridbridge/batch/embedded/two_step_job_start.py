"""Starts a job's first process in two steps: it prepares and waits, then executes the job's shell.

The job is recorded as running between both steps. If its keeper is killed at any moment, the job
either still waits or is recorded as running; it never runs without a record. A waiting process ends
when the keeper's end of its pipe closes.
"""

import os
import pwd
import select
import signal
import socket
from contextlib import suppress
from typing import NoReturn

from gridbridge.batch.embedded import process_identity
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob
from gridbridge.errors import GridbridgeError

UMASK = 0o022
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
READY, GO = b"+", b"g"
UNABLE = 127
READY_LIMIT_S = 5  # shorter than the database's lock timeout of other processes
SCRIPT, TMPDIR, PID = "script", "tmpdir", "job_pid"  # files in a job's private folder
PATH = "/usr/local/bin:/usr/bin:/bin"
Program = tuple[tuple[str, ...], dict[str, str]]
ALWAYS = (signal.SIGKILL, signal.SIGSTOP)  # signals whose action can't be changed


class EmbeddedJobStartFailure(GridbridgeError):
    """Raised when a job's first process can't start, for a reason its owner can correct."""


class EmbeddedJobFirstProcess:
    """A job's first process, as its keeper controls it."""

    def __init__(self, job: EmbeddedJob, private: str, argv: tuple[str, ...], environment: dict[str, str]) -> None:
        """Fork the process and wait until it is ready; EmbeddedJobStartFailure if it fails."""
        line_read, self._line = os.pipe()
        self._news, news_write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(self._line)
            _become(job, private, (argv, environment), line_read, news_write)
        os.close(line_read)
        os.close(news_write)
        message = self._hear()
        if message != READY:
            self.abandon()
            raise EmbeddedJobStartFailure(message.decode("utf-8", "replace") or "its first process was killed")
        self.birth = process_identity.unique_process_id(self.pid)

    def _hear(self) -> bytes:
        """Wait until the process reports that it is ready or has failed, up to a time limit."""
        poll = select.poll()
        poll.register(self._news, select.POLLIN)
        if poll.poll(READY_LIMIT_S * 1000):
            return os.read(self._news, 4096)
        os.kill(self.pid, signal.SIGKILL)
        return f"not ready within {READY_LIMIT_S} s: a filesystem does not answer?".encode()

    def abandon(self) -> None:
        """Let the waiting process end without running the job."""
        os.close(self._line)
        os.close(self._news)
        os.waitpid(self.pid, os.WNOHANG)

    def let_go(self) -> str:
        """Let the process execute the job; return the reason of a failure, empty on success."""
        with suppress(BrokenPipeError):  # the job was deleted before its start
            os.write(self._line, GO)
        message = os.read(self._news, 4096)  # empty on success: execve(2) closes the pipe
        os.close(self._line)
        os.close(self._news)
        return message.decode("utf-8", "replace")


def _become(job: EmbeddedJob, private: str, program: Program, line: int, news: int) -> NoReturn:
    """Run in the forked child as the job's first process; never return."""
    try:
        os.setsid()
        _prepare(job)
        os.write(news, READY)
        if os.read(line, 1) == GO:
            _execute(private, *program)
    except OSError as error:
        os.write(news, f"{error.strerror}: {error.filename or program[0][0]}".encode()[:4096])
    finally:
        os._exit(UNABLE)


def _execute(private: str, argv: tuple[str, ...], environment: dict[str, str]) -> None:
    with open(f"{private}/{PID}", "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.execve(argv[0], argv, environment)  # noqa: S606 - the job's own shell


def _prepare(job: EmbeddedJob) -> None:
    os.umask(UMASK)
    os.chdir(job.cwd)
    null = os.open("/dev/null", os.O_RDONLY)
    output = os.open(job.output, APPEND | os.O_NONBLOCK, 0o644)  # does not wait for a FIFO's reader
    os.set_blocking(output, True)
    for number, end in enumerate((null, output, output)):
        os.dup2(end, number)
    for number in signal.valid_signals() - set(ALWAYS):
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
