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

    ((found_token, found),) = campaign_files.new(str(tmp_path))

    assert isinstance(found, NewFile)
    assert (found_token, found.header, found.tasks) == (token, {"name": "é"}, 2)
    assert (tmp_path / f"new.{token}").stat().st_mode & 0o777 == 0o640


def test_what_was_not_taken_in_can_be_taken_back(tmp_path: Path) -> None:
    """And what was can't: the owner waits for its number then."""
    first, second = (campaign_files.put(b"{}\n", str(tmp_path)) for _ in range(2))
    campaign_files.number(second, 7, str(tmp_path))

    assert campaign_files.take_back(first, str(tmp_path))
    assert not campaign_files.take_back(second, str(tmp_path))
    assert os.listdir(tmp_path) == ["c.7"]


@pytest.mark.skipif(os.getuid() != 0, reason="another person's files")
def test_nobodys_many_files_hide_anothers(tmp_path: Path) -> None:
    """In each look some files of every person are taken."""
    for number in range(3 * A_SCAN):
        (tmp_path / f"new.{number:04}").write_bytes(b"{}\na\n")
    (tmp_path / "new.zzzz").write_bytes(b"{}\na\n")
    os.chown(tmp_path / "new.zzzz", 1, -1)

    tokens = [token for token, _ in campaign_files.new(str(tmp_path))]

    assert len(tokens) == A_SCAN + 1
    assert "zzzz" in tokens


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"\xff\n"])
def test_what_is_no_campaign_file_is_told(tmp_path: Path, data: bytes) -> None:
    """A file without a task has none; the rest is no JSON."""
    (tmp_path / "new.0").write_bytes(data)

    ((_, found),) = campaign_files.new(str(tmp_path))

    assert isinstance(found, str) or found.tasks == 0
