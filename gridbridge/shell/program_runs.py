"""Runs local programs with a time limit; no other module starts processes.

posix_spawn is called directly, because importing subprocess doubles a short program's time (bench/transfer).
Each program gets its own session, so that the time limit also kills its descendants.
"""

import os
import select
import time

from gridbridge.errors import CommandFailed, ProgramNotStarted, ProgramOutputTooLong

TYPE_CHECKING = False  # importing typing would take as long as importing json
if TYPE_CHECKING:
    from collections.abc import Callable

    ProgramAnswerer = Callable[[tuple[str, ...], dict[str, str], Callable[[], "CompletedProgram"]], "CompletedProgram"]

CHUNK_BYTES = 65536
ANSWER_BYTES = 64 << 20
BACKGROUND_ANSWER_BYTES = 16 << 20
# largest list of jobs or hosts: 100,000 jobs with their requests take 120 MB
LIST_BYTES = 256 << 20
REAP_S = 10.0  # longest wait for the end of a killed program
SIGKILL = 9  # number of the signal in Linux; importing module signal takes 5 ms
SIGPIPE = 13  # Python ignores this signal; programs that Python starts must not ignore it


class CompletedProgram:
    """The exit status (negative: a signal) and the output of a program that has ended."""

    __slots__ = ("argv", "status", "stderr", "stdout")

    def __init__(self, argv: tuple[str, ...], status: int, stdout: bytes, stderr: bytes) -> None:
        self.argv = argv
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def require_success(self) -> "CompletedProgram":
        """Return this object itself; raise CommandFailed if the exit status is not 0."""
        if self.status:
            raise CommandFailed(self.argv, self.status, self.stdout, self.stderr)
        return self


def _do_nothing() -> None:
    """Do nothing, as the default callback."""


_after_each_program: "Callable[[], None]" = _do_nothing


def call_after_each_program_end(act: "Callable[[], None]") -> None:
    global _after_each_program
    _after_each_program = act


_program_answerer: "ProgramAnswerer | None" = None


def replace_program_runs_by(answerer: "ProgramAnswerer | None") -> None:
    """Let `answerer` give the results of programs without input, which are then not run; None ends this."""
    global _program_answerer
    _program_answerer = answerer


def run_program_end_callback() -> None:
    """Call the function registered for a program's end; for modules that run programs themselves."""
    _after_each_program()


def run_program(
    argv: tuple[str, ...], env: dict[str, str], timeout_s: float, stdin: bytes = b"", most_bytes: int = ANSWER_BYTES
) -> CompletedProgram:
    """Run a program to its end with `stdin` as its input, and return its output.

    Raises CommandFailed with status None after `timeout_s`, or with 127 if the program can't be started. Raises
    ProgramOutputTooLong above `most_bytes`. Both limits kill the program's session.
    """

    def run_with_stdin() -> CompletedProgram:
        source = open_memory_file(stdin)
        try:
            return run_with_file_as_input(argv, env, timeout_s, source, most_bytes)
        finally:
            os.close(source)

    return run_with_stdin() if stdin else answer_program_run(argv, env, run_with_stdin)


def answer_program_run(
    argv: tuple[str, ...], env: dict[str, str], run: "Callable[[], CompletedProgram]"
) -> CompletedProgram:
    """Return a program's result from the registered answerer; without an answerer call `run`."""
    return run() if _program_answerer is None else _program_answerer(argv, env, run)


def open_memory_file(data: bytes) -> int:
    """Return an open memory file; from a pipe, a program could read half a job script and still exit with 0."""
    whole = os.memfd_create("stdin")
    with open(whole, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(whole, 0, os.SEEK_SET)
    return whole


def run_with_file_as_input(
    argv: tuple[str, ...], env: dict[str, str], timeout_s: float, source: int, most_bytes: int = ANSWER_BYTES
) -> CompletedProgram:
    """Work like `run_program`, with an open file as input; the program moves the file's position."""
    deadline = time.monotonic() + timeout_s
    ours, theirs = open_output_pipes()
    try:
        pid = spawn_program(argv, env, [source, *theirs])
    except OSError as error:
        close_file_descriptors(ours)
        raise ProgramNotStarted(argv, error) from error
    finally:
        close_file_descriptors(theirs)
    try:
        stdout, stderr = _read_program_outputs(ours, deadline, most_bytes)
        status = reap_program(pid, deadline)
    except TimeoutError as error:
        kill_program_session(pid)
        raise CommandFailed(argv, None, transient=True) from error
    except OverflowError as error:
        kill_program_session(pid)
        raise ProgramOutputTooLong(argv, most_bytes) from error
    finally:
        close_file_descriptors(ours)
        _after_each_program()
    return CompletedProgram(argv, status, stdout, stderr)


def run_discarding_output(
    argv: tuple[str, ...], env: dict[str, str], timeout_s: float, stdin: bytes = b""
) -> CompletedProgram:
    theirs = [open_memory_file(stdin), os.open(os.devnull, os.O_WRONLY)]
    try:
        pid = spawn_program(argv, env, [*theirs, theirs[-1]])
    except OSError as error:
        raise ProgramNotStarted(argv, error) from error
    finally:
        close_file_descriptors(theirs)
    poll = select.poll()
    poll.register(end := os.pidfd_open(pid), select.POLLIN)
    has_ended = bool(poll.poll(timeout_s * 1000))
    os.close(end)
    if not has_ended:
        kill_program_session(pid)
        raise CommandFailed(argv, None, transient=True)
    return CompletedProgram(argv, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), b"", b"")


def _open_output_file() -> int:
    """Return a memory file that can't grow, because a program of another account may write for ever."""
    import fcntl  # imported here, because hot programs load this module

    whole = os.memfd_create("output", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(whole, BACKGROUND_ANSWER_BYTES)
    fcntl.fcntl(whole, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return whole


class BackgroundProgram:
    """A program that runs in its own session while its caller does other work."""

    def __init__(self, argv: tuple[str, ...], env: dict[str, str]) -> None:
        """Start the program without input; raise ProgramNotStarted."""
        self._argv = argv
        self._result: CompletedProgram | None = None
        self._outputs: list[int] = []
        source = None
        try:
            self._outputs += [_open_output_file() for _ in range(2)]
            source = os.open(os.devnull, os.O_RDONLY)
            self._pid = spawn_program(argv, env, [source, *self._outputs])
        except OSError as error:
            close_file_descriptors(self._outputs)
            raise ProgramNotStarted(argv, error) from error
        finally:
            close_file_descriptors([] if source is None else [source])

    def result_if_ended(self) -> "CompletedProgram | None":
        """Return the program's result, or None while it runs."""
        pid, status = (0, 0) if self._result else os.waitpid(self._pid, os.WNOHANG)
        if pid:
            stdout, stderr = (os.pread(end, BACKGROUND_ANSWER_BYTES, 0).rstrip(b"\0") for end in self._outputs)
            close_file_descriptors(self._outputs)
            self._result = CompletedProgram(self._argv, os.waitstatus_to_exitcode(status), stdout, stderr)
        return self._result


def quote_for_sh(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def open_output_pipes() -> tuple[list[int], list[int]]:
    """Open pipes for standard output and standard error; return the read ends and the write ends."""
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    return [out_read, err_read], [out_write, err_write]


def spawn_program(argv: tuple[str, ...], env: dict[str, str], child_streams: list[int]) -> int:
    """Start a program in its own session, with `child_streams` as its standard streams; return its pid."""
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(child_streams)]
    return os.posix_spawn(argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=(SIGPIPE,))


def _read_program_outputs(ends: list[int], deadline: float, most_bytes: int) -> tuple[bytes, bytes]:
    read: dict[int, list[bytes]] = {end: [] for end in ends}
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLIN)
    unread = set(ends)
    while unread:
        for end, _ in poll.poll(remaining_ms_until_deadline(deadline)):
            if chunk := os.read(end, CHUNK_BYTES):
                read[end].append(chunk)
                most_bytes -= len(chunk)
            else:
                poll.unregister(end)
                unread.discard(end)
        if most_bytes < 0:
            raise OverflowError
    stdout, stderr = (b"".join(chunks) for chunks in read.values())
    return stdout, stderr


def remaining_ms_until_deadline(deadline: float) -> float:
    """Return the time until a deadline in milliseconds, plus 1; raise TimeoutError after the deadline."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s * 1000 + 1


def reap_program(pid: int, deadline: float) -> int:
    """Wait for a program's end; return the exit status, negative for a signal."""
    while not (result := os.waitpid(pid, os.WNOHANG))[0]:
        remaining_ms_until_deadline(deadline)
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(result[1])


def kill_program_session(pid: int) -> None:
    """Kill a program's session, except programs that changed their user (sudo) or hang in the kernel."""
    try:
        os.killpg(pid, SIGKILL)
        reap_program(pid, time.monotonic() + REAP_S)
    except (PermissionError, TimeoutError):
        return


def close_file_descriptors(ends: list[int]) -> None:
    for end in ends:
        os.close(end)
