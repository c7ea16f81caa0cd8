"""The poller's lock is one process's, and all who ask get the same answer."""

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


def test_who_takes_the_lock_holds_it_against_a_second(path: str) -> None:
    assert [program_lock_file.take_lock_until_exit(path), program_lock_file.take_lock_until_exit(path)] == [True, False]
    assert program_lock_file.is_lock_file_held(path) is True
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_lock_that_nobody_took_is_not_held(path: str) -> None:
    assert program_lock_file.is_lock_file_held(path) is False

    Path(path).touch()

    assert program_lock_file.is_lock_file_held(path) is False


def test_nobody_waits_at_a_fifo_in_its_place(path: str) -> None:
    """Root's load sensor and check look at a lock that is the service account's."""
    os.mkfifo(path)

    assert (program_lock_file.is_lock_file_held(path), program_lock_file.lock_file_holder_version(path)) == (
        False,
        None,
    )


def test_one_who_asks_is_not_taken_for_the_holder(path: str) -> None:
    with open(path, "w") as asked:
        fcntl.flock(asked, fcntl.LOCK_SH)

        assert program_lock_file.is_lock_file_held(path) is False


def test_a_lock_that_may_not_be_opened_is_neither_held_nor_free(path: str, as_nobody: None) -> None:
    assert program_lock_file.is_lock_file_held(path) is None


def test_a_lock_is_never_taken_through_a_link(path: str, tmp_path: Path) -> None:
    os.symlink(tmp_path / "other", path)

    with pytest.raises(StateError, match="Too many levels of symbolic links"):
        program_lock_file.take_lock_until_exit(path)
    assert program_lock_file.is_lock_file_held(path) is False


def test_a_holder_says_which_version_of_the_code_it_is(path: str) -> None:
    Path(path).write_text("0.1.0+1111111111, of one before")
    assert program_lock_file.lock_file_holder_version(path) is None

    program_lock_file.take_lock_until_exit(path, "0.1.0+2222222222")

    assert program_lock_file.lock_file_holder_version(path) == "0.1.0+2222222222"


def test_who_awaits_a_turn_gets_it_when_the_holder_lets_go(path: str) -> None:
    holder = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(holder, fcntl.LOCK_EX)
    told: list[str] = []

    def tell() -> None:
        told.append("waits")
        os.close(holder)

    assert program_lock_file.wait_for_lock_until_exit(path, tell, 10) is True
    assert told == ["waits"]


def test_a_turn_that_never_comes_is_told_once(path: str) -> None:
    assert program_lock_file.take_lock_until_exit(path)
    told: list[str] = []

    assert program_lock_file.wait_for_lock_until_exit(path, lambda: told.append("waits"), 0.5) is False
    assert told == ["waits"]
