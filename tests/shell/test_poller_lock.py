"""The poller's lock has one holder, and every query gives the same answer."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.errors import StateError
from gridbridge.shell import program_lock_file


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
