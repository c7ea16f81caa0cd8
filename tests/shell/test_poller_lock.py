"""The poller's lock has one holder, which the kernel names; no other process is ever killed."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.errors import StateError
from gridbridge.shell import hung_poller_kill, program_lock_file
from tests.shell.holders import a_holder

SERVICE = 10000 if os.geteuid() == 0 else os.geteuid()
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "poller.lock")


@pytest.fixture
def as_nobody(path: str) -> Iterator[None]:
    Path(path).touch(mode=0o000)
    uid = os.geteuid()
    os.seteuid(uid or 65534)
    yield
    os.seteuid(uid)


def test_a_taken_lock_refuses_a_second_holder(path: str) -> None:
    assert [program_lock_file.take_lock_until_exit(path), program_lock_file.take_lock_until_exit(path)] == [True, False]
    assert program_lock_file.is_lock_file_held(path) is True
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_lock_file_without_a_holder_is_not_held(path: str) -> None:
    assert program_lock_file.is_lock_file_held(path) is False

    Path(path).touch()

    assert program_lock_file.is_lock_file_held(path) is False


def test_a_fifo_in_place_of_a_lock_file_does_not_block(path: str) -> None:
    """Root's load sensor and check read the lock of the service account."""
    os.mkfifo(path)

    assert program_lock_file.is_lock_file_held(path) is False
    assert program_lock_file.lock_file_holder_version(path) is None


def test_a_lock_query_is_not_mistaken_for_the_holder(path: str) -> None:
    with open(path, "w") as asked:
        fcntl.flock(asked, fcntl.LOCK_SH)

        assert program_lock_file.is_lock_file_held(path) is False


def test_an_unreadable_lock_file_is_neither_held_nor_free(path: str, as_nobody: None) -> None:
    assert program_lock_file.is_lock_file_held(path) is None


def test_a_lock_is_never_taken_through_a_symlink(path: str, tmp_path: Path) -> None:
    os.symlink(tmp_path / "other", path)

    with pytest.raises(StateError, match="Too many levels of symbolic links"):
        program_lock_file.take_lock_until_exit(path)
    assert program_lock_file.is_lock_file_held(path) is False


def test_a_lock_file_names_the_version_of_its_holder(path: str) -> None:
    Path(path).write_text("0.1.0+1111111111, of one before")
    assert program_lock_file.lock_file_holder_version(path) is None

    program_lock_file.take_lock_until_exit(path, "0.1.0+2222222222")

    assert program_lock_file.lock_file_holder_version(path) == "0.1.0+2222222222"


def test_waiting_for_a_lock_ends_when_it_is_released(path: str) -> None:
    holder = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(holder, fcntl.LOCK_EX)
    told: list[str] = []

    def tell() -> None:
        told.append("waits")
        os.close(holder)

    assert program_lock_file.wait_for_lock_until_exit(path, tell, 10) is True
    assert told == ["waits"]


def test_waiting_for_a_lock_reports_once_and_gives_up(path: str) -> None:
    assert program_lock_file.take_lock_until_exit(path)
    told: list[str] = []

    assert program_lock_file.wait_for_lock_until_exit(path, lambda: told.append("waits"), 0.5) is False
    assert told == ["waits"]


@pytest.fixture
def shared_path() -> Iterator[Path]:
    """Return the lock's path in a folder of the service account."""
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


def test_a_lock_holder_of_the_service_account_is_killed(shared_path: Path) -> None:
    process = a_holder(shared_path)

    assert (*found_and_killed(shared_path), process.wait()) == (process.pid, process.pid, -signal.SIGKILL)
    assert program_lock_file.is_lock_file_held(str(shared_path)) is False


def test_no_process_is_killed_without_a_lock_holder(shared_path: Path) -> None:
    assert found_and_killed(shared_path) == (0, 0)
    shared_path.touch()
    assert found_and_killed(shared_path) == (0, 0)


@needs_root
@pytest.mark.parametrize("uid", [0, 10001], ids=["root", "somebody"])
def test_a_lock_holder_of_another_account_is_not_killed(shared_path: Path, uid: int) -> None:
    """The service account could let such a process lock the file."""
    shared_path.touch()
    shared_path.parent.chmod(0o777)
    os.chown(shared_path, uid, -1)
    process = a_holder(shared_path, uid)

    assert (*found_and_killed(shared_path), ended(process)) == (process.pid, 0, 0)


@needs_root
def test_no_process_is_killed_for_a_lock_in_a_folder_of_root(shared_path: Path) -> None:
    os.chown(shared_path.parent, 0, -1)
    process = a_holder(shared_path)

    assert (hung_poller_kill.kill_poller_lock_holder(str(shared_path)), ended(process)) == (0, 0)


def test_a_lock_holder_with_a_systemd_watchdog_is_not_killed(shared_path: Path) -> None:
    process = a_holder(shared_path, environment={"WATCHDOG_USEC": "60000000"})

    assert (hung_poller_kill.kill_poller_lock_holder(str(shared_path)), ended(process)) == (0, 0)


def test_a_symlinked_lock_file_has_no_holder(shared_path: Path) -> None:
    process = a_holder(shared_path)
    shared_path.rename(shared_path.with_name("other"))
    shared_path.symlink_to(shared_path.with_name("other"))

    assert (hung_poller_kill.kill_poller_lock_holder(str(shared_path)), ended(process)) == (0, 0)


def test_a_flock_has_no_known_holder(shared_path: Path) -> None:
    """Pollers of earlier versions used flock."""
    with shared_path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert program_lock_file.is_lock_file_held(str(shared_path))
        assert hung_poller_kill.find_poller_lock_holder(str(shared_path)) == 0
