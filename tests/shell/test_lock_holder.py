"""Who holds the poller's lock is found by the kernel's word, and nobody else is ever killed."""

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
    """End a process if it lives; return how it ended, 0 when it did by this."""
    status = process.poll()
    process.kill()
    process.wait()
    return status or 0


def test_the_holder_is_killed_if_it_is_the_accounts(path: Path) -> None:
    process = a_holder(path)
    found = hung_poller_kill.find_poller_lock_holder(str(path))
    killed = hung_poller_kill.kill_poller_lock_holder(str(path))

    assert (found, killed, process.wait()) == (process.pid, process.pid, -signal.SIGKILL)
    assert program_lock_file.is_lock_file_held(str(path)) is False


def test_nobody_is_killed_where_nobody_holds_it(path: Path) -> None:
    assert (
        hung_poller_kill.find_poller_lock_holder(str(path)),
        hung_poller_kill.kill_poller_lock_holder(str(path)),
    ) == (0, 0)

    path.touch()

    assert (
        hung_poller_kill.find_poller_lock_holder(str(path)),
        hung_poller_kill.kill_poller_lock_holder(str(path)),
    ) == (0, 0)


@needs_root
@pytest.mark.parametrize("uid", [0, 10001], ids=["root", "somebody"])
def test_a_process_of_another_account_is_never_killed(path: Path, uid: int) -> None:
    """The account may have it lock the account's own file."""
    path.touch()
    path.parent.chmod(0o777)
    os.chown(path, uid, -1)
    process = a_holder(path, uid)
    found = hung_poller_kill.find_poller_lock_holder(str(path))

    assert (found, hung_poller_kill.kill_poller_lock_holder(str(path)), ended(process)) == (process.pid, 0, 0)


@needs_root
def test_nothing_is_killed_for_a_folder_of_root(path: Path) -> None:
    os.chown(path.parent, 0, -1)
    process = a_holder(path)

    assert (hung_poller_kill.kill_poller_lock_holder(str(path)), ended(process)) == (0, 0)


def test_what_systemd_watches_is_left_to_systemd(path: Path) -> None:
    process = a_holder(path, environment={"WATCHDOG_USEC": "60000000"})

    assert (hung_poller_kill.kill_poller_lock_holder(str(path)), ended(process)) == (0, 0)


def test_a_lock_through_a_link_leads_to_nobody(path: Path) -> None:
    process = a_holder(path)
    path.rename(path.with_name("other"))
    path.symlink_to(path.with_name("other"))

    assert (hung_poller_kill.kill_poller_lock_holder(str(path)), ended(process)) == (0, 0)


def test_a_lock_of_another_kind_has_no_holder(path: Path) -> None:
    """That of a poller from before its holder could be told."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        assert (
            program_lock_file.is_lock_file_held(str(path)),
            hung_poller_kill.find_poller_lock_holder(str(path)),
        ) == (True, 0)
