"""Programs of a user end completely with their scope, and never exhaust the service's processes."""

import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridbridge.privileged import as_user_refusals_and_user_switch, process_scope, systemd_scope
from gridbridge.privileged.process_scope import MORE, UserProcessScope
from gridbridge.privileged.systemd_scope import MOST_TASKS, systemd_scope_command

BOB = 61_000 + os.getpid() % 1000  # nobody has that uid, and no other test
LONG_S = 60.0
NOBODY = 65_534  # an account of every machine
pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def _as_root() -> None:
    if os.geteuid():
        pytest.skip("only root makes scopes")


@pytest.fixture(name="held", params=["in a namespace", "in none"])
def _held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator["Held"]:
    if request.param == "in none":
        monkeypatch.setattr(process_scope, "CLONE_NEWPID", -1)  # refused, as in many containers
    held = Held()
    yield held
    held.close()


class Held:
    """A pipe that every process of a scope holds open: the pipe ends with the last process."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()

    def run(self, act: Callable[[], object], uid: int = BOB) -> UserProcessScope:
        made = UserProcessScope(LONG_S)
        if made.pid:
            os.close(self.write)
            return made
        try:
            os.setresuid(uid, uid, uid)
            process_scope.limit_user_processes()
            act()
        finally:
            os._exit(0)

    def say(self, word: bytes) -> None:
        """Write to the test, from inside the scope."""
        os.write(self.write, word)

    def heard(self) -> bytes:
        """Return the next written bytes, b"" after the last process has ended."""
        ready, _, _ = select.select([self.read], [], [], 10)
        assert ready, "some process of the scope still runs"
        return os.read(self.read, 65536)

    def close(self) -> None:
        os.close(self.read)


def hide(held: Held, then: Callable[[], object] = lambda: None) -> None:
    """Leave a process without parent, session or default signal handlers."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    held.say(b"hidden")
    then()
    while True:
        time.sleep(1)


def test_a_detached_process_ends_with_the_scope(held: Held) -> None:
    go, let_go = os.pipe()
    made = held.run(lambda: (hide(held), os.read(go, 1)))
    assert held.heard() == b"hidden"
    os.write(let_go, b"1")
    os.waitpid(made.pid, 0)

    assert held.heard() == b""


def test_switching_to_a_user_limits_the_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systemd_scope, "BOOTED", "/nowhere")
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    reads, writes = os.pipe()
    made = UserProcessScope(LONG_S)
    if not made.pid:
        try:
            as_user_refusals_and_user_switch.switch_to_user(NOBODY)
            os.write(writes, repr(resource.getrlimit(resource.RLIMIT_NPROC)).encode())
        finally:
            os._exit(0)
    os.waitpid(made.pid, 0)

    assert os.read(reads, 100).decode() != repr(before)


@pytest.mark.parametrize(
    "wait", [signal.pause, lambda: os.kill(os.getpid(), signal.SIGSTOP)], ids=["paused", "stopped"]
)
def test_ending_a_scope_kills_every_process(held: Held, wait: Callable[[], object]) -> None:
    made = held.run(lambda: (hide(held), wait()))
    assert held.heard() == b"hidden"
    made.kill_scope_processes()

    assert held.heard() == b""


def test_a_scope_ends_when_its_creator_is_killed(held: Held) -> None:
    maker = os.fork()
    if not maker:
        held.run(lambda: (hide(held), signal.pause()))
        signal.pause()
    os.close(held.write)
    assert held.heard() == b"hidden"
    os.kill(maker, signal.SIGKILL)
    os.waitpid(maker, 0)

    assert held.heard() == b""


def test_a_fork_bomb_is_limited_and_killed(held: Held) -> None:
    def bomb() -> None:
        while True:
            try:
                if not os.fork():
                    os.setsid()
                    held.say(b".")
            except BlockingIOError:
                time.sleep(0.01)

    made = held.run(bomb)
    count, until = 0, time.monotonic() + 2
    while time.monotonic() < until:
        count += len(held.heard()) if select.select([held.read], [], [], 0.5)[0] else 0
    made.kill_scope_processes()
    while more := held.heard():
        count += len(more)

    assert MORE // 2 <= count <= MORE


def test_processes_outside_the_scope_do_not_count(held: Held) -> None:
    many = f"for one in $(seq {MORE * 2}); do sleep 600 & done; echo; wait"
    as_them = ("setpriv", f"--reuid={BOB}", "--clear-groups", "sh", "-c", many)
    with subprocess.Popen(as_them, stdout=subprocess.PIPE, start_new_session=True) as others:
        assert others.stdout
        assert others.stdout.readline()
        try:
            made = held.run(lambda: held.say(b"works" if _runs("/bin/true") else b"fails"))
            os.waitpid(made.pid, 0)

            assert held.heard() == b"works"
        finally:
            os.killpg(others.pid, signal.SIGKILL)


def _runs(path: str) -> bool:
    return os.waitpid(os.posix_spawn(path, [path], {}), 0)[1] == 0


@pytest.mark.parametrize(
    ("act", "status"),
    [
        (lambda: os._exit(0), 0),
        (lambda: os._exit(75), 75),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), process_scope.FIRST_SIGNAL + signal.SIGKILL),
    ],
    ids=["done", "failed", "killed"],
)
def test_a_scope_exits_with_the_status_of_its_program(held: Held, act: Callable[[], object], status: int) -> None:
    made = held.run(act)

    assert os.waitstatus_to_exitcode(os.waitpid(made.pid, 0)[1]) == status


def test_several_scopes_and_ordinary_children_coexist(held: Held) -> None:
    first = UserProcessScope(LONG_S)
    if not first.pid:
        os._exit(3)
    ours = os.fork()
    if not ours:
        os._exit(os.getpid() < 3)  # as in a namespace of its own
    second = held.run(lambda: os._exit(4))
    ends = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (first.pid, ours, second.pid)]

    assert ends == [3, 0, 4]


def test_the_watcher_of_a_scope_inherits_no_lock(held: Held, tmp_path: Path) -> None:
    """Root's ledger is locked while a worker runs."""
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    made = held.run(lambda: (held.say(b"on"), signal.pause()))
    held.heard()
    opened = {os.readlink(f"/proc/{made.pid}/fd/{end}") for end in os.listdir(f"/proc/{made.pid}/fd")}
    made.kill_scope_processes()
    os.close(lock)

    assert str(tmp_path / "lock") not in opened


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("0::/gridbridge.slice/gridbridge-people.slice/a.scope", True),
        ("0::/gridbridge.slice/other/a.scope", False),
        ("4:pids:/gridbridge.slice/a.scope", True),
        ("4:cpu,pids:/gridbridge.slice/a.scope", True),
        ("4:memory:/gridbridge.slice/a.scope", False),
        ("4:pids:/gridbridge.slice/b.scope", False),
    ],
)
def test_a_scope_is_used_only_if_the_kernel_limits_its_processes(
    line: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, as in containers without the pids controller, the limit by uid applies."""
    monkeypatch.setattr(systemd_scope, "CGROUPS", str(tmp_path))
    folder = tmp_path / "gridbridge.slice/gridbridge-people.slice/a.scope"
    folder.mkdir(parents=True)
    (folder / "pids.max").touch()

    assert systemd_scope._does_scope_limit_processes(line, "a.scope") is counts


def test_the_systemd_scope_has_limits() -> None:
    argv = systemd_scope_command(4711, 45)

    assert argv[:3] == ("/usr/bin/busctl", "--quiet", "call")
    told = " ".join(argv)
    assert "StartTransientUnit ssa(sv)a(sa(sv)) gridbridge-people-" in told
    assert "PIDs au 1 4711" in told
    assert f"TasksMax t {MOST_TASKS}" in told
    assert "RuntimeMaxUSec t 75000000" in told
    assert told.endswith(" 0")
