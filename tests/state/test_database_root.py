"""The state file on a full disk, and access by other users."""

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


def test_a_state_file_in_an_unwritable_folder_is_refused(as_user: Callable[..., object], spool_folder: Path) -> None:
    folder = spool_folder.parent / "lib"
    folder.mkdir(mode=0o755)

    with pytest.raises(StateError, match="lib: not writable"):
        as_user(10001, lambda: StateFile.open(url_of(folder / "state.db")))


@pytest.mark.parametrize("mode", [0o600, 0o644], ids=["unreadable", "readable"])
def test_a_state_file_of_another_user_is_refused(as_user: Callable[..., object], spool_folder: Path, mode: int) -> None:
    folder = spool_folder.parent / "lib"
    folder.mkdir()
    folder.chmod(0o777)
    StateFile.open(url_of(folder / "state.db")).close()
    (folder / "state.db").chmod(mode)

    with pytest.raises(StateError, match=r"state\.db: "):
        as_user(10001, lambda: StateFile.open(url_of(folder / "state.db")))


def test_a_transaction_on_a_full_disk_fails_without_losing_stored_transfers(
    small_disk: Path, a_transfer: Build
) -> None:
    path = small_disk / "state.db"
    database = StateFile.open(url_of(path))
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    kept = fill(database, a_transfer)

    def change() -> None:
        with database.transaction():
            for uid in range(500):
                TransferRows(database).insert_or_update_transfer(a_transfer(uid=uid, reason="y" * 4000))

    with pytest.raises(StateError, match="database or disk is full"):
        change()
    assert TransferRows(database).open_transfers() == kept
    ballast.unlink()
    TransferRows(database).insert_or_update_transfer(a_transfer(uid=9999, reason="z" * 4000))

    assert [one.uid for one in TransferRows(database).open_transfers()] == [*range(len(kept)), 9999]
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_state_file_on_a_full_disk_is_readable_and_a_new_one_is_refused(small_disk: Path, a_transfer: Build) -> None:
    url, new = url_of(small_disk / "state.db"), url_of(small_disk / "new.db")
    TransferRows(StateFile.open(url)).insert_or_update_transfer(a_transfer())
    (small_disk / "ballast").write_bytes(b"x" * shutil.disk_usage(small_disk).free)

    assert TransferRows(StateFile.open(url)).open_transfers() == (a_transfer(),)
    with pytest.raises(StateError, match=r"new\.db: database or disk is full"):
        StateFile.open(new)
    (small_disk / "ballast").unlink()
    assert TransferRows(StateFile.open(new)).open_transfers() == ()


def fill(database: StateFile, a_transfer: Build) -> tuple[Transfer, ...]:
    kept: list[Transfer] = []
    while True:
        one = a_transfer(uid=len(kept), reason="x" * 4000)
        try:
            TransferRows(database).insert_or_update_transfer(one)
        except StateError as error:
            if str(error).endswith("state.db: database or disk is full"):
                return tuple(kept)
            raise
        kept.append(one)
