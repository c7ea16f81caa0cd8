"""The kernel names the holder of the poller's lock; no other process is ever killed."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.shell import hung_poller_kill, program_lock_file
from tests.shell.holders import a_holder

SERVICE = 10000 if os.geteuid() == 0 else os.geteuid()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


@pytest.fixture
def path() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp())
    base.chmod(0o755)
    home = base / "home"
    home.mkdir()
    os.chown(home, SERVICE, -1)
    yield home / "poller.lock"
    shutil.rmtree(base)


def ended(process: "subprocess.Popen[str]") -> int:
    """End a process if it still runs; return its earlier exit status, or 0."""
    status = process.poll()
    process.kill()
    process.wait()
    return status or 0


def found_and_killed(path: Path) -> tuple[int, int]:
    found = hung_poller_kill.find_poller_lock_holder(str(path))
    return found, hung_poller_kill.kill_poller_lock_holder(str(path))


def test_a_lock_holder_of_the_service_account_is_killed(path: Path) -> None:
    process = a_holder(path)

    assert (*found_and_killed(path), process.wait()) == (process.pid, process.pid, -signal.SIGKILL)
    assert program_lock_file.is_lock_file_held(str(path)) is False


def test_no_process_is_killed_without_a_lock_holder(path: Path) -> None:
    assert found_and_killed(path) == (0, 0)
    path.touch()
    assert found_and_killed(path) == (0, 0)


@needs_root
@pytest.mark.parametrize("uid", [0, 10001], ids=["root", "somebody"])
def test_a_lock_holder_of_another_account_is_not_killed(path: Path, uid: int) -> None:
    """The service account could let such a process lock the file."""
    path.touch()
    path.parent.chmod(0o777)
    os.chown(path, uid, -1)
    process = a_holder(path, uid)

    assert (*found_and_killed(path), ended(process)) == (process.pid, 0, 0)


@needs_root
def test_no_process_is_killed_for_a_lock_in_a_folder_of_root(path: Path) -> None:
    os.chown(path.parent, 0, -1)
    process = a_holder(path)

    assert (hung_poller_kill.kill_poller_lock_holder(str(path)), ended(process)) == (0, 0)


def test_a_lock_holder_with_a_systemd_watchdog_is_not_killed(path: Path) -> None:
    process = a_holder(path, environment={"WATCHDOG_USEC": "60000000"})

    assert (hung_poller_kill.kill_poller_lock_holder(str(path)), ended(process)) == (0, 0)


def test_a_symlinked_lock_file_has_no_holder(path: Path) -> None:
    process = a_holder(path)
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))

    assert (hung_poller_kill.kill_poller_lock_holder(str(path)), ended(process)) == (0, 0)


def test_a_flock_has_no_known_holder(path: Path) -> None:
    """Pollers of earlier versions used flock."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert program_lock_file.is_lock_file_held(str(path))
        assert hung_poller_kill.find_poller_lock_holder(str(path)) == 0
