"""The folder of campaign files: anybody adds to it, and nobody stands in another's way."""

import os
from pathlib import Path

import pytest

from gridbridge.state import campaign_files
from gridbridge.state.campaign_files import A_SCAN, NewFile


def test_a_file_is_read_as_it_was_brought(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 stay what they are."""
    token = campaign_files.put(
        campaign_files.encode({"name": "é"}, ("a \udcff", "b")), str(tmp_path)
    )

    assert (tmp_path / f"new.{token}").stat().st_mode & 0o777 == 0o640

    ((found_token, found),) = campaign_files.new(os.listdir(tmp_path), str(tmp_path))

    assert isinstance(found, NewFile)
    assert (found_token, found.header, found.tasks) == (token, {"name": "é"}, 2)


def test_what_was_not_taken_in_can_be_taken_back(tmp_path: Path) -> None:
    """And what was can't: the owner waits for its number then."""
    first, second = (campaign_files.put(b"{}\n", str(tmp_path)) for _ in range(2))
    assert campaign_files.take_back(first, str(tmp_path))

    ((token, _),) = campaign_files.new(os.listdir(tmp_path), str(tmp_path))

    assert token == second
    assert not campaign_files.take_back(second, str(tmp_path))
    campaign_files.number(second, 7, str(tmp_path))
    assert os.listdir(tmp_path) == ["c.7"]


def test_folders_that_somebody_makes_there_are_left_alone(tmp_path: Path) -> None:
    """They stop nobody: not even one that is called as a file will be."""
    for name in ("new.0", "ask.0", "in.1", "c.7"):
        (tmp_path / name / "inside").mkdir(parents=True)
    brought = campaign_files.put(b"{}\n", str(tmp_path))

    listed = os.listdir(tmp_path)
    assert [token for token, _ in campaign_files.new(listed, str(tmp_path))] == [brought]
    assert list(campaign_files.asked(listed, str(tmp_path))) == []
    assert campaign_files.is_number_taken(7, str(tmp_path))
    campaign_files.number(brought, 7, str(tmp_path))
    assert (tmp_path / "c.7").is_file()


@pytest.mark.skipif(os.getuid() != 0, reason="another person's files")
def test_nobodys_many_files_hide_anothers(tmp_path: Path) -> None:
    """In each look some files of every person are taken."""
    for number in range(3 * A_SCAN):
        (tmp_path / f"new.{number:04}").write_bytes(b"{}\na\n")
    (tmp_path / "new.zzzz").write_bytes(b"{}\na\n")
    os.chown(tmp_path / "new.zzzz", 1, -1)

    tokens = [token for token, _ in campaign_files.new(os.listdir(tmp_path), str(tmp_path))]

    assert len(tokens) == A_SCAN + 1
    assert "zzzz" in tokens


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"\xff\n"])
def test_what_is_no_campaign_file_is_told(tmp_path: Path, data: bytes) -> None:
    """A file without a task has none; the rest is no JSON."""
    (tmp_path / "new.0").write_bytes(data)

    ((_, found),) = campaign_files.new(os.listdir(tmp_path), str(tmp_path))

    assert isinstance(found, str) or found.tasks == 0
