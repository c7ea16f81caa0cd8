"""A backup has what the site can't make again; restoring adds what is missing and never an older ledger."""

import os
import tarfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.errors import StateError
from gridbridge.site.site_backup import LEDGER, SPOOL, STATE, OpenBackup, SavedPlaces, SavedStateFile, pack_backup
from gridbridge.state.sqlite_copies import FORMER, REPLACING
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.transfer_history_rows import TransferRows
from tests.state_files import made_transfer

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEPT = ("claims/1001.ab", "campaigns/c.7", "campaigns/c.7.1", "campaigns/given", "campaigns/u.1001/data.x")
LEFT = ("m.0", "campaigns/u.1001/new.0", "campaigns/begun/took.0", "wake/0")


@pytest.fixture
def places(tmp_path: Path) -> SavedPlaces:
    for name in (*KEPT, *LEFT):
        path = tmp_path / "spool" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o640)
    (tmp_path / "spool/claims/1001.cd").symlink_to("nowhere")
    (tmp_path / "ledger").mkdir(0o700)
    (tmp_path / "ledger/c.7").write_text("file 1001 ab\narray 1 beta 0-4:1\njob 1")
    (tmp_path / "ledger/file.1001.ab").symlink_to("c.7")
    path = str(tmp_path / "state.db")
    StateFile.open(f"sqlite:///{path}").close()
    state = SavedStateFile(name=STATE, path=path, account="nobody-here", locks={"poller": str(tmp_path / "lock")})
    return SavedPlaces(state_files=(state,), folders={SPOOL: str(tmp_path / "spool"), LEDGER: str(tmp_path / "ledger")})


def packed(tmp_path: Path, places: SavedPlaces) -> str:
    pack_backup(str(tmp_path / "backup"), places, "alpha", NOON)
    return str(tmp_path / "backup")


def test_a_backup_is_private_and_has_no_messages(tmp_path: Path, places: SavedPlaces) -> None:
    path = packed(tmp_path, places)

    with tarfile.open(path) as archive:
        names = set(archive.getnames())
        ledger = archive.extractfile("ledger/c.7")
        assert ledger
        assert ledger.read() == b"file 1001 ab\narray 1 beta 0-4:1\n"  # without the line that root is writing
    assert names == {
        *("manifest.json", "state.db", "ledger/c.7", "ledger/file.1001.ab", "spool/claims/1001.cd"),
        *(f"spool/{name}" for name in KEPT),
    }
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert not os.path.exists(f"{places.state_files[0].path}.copy")


def test_a_restored_state_file_has_the_rows_of_the_backup(tmp_path: Path, places: SavedPlaces) -> None:
    path, (state,) = packed(tmp_path, places), places.state_files
    database = StateFile.open(f"sqlite:///{state.path}")
    TransferRows(database).insert_or_update_transfer(made_transfer())
    database.close()

    assert OpenBackup(path).give_to_owner(state, REPLACING) == []

    opened = [StateFile.open(f"sqlite:///{name}") for name in (state.path, f"{state.path}{FORMER}")]
    assert [len(TransferRows(each).open_transfers()) for each in opened] == [0, 1]


def test_missing_files_come_back_with_their_modes_and_present_files_stay(tmp_path: Path, places: SavedPlaces) -> None:
    saved, spool = OpenBackup(packed(tmp_path, places)), tmp_path / "spool"
    (spool / "campaigns/c.7").unlink()
    (spool / "claims/1001.cd").unlink()
    (spool / "campaigns/given").write_text("newer")

    assert saved.put_missing_files(SPOOL, str(spool)) == 2

    assert (spool / "campaigns/c.7").read_text() == "campaigns/c.7"
    assert os.stat(spool / "campaigns/c.7").st_mode & 0o777 == 0o640
    assert os.readlink(spool / "claims/1001.cd") == "nowhere"
    assert (spool / "campaigns/given").read_text() == "newer"
    assert not [name for name in os.listdir(spool / "campaigns") if name.startswith(".")]


def test_a_restored_file_follows_no_link_of_a_person(tmp_path: Path, places: SavedPlaces) -> None:
    saved, inbox = OpenBackup(packed(tmp_path, places)), tmp_path / "spool/campaigns/u.1001"
    inbox.rename(tmp_path / "elsewhere")
    inbox.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/data.x").unlink()

    with pytest.raises(StateError, match=r"data\.x: Not a directory"):
        saved.put_missing_files(SPOOL, str(tmp_path / "spool"))
    assert not (tmp_path / "elsewhere/data.x").exists()


def test_only_a_ledger_without_any_file_is_lost(tmp_path: Path, places: SavedPlaces) -> None:
    saved, ledger = OpenBackup(packed(tmp_path, places)), tmp_path / "ledger"
    (ledger / "c.7").unlink()
    is_lost_at_first = saved.has_lost_ledger(str(ledger))
    (ledger / "file.1001.ab").unlink()

    assert (is_lost_at_first, saved.has_lost_ledger(str(ledger))) == (False, True)


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.99])
def test_a_cut_backup_is_refused(tmp_path: Path, places: SavedPlaces, keep: float) -> None:
    path = Path(packed(tmp_path, places))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(keep if keep >= 1 else keep * len(whole))])

    with pytest.raises(StateError, match="no whole backup of gridbridge"):
        OpenBackup(str(path))


def test_a_failed_backup_leaves_the_former_one(tmp_path: Path, places: SavedPlaces) -> None:
    path = Path(packed(tmp_path, places))
    before = path.read_bytes()
    broken = tmp_path / "broken.db"
    broken.write_text("no database" * 1000)

    with pytest.raises(StateError, match=r"broken\.db: file is not a database"):
        packed(tmp_path, replace(places, state_files=(replace(places.state_files[0], path=str(broken)),)))

    assert path.read_bytes() == before
    assert not os.path.exists(f"{path}.part")
