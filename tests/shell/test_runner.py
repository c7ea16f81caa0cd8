"""A program runs to its end or its time limit and never blocks its caller; an action is retried."""

import os
import signal
import sys
import time
import tracemalloc
from pathlib import Path
from threading import Event

import pytest

from gridbridge.errors import CommandFailed, ProgramNotStarted, ProgramOutputTooLong
from gridbridge.shell import program_runs
from gridbridge.shell.program_runs import BackgroundProgram, CompletedProgram, run_discarding_output, run_program
from gridbridge.shell.retry import poll_until, repeat_until_stopped, retry_once_after_failure

ENV = {"PATH": "/usr/bin:/bin"}
MOST_BYTES = 1_000_000
MEGABYTES = b"0123456789abcdef" * 200_000


def sh(script: str, stdin: bytes = b"", timeout_s: float = 30) -> tuple[int, bytes, bytes]:
    done = run_program(("/bin/sh", "-c", script), ENV, timeout_s, stdin)
    return done.status, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("script", "stdin", "expected"),
    [
        ("echo a; echo b >&2; exit 3", b"", (3, b"a\n", b"b\n")),
        ("kill -9 $$", b"", (-9, b"", b"")),
        ("cat", MEGABYTES, (0, MEGABYTES, b"")),
        ("cat >&2", MEGABYTES, (0, b"", MEGABYTES)),
        ("cat", b"", (0, b"", b"")),
        ("exec <&-; echo done", MEGABYTES, (0, b"done\n", b"")),
        ("exec >&- 2>&-; exit 4", b"", (4, b"", b"")),
        ("env", b"", (0, b"PATH=/usr/bin:/bin\nPWD=" + os.getcwdb() + b"\n", b"")),
    ],
    ids=["both outputs", "signal", "much", "much trouble", "no input", "deaf", "mute", "environment"],
)
def test_a_program_runs_to_its_end(script: str, stdin: bytes, expected: tuple[int, bytes, bytes]) -> None:
    assert sh(script, stdin) == expected


def test_a_missing_program_fails_with_status_127() -> None:
    with pytest.raises(CommandFailed) as raised:
        run_program(("/no/such/program",), ENV, 5)

    assert (raised.value.status, raised.value.transient) == (127, False)


def test_the_time_limit_kills_a_program_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    began = time.monotonic()
    with pytest.raises(CommandFailed) as raised:
        sh(f"sleep 60 & echo $! $$ >{pids}; wait", timeout_s=0.5)

    assert (raised.value.status, raised.value.transient) == (None, True)
    assert time.monotonic() - began < 20
    for pid in pids.read_text().split():
        assert ends_soon(int(pid))


def test_a_program_with_too_much_output_is_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    with pytest.raises(CommandFailed, match="sh: its output is larger than 976 KiB") as raised:
        run_program(("/bin/sh", "-c", f"echo $$ >{pid}; exec yes"), ENV, 30, most_bytes=MOST_BYTES)

    assert (raised.value.status, raised.value.transient) == (None, False)
    assert ends_soon(int(pid.read_text()))


@pytest.mark.parametrize("script", ["exec yes", "exec yes >&2", "yes & exec yes >&2"])
def test_endless_output_is_stopped_by_the_default_limit(script: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ProgramOutputTooLong, match="larger than 64 MiB, the most that is read"):
            sh(script)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < program_runs.ANSWER_BYTES + (8 << 20)


def test_a_daemon_that_keeps_the_pipes_open_ends_at_the_time_limit() -> None:
    with pytest.raises(CommandFailed):
        sh("sleep 60 & exit 0", timeout_s=0.5)


def test_an_unkillable_program_is_abandoned_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may wait for a disk that hangs."""
    pids: list[int] = []
    monkeypatch.setattr(program_runs, "REAP_S", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda pid, _: pids.append(pid))
        with pytest.raises(CommandFailed) as raised:
            sh("exec sleep 60", timeout_s=0.2)

    assert raised.value.status is None
    program_runs.kill_program_session(pids[0])
    assert ends_soon(pids[0])


def ends_soon(pid: int) -> bool:
    """Wait for the end of a killed process, which may be a grandchild."""
    return poll_until(lambda: not is_running(pid), 5, 0.01)


def is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_program_of_another_user_is_left_running_at_the_time_limit(tmp_path: Path) -> None:
    """The program sudo runs as root, and the service may not kill it."""
    code = (
        "import os, sys; from gridbridge.shell.program_runs import run_program;"
        "from gridbridge.errors import CommandFailed\n"
        "os.setresuid(1000, 1000, 0)\n"
        "become = 'import os, time; os.setresuid(0, 0, 0); time.sleep(3)'\n"
        "try: run_program((sys.executable, '-c', 'import time; time.sleep(3)'), {}, 0.3)\n"
        "except CommandFailed as error: print(error.status)\n"
    )
    done = run_program((sys.executable, "-c", code), ENV, 30)

    assert done.stdout == b"None\n", done.stderr


def test_a_program_gets_the_default_signal_handlers() -> None:
    status, out, _ = sh("grep SigIgn /proc/self/status")

    assert status == 0
    assert not int(out.split()[1], 16) & 1 << (signal.SIGPIPE - 1)


def test_a_program_inherits_no_file_descriptor() -> None:
    with open(__file__, "rb") as ours:
        _, out, _ = sh("ls -l /proc/$$/fd")

    assert os.path.basename(ours.name).encode() not in out


def test_discarded_output_uses_no_memory() -> None:
    tracemalloc.start()
    program = ("/bin/sh", "-c", "cat >/dev/null; head -c 9000000 /dev/zero; exit 3")
    done = run_discarding_output(program, ENV, 30, MEGABYTES[:9])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (done.status, done.stdout, done.stderr) == (3, b"", b"")
    assert peak_bytes < 1 << 20
    with pytest.raises(CommandFailed, match="no answer in time"):
        run_discarding_output(("/bin/sleep", "60"), ENV, 0.1)
    with pytest.raises(CommandFailed):
        run_discarding_output(("/none",), ENV, 30)


def ended(*argv: str) -> CompletedProgram:
    program = BackgroundProgram(argv, dict(os.environ))
    while not (result := program.result_if_ended()):
        time.sleep(0.01)
    return result


def test_a_background_program_has_its_status_and_both_outputs() -> None:
    result = ended("/bin/sh", "-c", "echo out; echo err >&2; exit 3")

    assert (3, b"out\n", b"err\n") == (result.status, result.stdout, result.stderr)


def test_a_background_program_can_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_runs, "BACKGROUND_ANSWER_BYTES", 100)

    result = ended("/bin/sh", "-c", "while echo 123456789; do :; done 2>&1; exit 4")

    assert (4, 100) == (result.status, len(result.stdout))


def test_a_background_program_that_can_not_start_is_an_error_and_leaves_no_open_file() -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ProgramNotStarted):
        BackgroundProgram(("/missing",), {})

    assert before == len(os.listdir("/proc/self/fd"))


class Faltering:
    """Fails a given number of times, then answers."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.left:
            raise ConnectionError(f"try {self.tries}")
        return "answer"


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (1, 2)])
def test_a_failed_action_is_retried_once(failures: int, tries: int) -> None:
    act = Faltering(failures)

    assert (retry_once_after_failure(act, ConnectionError), act.tries) == ("answer", tries)


@pytest.mark.parametrize(("retried", "last"), [(ConnectionError, "try 2"), (TimeoutError, "try 1")])
def test_a_second_failure_and_an_unlisted_exception_are_raised(retried: type[Exception], last: str) -> None:
    with pytest.raises(ConnectionError, match=last):
        retry_once_after_failure(Faltering(5), retried)


def test_an_action_is_repeated_until_stopped() -> None:
    stopped, seen = Event(), []

    def act() -> None:
        seen.append(len(seen))
        if len(seen) == 3:
            stopped.set()

    repeat_until_stopped(act, 0.001, stopped)

    assert seen == [0, 1, 2]


def test_an_exception_ends_the_repetition() -> None:
    with pytest.raises(ZeroDivisionError):
        repeat_until_stopped(lambda: [][1 // 0], 0.001, Event())
