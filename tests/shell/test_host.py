"""Facts about the accounts, processes and clock of the local host, and a change to another account."""

import operator
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gridbridge.shell import local_host_facts
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import run_program
from gridbridge.shell.program_startup import setpriv_command_prefix

SLEEP = "/usr/bin/sleep"


def test_the_local_host_is_recognised_by_name_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"inner": "127.0.0.1", "other": "192.0.2.7"}
    monkeypatch.setattr(local_host_facts.socket, "gethostbyname", lambda name: known[name])

    names = (local_host_facts.this_host_name(), "inner", "other")
    assert [*map(local_host_facts.is_this_host, names)] == [True, True, False]


def test_groups_of_an_account_begin_with_the_primary_group() -> None:
    me = pwd.getpwuid(os.getuid())
    found = local_host_facts.groups_of_account(me.pw_name)

    assert local_host_facts.groups_of_account("nobody at all") == ()
    assert len(found) == len(os.getgrouplist(me.pw_name, me.pw_gid))
    assert local_host_facts.groups_of_account("root")[0] == "root"


def test_a_fifo_in_place_of_a_log_has_no_last_line(tmp_path: Path) -> None:
    """`gridbridge check` reads the poller's log as root in the service's folder."""
    os.mkfifo(tmp_path / "poller.log")

    assert local_host_facts.last_log_line(str(tmp_path / "poller.log")) == ""


@contextmanager
def process(program: Path, uid: int) -> Iterator[int]:
    with subprocess.Popen((program, "60"), user=uid) as started:
        comm = Path(f"/proc/{started.pid}/comm")
        while comm.read_text().strip() != program.name:
            assert started.poll() is None
        yield started.pid
        started.kill()


@pytest.fixture
def for_all() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.mark.root
def test_a_daemon_is_found_by_owner_root_and_program_name(for_all: Path) -> None:
    """Root restarts the daemon's program, which may belong to nobody else."""
    if os.geteuid():
        pytest.skip("only root starts a daemon")
    name = f"d{os.getpid()}"
    shutil.copy(SLEEP, for_all / name)
    (for_all / "link").mkdir()
    (for_all / "link" / name).symlink_to(SLEEP)
    nobody = pwd.getpwnam("nobody").pw_uid
    with process(for_all / "link" / name, 0), process(for_all / name, nobody):
        others = local_host_facts.find_root_daemon(name)
        with process(for_all / name, 0) as pid:
            found = local_host_facts.find_root_daemon(name)

    assert others is None
    assert (found.pid, found.program) == (pid, str(for_all / name))


ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def test_setpriv_switches_user_and_groups_of_the_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """With root's group, a file that only that group can read would count as readable."""
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    ids = (f"--reuid={me.pw_uid}", f"--regid={me.pw_gid}")
    assert setpriv_command_prefix(me.pw_name) == ("/usr/bin/setpriv", *ids, "--init-groups", "--")
    assert setpriv_command_prefix("nobody-of-that-name") == ()


def test_setpriv_is_not_used_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)

    assert setpriv_command_prefix("root") == ()


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another account")
def test_setpriv_drops_the_groups_of_root() -> None:
    done = run_program((*setpriv_command_prefix("nobody"), "/usr/bin/id", "-G"), ENVIRONMENT, 10)

    assert b"0" not in done.require_success().stdout.split()


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wall_s", "expected_s"),
    [(1010.0, 0.0), (1010.4, 0.0), (1009.6, 0.0), (4610.0, 3600.0), (-2590.0, -3600.0)],
    ids=["time passes", "slewed on", "slewed back", "set on", "set back"],
)
def test_a_clock_step_is_the_difference_to_steady_time(wall_s: float, expected_s: float) -> None:
    walls, steady = iter([1000.0, wall_s, wall_s + 5]), iter([0.0, 10.0, 15.0])
    clock = Clock(lambda: next(walls), lambda: next(steady))

    assert [clock.detect_clock_step(), clock.detect_clock_step()] == [timedelta(seconds=expected_s), timedelta()]


def test_a_step_moves_recorded_times_and_drops_unreferenced_records() -> None:
    walls = [0.0]
    clock = Clock(lambda: walls[0], lambda: 0.0)
    kept, lost = clock.make_clock_shifted_dictionary(operator.add), clock.make_clock_shifted_dictionary(operator.add)
    kept["begun"] = NOON
    del lost
    walls[0] = 60.0
    clock.detect_clock_step()

    assert kept == {"begun": NOON + timedelta(minutes=1)}
    assert len(clock._dated) == 2
    clock.make_clock_shifted_dictionary(operator.add)
    assert len(clock._dated) == 1 + 1


def test_the_age_of_a_moment_survives_a_clock_step() -> None:
    walls, steady = [1000.0], [5.0]
    clock = Clock(lambda: walls[0], lambda: steady[0])
    then_s = clock.steady_s()
    steady[0] += 10
    walls[0] += 10 - 3600

    assert clock.now() - clock.time_of_day_at(then_s) == timedelta(seconds=10)
