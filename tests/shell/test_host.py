"""What a host knows of its accounts and processes."""

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

SLEEP = "/usr/bin/sleep"


def test_this_host_is_known_by_its_name_and_by_each_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"inner": "127.0.0.1", "other": "192.0.2.7"}
    monkeypatch.setattr(local_host_facts.socket, "gethostbyname", lambda name: known[name])

    assert [local_host_facts.is_this_host(one) for one in (local_host_facts.this_host_name(), "inner", "other")] == [
        True,
        True,
        False,
    ]


def test_groups_are_those_of_the_system_the_primary_one_first() -> None:
    me = pwd.getpwuid(os.getuid())
    found = local_host_facts.groups_of_account(me.pw_name)

    assert local_host_facts.groups_of_account("nobody at all") == ()
    assert len(found) == len(os.getgrouplist(me.pw_name, me.pw_gid))
    assert local_host_facts.groups_of_account("root")[0] == "root"


def test_a_fifo_in_the_place_of_a_log_has_no_last_line(tmp_path: Path) -> None:
    """`gridbridge check` of root looks at the poller's log, in a folder of the service's."""
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
def test_a_daemon_is_roots_and_bears_its_programs_name(for_all: Path) -> None:
    """Root starts the daemon's program again: it may be nobody else's."""
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
    assert found
    assert (found.pid, found.program) == (pid, str(for_all / name))
