"""The state file on a full disk, and in the hands of other users."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gridbridge.errors import StateError
from gridbridge.model.transfer.transfers_and_actions import Transfer
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.transfer_rows import TransferRows

Build = Callable[..., Transfer]

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and becomes other users")]


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def test_a_folder_that_is_not_writable_is_refused(as_user: Callable[..., object], spool_folder: Path) -> None:
    folder = spool_folder.parent / "lib"
    folder.mkdir(mode=0o755)

    with pytest.raises(StateError, match="lib: not writable"):
        as_user(10001, lambda: StateFile.open(url_of(folder / "state.db")))


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=["unreadable", "readable"])
def test_somebody_elses_file_is_refused(as_user: Callable[..., object], spool_folder: Path, mode: int) -> None:
    folder = spool_folder.parent / "lib"
    folder.mkdir()
    folder.chmod(0o777)
    StateFile.open(url_of(folder / "state.db")).close()
    (folder / "state.db").chmod(mode)

    with pytest.raises(StateError, match=r"state\.db: "):
        as_user(10001, lambda: StateFile.open(url_of(folder / "state.db")))


def test_a_full_disk_loses_nothing(small_disk: Path, a_transfer: Build) -> None:
    path = small_disk / "state.db"
    database = StateFile.open(url_of(path))
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    kept = fill(database, a_transfer)

    def change() -> None:
        with database.transaction():
            for uid in range(500):
                TransferRows(database).put_transfer(a_transfer(uid=uid, reason="y" * 4000))

    with pytest.raises(StateError, match="database or disk is full"):
        change()
    assert TransferRows(database).open_transfers() == kept
    ballast.unlink()
    TransferRows(database).put_transfer(a_transfer(uid=9999, reason="z" * 4000))

    assert [one.uid for one in TransferRows(database).open_transfers()] == [*range(len(kept)), 9999]
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_state_file_on_a_full_disk_can_be_read(small_disk: Path, a_transfer: Build) -> None:
    url = url_of(small_disk / "state.db")
    TransferRows(StateFile.open(url)).put_transfer(a_transfer())
    fill_disk(small_disk)

    assert TransferRows(StateFile.open(url)).open_transfers() == (a_transfer(),)


def test_a_state_file_is_made_once_there_is_room(small_disk: Path) -> None:
    url = url_of(small_disk / "state.db")
    ballast = fill_disk(small_disk)
    with pytest.raises(StateError, match=r"state\.db: database or disk is full"):
        StateFile.open(url)
    ballast.unlink()

    assert TransferRows(StateFile.open(url)).open_transfers() == ()


def fill(database: StateFile, a_transfer: Build) -> tuple[Transfer, ...]:
    """Put transfers until the disk is full; return those that were taken."""
    kept: list[Transfer] = []
    while True:
        one = a_transfer(uid=len(kept), reason="x" * 4000)
        try:
            TransferRows(database).put_transfer(one)
        except StateError as error:
            if str(error).endswith("state.db: database or disk is full"):
                return tuple(kept)
            raise
        kept.append(one)


def fill_disk(folder: Path) -> Path:
    """Leave no room on a disk."""
    free = shutil.disk_usage(folder).free
    (folder / "ballast").write_bytes(b"x" * free)
    return folder / "ballast"
