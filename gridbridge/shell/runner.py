"""Run a program with a time limit: the one place that starts processes.

It uses posix_spawn itself, because importing subprocess costs a short program as much as the
rest of its work (bench/transfer). The program gets a session of its own, so that the limit
ends it with everything that it started.
"""

import os
import select
import time

from gridbridge.errors import CommandFailed, OutputTooLong, ProgramNotStarted

TYPE_CHECKING = False  # typing's own costs as much as json
if TYPE_CHECKING:
    from collections.abc import Callable

    Asked = Callable[
        [tuple[str, ...], dict[str, str], Callable[[], "CompletedProgram"]], "CompletedProgram"
    ]

CHUNK_BYTES = 65536
ANSWER_BYTES = 64 << 20  # of a program's output that answers one question
LIST_BYTES = (
    256 << 20
)  # of a list of all jobs or hosts: 100,000 jobs with what they ask for are 120 MB
REAP_S = 10.0  # what was killed ends within that, or nobody knows when
SIGKILL = 9  # of Linux; importing signal, and with it enum, costs 5 ms
SIGPIPE = 13  # ignored by Python; a program starts with its default


class CompletedProgram:
    """How a program ended: exit status (negative: the signal) and what it printed."""

    __slots__ = ("argv", "status", "stderr", "stdout")

    def __init__(self, argv: tuple[str, ...], status: int, stdout: bytes, stderr: bytes) -> None:
        self.argv = argv
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def checked(self) -> "CompletedProgram":
        """Return self; CommandFailed unless the exit status is 0."""
        if self.status:
            raise CommandFailed(self.argv, self.status, self.stdout, self.stderr)
        return self


def _nothing() -> None:
    """Do nothing."""


_after_each: "Callable[[], None]" = _nothing


def after_each(act: "Callable[[], None]") -> None:
    """Have this process do something after each program that is over, here or far away."""
    global _after_each
    _after_each = act


_ask_by: "Asked | None" = None


def ask_by(answerer: "Asked | None") -> None:
    """Make `run` ask a callable for answers of programs without input; None: run programs."""
    global _ask_by
    _ask_by = answerer


def is_over() -> None:
    """Note that something is over that took its time, as a program that another way ran."""
    _after_each()


def run(
    argv: tuple[str, ...],
    env: dict[str, str],
    timeout_s: float,
    stdin: bytes = b"",
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Run a program to its end, with `stdin` to read.

    Raises CommandFailed with status None when it did not end within `timeout_s`, TooLong when it
    printed more than `most_bytes` (both times it is killed with its session), and CommandFailed
    with status 127 when it can't be started.
    """
    if _ask_by is not None and not stdin:
        return _ask_by(argv, env, lambda: _run(argv, env, timeout_s, stdin, most_bytes))
    return _run(argv, env, timeout_s, stdin, most_bytes)


def _run(
    argv: tuple[str, ...], env: dict[str, str], timeout_s: float, stdin: bytes, most_bytes: int
) -> CompletedProgram:
    source = in_memory(stdin)
    try:
        return run_on(argv, env, timeout_s, source, most_bytes)
    finally:
        os.close(source)


def in_memory(data: bytes) -> int:
    """Return a file in memory, at its beginning, to be a program's standard input.

    Whenever we are killed, the program reads all of it or was never started. A job whose script
    was cut short would be submitted, and end well without its work.
    """
    whole = os.memfd_create("stdin")
    with open(whole, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(whole, 0, os.SEEK_SET)
    return whole


def run_on(
    argv: tuple[str, ...],
    env: dict[str, str],
    timeout_s: float,
    source: int,
    most_bytes: int = ANSWER_BYTES,
) -> CompletedProgram:
    """Do as `run` with an open file as the program's standard input; its position is shared."""
    deadline = time.monotonic() + timeout_s
    ours, theirs = ends()
    try:
        pid = spawn(argv, env, [source, *theirs])
    except OSError as error:
        close(ours)
        raise ProgramNotStarted(argv, error) from error
    finally:
        close(theirs)
    try:
        stdout, stderr = _read(ours, deadline, most_bytes)
        status = wait(pid, deadline)
    except TimeoutError as error:
        kill(pid)
        raise CommandFailed(argv, None, transient=True) from error
    except OverflowError as error:
        kill(pid)
        raise OutputTooLong(argv, most_bytes) from error
    finally:
        close(ours)
        _after_each()
    return CompletedProgram(argv, status, stdout, stderr)


def run_unheard(
    argv: tuple[str, ...], env: dict[str, str], timeout_s: float, stdin: bytes = b""
) -> CompletedProgram:
    """Do as `run`, but keep nothing of what the program prints, however much that is."""
    theirs = [in_memory(stdin), os.open(os.devnull, os.O_WRONLY)]
    try:
        pid = spawn(argv, env, [*theirs, theirs[-1]])
    except OSError as error:
        raise ProgramNotStarted(argv, error) from error
    finally:
        close(theirs)
    poll = select.poll()
    poll.register(end := os.pidfd_open(pid), select.POLLIN)
    has_ended = bool(poll.poll(timeout_s * 1000))
    os.close(end)
    if not has_ended:
        kill(pid)
        raise CommandFailed(argv, None, transient=True)
    return CompletedProgram(argv, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), b"", b"")


def quote(text: str) -> str:
    """Quote one word for sh: for text that passes a shell, the wrapper's or one by ssh."""
    return "'" + text.replace("'", "'\\''") + "'"


def ends() -> tuple[list[int], list[int]]:
    """Return our ends of two pipes, for stdout and stderr, and theirs."""
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    return [out_read, err_read], [out_write, err_write]


def spawn(argv: tuple[str, ...], env: dict[str, str], theirs: list[int]) -> int:
    """Start a program in a session of its own with its first three files; return its pid."""
    actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
    return os.posix_spawn(
        argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=(SIGPIPE,)
    )


def _read(ends: list[int], deadline: float, most_bytes: int) -> tuple[bytes, bytes]:
    """Read both outputs until the program has closed them; OverflowError beyond `most_bytes`."""
    read: dict[int, list[bytes]] = {end: [] for end in ends}
    poll = select.poll()
    for end in ends:
        poll.register(end, select.POLLIN)
    unread = set(ends)
    while unread:
        for end, _ in poll.poll(left_ms(deadline)):
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


def left_ms(deadline: float) -> float:
    """Return how many milliseconds are left, one more than none; TimeoutError when none are."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s * 1000 + 1


def wait(pid: int, deadline: float) -> int:
    """Reap the program; it has closed its outputs, so the wait is short or a daemon's trick."""
    while not (result := os.waitpid(pid, os.WNOHANG))[0]:
        left_ms(deadline)
        time.sleep(0.001)
    return os.waitstatus_to_exitcode(result[1])


def kill(pid: int) -> None:
    """Kill a program with its session; one that became another user (sudo) is left alone.

    So is one that the kernel does not let end, as one that waits for a disk that hangs.
    """
    try:
        os.killpg(pid, SIGKILL)
        wait(pid, time.monotonic() + REAP_S)
    except (PermissionError, TimeoutError):
        return


def close(ends: list[int]) -> None:
    """Close files."""
    for end in ends:
        os.close(end)
