"""A full TMPDIR: no note of a transfer is cut, the reason is reported, and free space ends the wait."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gridbridge.model.transfer_messages_in_spool import (
    TransferFailureCause,
    TransferMessage,
    TransferMessageKind,
    encode_transfer_message,
)
from gridbridge.transfer.starter import control_methods
from gridbridge.transfer.starter.starter import end_without_notes_folder, run_next_starter_step
from gridbridge.transfer.starter.starter_step_context import ROOM_S
from tests.builders.mounts import memory_mounted
from tests.transfer.starter.cells import TRANSFER, Place

METHODS = Path(__file__).parents[2] / "sge-methods"
LEFT_TO_PYTHON = 77
NO_ROOM = "no room in $TMPDIR: "
CUT = [b"", b"kind=clo", b"kind=closed\n", b"kind=closed\noutcome=exit\n", b"outcome=exit\nexit_st"]

mounts = pytest.mark.skipif(os.geteuid() != 0, reason="mounts")


@pytest.fixture
def small(place: Place) -> Iterator[Place]:
    with memory_mounted(place.folder / "tmp", "size=64k"):
        yield place


def fill(place: Place) -> None:
    path = place.folder / "tmp/filler"
    with open(path, "wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass


def make_room(place: Place) -> None:
    (place.folder / "tmp/filler").unlink()


def step(place: Place) -> str:
    task = place.task()
    return end_without_notes_folder(task) or run_next_starter_step(task, "", ("true",))


def error_of(place: Place) -> str:
    path = place.folder / "active/error"
    return path.read_text() if path.exists() else ""


def finish(place: Place) -> int:
    """Let the starter's shell read the verdict; return the shell's exit status."""
    verdict = place.task().verdict_path(TRANSFER)
    private, spool = place.folder / "tmp/.gridbridge", place.folder / "spool"
    names = f"private={private} fifo={spool}/wake/x verdict={verdict} wanted="
    argv = ("/bin/sh", "-c", f"{names}; . '{METHODS}/finish'; exit {LEFT_TO_PYTHON}")
    return subprocess.run(argv, check=False, capture_output=True).returncode


@pytest.mark.root
@mounts
def test_a_job_starts_once_tmpdir_has_room(small: Place) -> None:
    """While TMPDIR is full, no job is sent and the service has no record of a transfer."""
    fill(small)
    answers = [step(small) for _ in range(2)]
    messages = os.listdir(small.folder / "spool")
    make_room(small)

    assert answers == ["again 10 - -"] * 2
    assert messages == ["wake"]
    assert os.listdir(small.folder / "spool/wake") == []
    assert step(small).startswith("wait ")
    assert len(small.calls("beta qsub")) == 1


@pytest.mark.root
@mounts
def test_a_job_that_finds_no_room_for_long_says_so_in_its_error(small: Place) -> None:
    """The error names the full TMPDIR instead of the job's limits."""
    small.ran_for(ROOM_S + 5)
    fill(small)

    assert step(small) == "exit 100"
    assert error_of(small).startswith(f"gridbridge: {NO_ROOM}")
    assert error_of(small).endswith(": No space left on device\n")


@pytest.mark.root
@mounts
def test_a_tmpdir_without_files_left_says_so_as_well(place: Place) -> None:
    with memory_mounted(place.folder / "tmp", "nr_inodes=1"):
        place.ran_for(ROOM_S + 5)
        answer = step(place)

    assert (answer, error_of(place).startswith(f"gridbridge: {NO_ROOM}")) == ("exit 100", True)


@pytest.mark.root
@mounts
@pytest.mark.parametrize("outcome", [{"outcome": "exit", "exit_status": "7"}, {"outcome": "requeue"}])
def test_a_job_ends_once_tmpdir_has_room(small: Place, outcome: dict[str, str]) -> None:
    """The shell and the steps write no partial note. The service learns why the job waits."""
    step(small)
    small.decide(**outcome)
    fill(small)
    status, answer = finish(small), step(small)
    notes = os.listdir(small.folder / "tmp/.gridbridge")
    told = {one.reason for one in small.sent(TransferMessageKind.RECORD) if one.cause == TransferFailureCause.HERE}
    make_room(small)

    assert (status, answer.split()[:2]) == (LEFT_TO_PYTHON, ["again", "10"])
    assert [name for name in notes if "closed" in name or name.startswith(".")] == []
    assert [NO_ROOM in reason for reason in told] == [True]
    assert small.sent(TransferMessageKind.CLOSED) == []
    assert step(small) == f"exit {outcome.get('exit_status', '99')}"
    assert len(small.sent(TransferMessageKind.CLOSED)) == 1


@pytest.mark.root
@mounts
def test_a_deletion_is_noted_in_a_full_tmpdir(small: Place) -> None:
    """A mark is an empty file, which needs no space."""
    step(small)
    small.home(letters="dr")
    fill(small)
    control_methods.terminate_local_job(small.task())

    assert step(small) == "signal 9"
    assert (len(small.calls("beta qdel")), small.away()) == (1, None)


@pytest.mark.parametrize("content", CUT, ids=repr)
def test_an_empty_or_cut_note_of_the_end_counts_as_none(place: Place, content: bytes) -> None:
    step(place)
    closed = place.folder / "tmp/.gridbridge/closed"
    closed.write_bytes(content)
    closed.chmod(0o644)
    place.decide(outcome="exit", exit_status="7")

    assert step(place) == "exit 7"
    [end] = place.sent(TransferMessageKind.CLOSED)
    assert (end.outcome, end.exit_status) == ("exit", "7")


@pytest.mark.parametrize("name", ["record", "tries", "shut_out", "recall"])
def test_an_empty_note_counts_as_none(place: Place, name: str) -> None:
    if name != "record":
        step(place)
    note = place.folder / "tmp/.gridbridge" / name
    note.write_bytes(b"")
    note.chmod(0o644)
    task = place.task()

    assert task.count_starter_act_try("tries") == 0
    assert task.seconds_since_first_note("shut_out") < 60
    assert step(place).startswith("wait ")


def test_a_task_reads_its_closing_note_as_it_was_written(place: Place) -> None:
    step(place)
    end = TransferMessage(kind=TransferMessageKind.CLOSED, transfer=TRANSFER, outcome="signal", signal="9")
    (place.folder / "tmp/.gridbridge/closed").write_bytes(encode_transfer_message(end))

    assert end == place.task().read_closing_note()
