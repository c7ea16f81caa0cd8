"""The load sensor as a child of execd, with one newline for each requested report."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridbridge.state import published_file_formats
from gridbridge.transfer.starter.sensor import NOTHING_YET, QUIT, REPORT, ExecdRequestLineBuffer, HostLoadSensor
from tests.contract.waiting import until
from tests.program.test_threads import without_room
from tests.shell.holders import a_holder

EMPTY = b"begin\nend\n"
VALUES = {"gb_beta_up": "1", "gb_beta_pending": "3"}
FULL = b"begin\nn1:gb_beta_up:1\nn1:gb_beta_pending:3\nend\n"
CLOSED = b"begin\nn1:gb_beta_up:0\nn1:gb_beta_pending:999999\nend\n"
SERVICE = 10000 if os.geteuid() == 0 else os.geteuid()
LIMIT_S = 10.0
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


@pytest.fixture
def home() -> Iterator[Path]:
    """Return the service account's folder, with a poller that holds its lock."""
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    folder = base / "home"
    for made in (folder, folder / "published"):
        made.mkdir(mode=0o755)
        os.chown(made, SERVICE, -1)
    with open(folder / "poller.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    shutil.rmtree(base)


def publish(home: Path, age_s: float = 0, values: dict[str, str] = VALUES, limit_s: float = 30) -> Path:
    path = home / "published/load"
    path.write_bytes(published_file_formats.encode_load_values(time.time() - age_s, limit_s, values))
    os.chown(path, SERVICE, -1)
    return path


def report(home: Path) -> bytes:
    return a_sensor(home).load_report(time.time())


def a_sensor(home: Path, *program: str) -> HostLoadSensor:
    return HostLoadSensor("n1", str(home), str(home.parent / "sensor.log"), program or ("/bin/false",))


class Execd:
    """The execd end of a sensor: it writes newlines, and reads each report as a packet."""

    def __init__(self, home: Path, *poller: str) -> None:
        code = (
            "import sys; from gridbridge.transfer.starter.sensor import HostLoadSensor;"
            "HostLoadSensor('n1', sys.argv[1], sys.argv[2], tuple(sys.argv[3:])).answer_execd_requests()"
        )
        log = str(home.parent / "sensor.log")
        argv = (sys.executable, "-c", code, str(home), log, *(poller or ("/bin/false",)))
        self._answers, theirs = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
        os.set_blocking(self._answers, False)
        self.sensor = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=theirs)
        os.close(theirs)

    def ask(self, newlines: bytes = b"\n") -> None:
        os.write(self.sensor.stdin.fileno(), newlines)

    def packets(self, count: int) -> list[bytes]:
        found: list[bytes] = []
        until(lambda: len(self._read_into(found)) >= count, "reports", LIMIT_S, pause_s=0.005)
        return found

    def _read_into(self, found: list[bytes]) -> list[bytes]:
        try:
            while packet := os.read(self._answers, 65536):
                found.append(packet)
        except BlockingIOError:
            return found
        return found

    def answer(self) -> bytes:
        self.ask()
        [packet] = self.packets(1)
        return packet

    def end(self) -> int:
        """Close the pipe, and return the exit status."""
        self.sensor.stdin.close()
        return self.sensor.wait(LIMIT_S)


@pytest.fixture
def execd(home: Path) -> Iterator[Execd]:
    publish(home)
    execd = Execd(home)
    yield execd
    execd.sensor.kill()
    execd.sensor.wait()


def test_the_sensor_writes_a_report_at_once(execd: Execd) -> None:
    assert [execd.answer() for _ in range(3)] == [FULL] * 3


def test_several_pending_newlines_get_one_report(execd: Execd) -> None:
    execd.answer()
    os.kill(execd.sensor.pid, signal.SIGSTOP)
    for _ in range(5):
        execd.ask()
    os.kill(execd.sensor.pid, signal.SIGCONT)
    execd.packets(1)

    execd.ask(b"quit\n")
    assert execd.sensor.wait(LIMIT_S) == 0
    assert execd.packets(0) == []


@pytest.mark.parametrize("pieces", [(b"quit\n",), (b"\n\nquit\n",), (b"qu", b"it\n")], ids=repr)
def test_quit_ends_the_sensor_without_a_report(execd: Execd, pieces: tuple[bytes, ...]) -> None:
    execd.answer()
    for piece in pieces:
        execd.ask(piece)

    assert execd.sensor.wait(LIMIT_S) == 0
    assert execd.packets(0) == []


def cuts(line: bytes) -> Iterator[list[bytes]]:
    """Yield every way to split the bytes into pieces."""
    for mask in range(1 << len(line) - 1):
        ends = [at + 1 for at in range(len(line) - 1) if mask >> at & 1]
        yield [line[a:b] for a, b in zip([0, *ends], [*ends, len(line)], strict=True)]


@pytest.mark.parametrize("words", [b"\n\r\n\nquit\n", b"\nquit\r\n", b"quit\n\n"])
def test_the_lines_of_execd_are_read_correctly_in_any_pieces(words: bytes) -> None:
    for pieces in cuts(words):
        requests = ExecdRequestLineBuffer()
        asked = [requests.next_execd_request(piece) for piece in pieces]
        before = asked[: asked.index(QUIT)]

        ends = [piece.count(b"\n") for piece in pieces[: len(before)]]
        assert before == [REPORT if end else NOTHING_YET for end in ends], pieces
        assert b"quit" in b"".join(pieces[: len(before) + 1])


def test_an_endless_request_line_is_dropped() -> None:
    requests = ExecdRequestLineBuffer()
    asked = {requests.next_execd_request(b"x" * 65536) for _ in range(8)} | {requests.next_execd_request(b"quit\n")}

    assert asked == {NOTHING_YET, REPORT}


@pytest.mark.parametrize("is_open", [False, True], ids=["execd closes the pipe", "execd reads no report"])
def test_the_sensor_ends_with_execd(execd: Execd, is_open: bool) -> None:
    execd.answer()
    if is_open:
        os.close(execd._answers)
        execd.ask()

    assert (execd.sensor.wait(LIMIT_S) if is_open else execd.end()) == 0


def test_a_report_takes_less_than_50_ms(execd: Execd, home: Path) -> None:
    """The folder is full, and no poller answers."""
    execd.answer()
    for number in range(5000):
        (home / f"published/{number}").touch()
    times = []
    for _ in range(40):
        began = time.monotonic()
        execd.answer()
        times.append(time.monotonic() - began)

    assert sorted(times)[len(times) // 2] < 0.05, times


def test_load_values_over_4096_bytes_are_not_reported(home: Path) -> None:
    publish(home, values={f"gb_{number:03}": "1" for number in range(350)})

    assert report(home) == EMPTY
    assert (home.parent / "sensor.log").read_text().endswith("at most 4096 bytes\n")


@pytest.mark.parametrize("age_s", [31, 86400, -2, -86400], ids=lambda age: f"{age} s old")
def test_stale_or_future_load_values_close_the_queues(home: Path, age_s: float) -> None:
    publish(home, age_s)

    assert report(home) == CLOSED


SPOILED = {
    "gone": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "no time": lambda path: path.write_bytes(b"now 30\ngb_beta_up=1\n"),
    "not a time": lambda path: path.write_bytes(b"nan 30\ngb_beta_up=1\n"),
    "other users may write the file": lambda path: path.chmod(0o666),
    "its group may write it": lambda path: path.chmod(0o664),
    "a link": lambda path: path.rename(path.with_name("x")).with_name("load").symlink_to("x"),
    "a second link": lambda path: os.link(path, path.with_name("x")),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a FIFO": lambda path: (path.unlink(), os.mkfifo(path)),
    "large": lambda path: path.write_bytes(path.read_bytes() + b"a=1\n" * 2000),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_a_spoiled_load_file_closes_the_queues_or_reports_nothing(home: Path, spoil: Callable[[Path], object]) -> None:
    sensor = a_sensor(home)
    publish(home)
    known = sensor.load_report(time.time())
    spoil(publish(home))

    assert (report(home), known, sensor.load_report(time.time())) == (EMPTY, FULL, CLOSED)


@needs_root
@pytest.mark.parametrize(("file_uid", "folder_uid"), [(0, SERVICE), (10001, SERVICE), (0, 0)])
def test_load_values_of_root_or_of_another_account_are_not_read(home: Path, file_uid: int, folder_uid: int) -> None:
    os.chown(publish(home), file_uid, -1)
    os.chown(home, folder_uid, -1)

    assert report(home) == EMPTY


def test_each_change_between_closed_and_recovered_is_logged_once(home: Path) -> None:
    sensor = a_sensor(home)
    for age_s in (31, 31, 0, 0, 31, 31):
        publish(home, age_s)
        sensor.load_report(time.time())

    lines = (home.parent / "sensor.log").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["closed", "recovered", "closed"]


def test_an_unusable_log_file_does_not_stop_the_sensor(home: Path) -> None:
    (home.parent / "sensor.log").symlink_to("/etc/passwd")

    assert report(home) == EMPTY


def looks(sensor: HostLoadSensor, *signs: float, step_s: float = 10.0) -> list[bool]:
    """Check a watchdog sign every `step_s` seconds; return each time whether the poller hangs."""
    times = (1000.0 + step_s * number for number in range(len(signs)))
    return [sensor._does_poller_hang(sign, 5000.0, passed) for sign, passed in zip(signs, times, strict=True)]


def test_a_poller_without_watchdog_sign_for_a_minute_of_checks_hangs(home: Path) -> None:
    assert looks(a_sensor(home), *[4000.0] * 8) == [False] * 7 + [True]
    assert looks(a_sensor(home), *[4000.0] * 3, step_s=3600.0) == [False, False, False]


def test_a_poller_with_watchdog_signs_or_an_announced_pause_does_not_hang(home: Path) -> None:
    sensor = a_sensor(home)
    signs = [4000.0 + 30 * (number // 3) for number in range(20)]  # the clock may be anywhere

    assert not any(looks(sensor, *signs))
    assert not any(looks(sensor, *[5300.0] * 20))


def test_a_shorter_limit_of_load_values_shortens_the_watchdog_time(home: Path) -> None:
    publish(home, limit_s=5)
    sensor = a_sensor(home)
    sensor.load_report(time.time())

    assert looks(sensor, *[4000.0] * 4) == [False, False, False, True]


POLLER = """
import fcntl, os, sys, time
home = os.environ["HOME"]
with open(f"{home}/seen.new", "a") as seen:
    fds = "/proc/self/fd"
    ends = [int(end) for end in os.listdir(fds) if os.path.exists(f"{fds}/{end}")]
    open_ends = sorted(set(ends) - {seen.fileno()})
    groups = sorted(os.getgroups())
    print(os.getresuid(), os.getresgid(), groups, open_ends, os.getsid(0) == os.getpid(),
          os.getcwd(), sorted(set(os.environ) - {"LC_CTYPE"}), file=seen)
    print(os.getpid(), file=seen)
os.rename(f"{home}/seen.new", f"{home}/seen")
if sys.argv[1:] == ["stay"]:
    lock = open(f"{home}/poller.lock", "r+")
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(f"{home}/seen", f"{home}/holds")
    time.sleep(60)
"""


@pytest.fixture
def idle_home(home: Path) -> Path:
    (home / "poller.lock").unlink()
    (home / "poller.lock").touch()
    os.chown(home / "poller.lock", SERVICE, -1)
    publish(home)
    return home


def a_program(*arguments: str) -> tuple[str, ...]:
    return ("/usr/bin/python3", "-I", "-c", POLLER, *arguments)


def test_the_sensor_starts_a_missing_poller_as_the_service_account(idle_home: Path) -> None:
    secret = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(secret, True)
    execd = Execd(idle_home, *a_program())
    os.close(secret)
    assert execd.answer() == FULL
    until((idle_home / "seen").exists, "a poller", LIMIT_S)

    group = os.stat(idle_home).st_gid
    line = (idle_home / "seen").read_text().splitlines()[0]
    if os.geteuid() == 0:
        assert line.startswith(f"{(SERVICE,) * 3} {(group,) * 3} [{group}] [0, 1, 2] True / ")
    assert line.endswith("[0, 1, 2] True / ['HOME', 'LC_ALL', 'PATH']")
    status = Path(f"/proc/{execd.sensor.pid}/status").read_text()
    assert f"Uid:\t{os.getuid()}\t{os.geteuid()}\t" in status
    assert execd.end() == 0


def test_the_sensor_continues_if_no_process_can_be_started(home: Path) -> None:
    (home / "poller.lock").unlink()

    without_room(lambda _: a_sensor(home).start_or_replace_poller())


def test_a_poller_that_ends_at_once_is_restarted_only_after_a_pause(idle_home: Path) -> None:
    execd = Execd(idle_home, *a_program())
    for _ in range(20):
        execd.answer()
    until((idle_home / "seen").exists, "a poller", LIMIT_S)
    (idle_home / "seen").unlink()
    for _ in range(20):
        execd.answer()

    assert execd.end() == 0
    assert not (idle_home / "seen").exists()


def test_a_running_poller_outlives_the_sensor_and_is_not_started_twice(idle_home: Path) -> None:
    execd = Execd(idle_home, *a_program("stay"))
    execd.answer()
    until((idle_home / "holds").exists, "a poller with its lock", LIMIT_S)
    poller = int((idle_home / "holds").read_text().splitlines()[1])
    assert execd.end() == 0

    second = Execd(idle_home, "/bin/sh", "-c", 'touch "$HOME/second"')
    assert second.answer() == FULL
    assert second.answer() == FULL
    assert second.end() == 0
    assert not (idle_home / "second").exists()
    os.kill(poller, signal.SIGKILL)


def test_a_hanging_poller_is_killed_and_replaced_while_queues_are_closed(idle_home: Path) -> None:
    poller = a_holder(idle_home / "poller.lock")
    poller.send_signal(signal.SIGSTOP)
    publish(idle_home, age_s=1, limit_s=0.2)
    execd = Execd(idle_home, *a_program())

    def is_replaced() -> bool:
        assert execd.answer() == CLOSED
        return (idle_home / "seen").exists()

    until(is_replaced, "another poller", LIMIT_S)
    assert poller.wait() == -signal.SIGKILL
    assert execd.end() == 0
    told = (idle_home.parent / "sensor.log").read_text()
    assert f"poller {poller.pid} gave no sign of life for 0.4 s: killed" in told
