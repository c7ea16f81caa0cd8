"""Facts about the accounts and processes of the local host, and a change to another account."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gridbridge.shell import local_host_facts
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
