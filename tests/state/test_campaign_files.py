"""The folder of campaign files: anybody adds to it, and nobody stands in another's way."""

import os
from pathlib import Path

import pytest

from gridbridge.state import campaign_files
from gridbridge.state.campaign_files import NewFile
from gridbridge.state.campaign_picking import A_SCAN

ODD = "0" * 32


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
    for name in (f"new.{ODD}", f"ask.{ODD}", f"in.{ODD}", "c.7"):
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
        (tmp_path / f"new.{number:032x}").write_bytes(b"{}\na\n")
    last = "f" * 32
    (tmp_path / f"new.{last}").write_bytes(b"{}\na\n")
    os.chown(tmp_path / f"new.{last}", 1, -1)

    tokens = [token for token, _ in campaign_files.new(os.listdir(tmp_path), str(tmp_path))]

    assert len(tokens) == A_SCAN + 1
    assert last in tokens


@pytest.mark.parametrize("data", [b"", b"[", b"{}", b"\xff\n", b"[" * 100_000, b'{"a": 1e999}'])
def test_what_is_no_campaign_file_is_told(tmp_path: Path, data: bytes) -> None:
    """A file without a task has none; the rest is no JSON, or more of it than can be read."""
    (tmp_path / f"new.{32 * '0'}").write_bytes(data)

    ((_, found),) = campaign_files.new(os.listdir(tmp_path), str(tmp_path))

    assert isinstance(found, str) or found.tasks == 0


@pytest.mark.parametrize("token", ["", ".", "..", "x", "c.13", "0123", "A" * 32, "0" * 33])
@pytest.mark.parametrize("kind", ["new.", "in.", "ask.", "took."])
def test_what_our_programs_would_not_call_so_is_left_alone(
    tmp_path: Path, kind: str, token: str
) -> None:
    """An answer bears the same name, and no place is named by anybody but them."""
    (tmp_path / f"{kind}{token}").write_bytes(b'{"verb": "cancel", "campaigns": [1]}\na\n')
    listed = os.listdir(tmp_path)

    assert list(campaign_files.new(listed, str(tmp_path))) == []
    assert list(campaign_files.asked(listed, str(tmp_path))) == []
    assert os.listdir(tmp_path) == listed


@pytest.mark.parametrize("data", [b"[" * 100_000, b"[]\na", b"\xff\n"])
def test_what_is_no_campaign_file_has_no_number(tmp_path: Path, data: bytes) -> None:
    """Anybody may call a file so before the service starts."""
    (tmp_path / "c.7").write_bytes(data)

    assert getattr(campaign_files.numbered(7, str(tmp_path)), "tasks", 0) == 0
