"""Root's ledger lets each attempt of a task be submitted once, and knows the campaign's file."""

import os
from pathlib import Path

import pytest

from gridbridge.errors import AlreadySubmitted, NotAsBrought, StateError
from gridbridge.state.ledger import Ledger


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> str:
    return str(tmp_path / "ledger")


def brought(folder: str) -> Ledger:
    """Return the ledger of a campaign whose file is there."""
    ledger = Ledger(12, folder)
    ledger.require(1000, "abc")
    return ledger


def test_an_array_is_submitted_once_under_its_id(folder: str) -> None:
    """A call that is repeated finds what the first one noted."""
    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0-9:1")
        ledger.submitted(1, "77")

    with brought(folder) as ledger:
        assert ledger.job(1) == "77"
        assert ledger.job(2) == ""
        assert ledger.uid == 1000


def test_a_submission_that_was_cut_short_may_be_repeated(folder: str) -> None:
    """The same array with the same tasks alone."""
    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0-9:1")

    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0-9:1")
        with pytest.raises(AlreadySubmitted, match="array 1 has other tasks"):
            ledger.intend(1, "beta", "0-8:1")


def test_no_attempt_is_in_two_arrays(folder: str) -> None:
    """Not even for the service."""
    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0-9:1")
        ledger.intend(2, "gamma", "9:2,10:1")
        with pytest.raises(AlreadySubmitted, match="was submitted before"):
            ledger.intend(3, "gamma", "11:1,10:1")


@pytest.mark.parametrize(("uid", "digest"), [(1001, "abc"), (1000, "abd")])
def test_another_file_is_refused(folder: str, uid: int, digest: str) -> None:
    """What is run is what was brought, and its owner's."""
    with brought(folder):
        pass

    with Ledger(12, folder) as ledger, pytest.raises(NotAsBrought, match="not the file"):
        ledger.require(uid, digest)


def test_a_line_that_was_cut_short_is_none(folder: str) -> None:
    """Power went while it was written: what it noted had not been done."""
    with brought(folder):
        pass
    with Path(folder, "c.12").open("a") as file:
        file.write("array 1 beta 0")

    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0:1")
    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0:1")


def test_a_line_for_which_there_is_no_room_is_none(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the part of it for which there was: nothing is submitted without its line."""
    with brought(folder) as ledger:
        write = os.write
        monkeypatch.setattr(os, "write", lambda end, data: write(end, data[:7]))
        with pytest.raises(OSError, match="No space left"):
            ledger.intend(1, "beta", "0:1")
        monkeypatch.undo()
        ledger.intend(1, "gamma", "0:1")

    with brought(folder) as ledger:
        assert ledger.arrays() == (("1", "gamma", "0:1", ""),)


def test_it_knows_of_which_array_an_answer_may_have_been_lost(folder: str) -> None:
    """What else bears its name at the cluster is nobody's then."""
    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0:1")
        ledger.intend(2, "beta", "1:1")
    with brought(folder) as ledger:
        ledger.intend(1, "beta", "0:1")
        ledger.submitted(1, "71")
        ledger.submitted(2, "72")
        ledger.intend(2, "beta", "1:1")

    with brought(folder) as ledger:
        assert (ledger.was_repeated(1), ledger.was_repeated(2)) == (True, False)
        assert ledger.arrays() == (("1", "beta", "0:1", "71"), ("2", "beta", "1:1", "72"))


def test_a_folder_that_others_can_open_is_refused(folder: str) -> None:
    """It would not be root's alone."""
    Path(folder).mkdir(mode=0o755)

    with pytest.raises(StateError, match="not a folder of ours alone"):
        brought(folder)
