"""sge-methods/finish ends exited jobs in the shell, and leaves other ends to Python."""

import subprocess
from pathlib import Path

import pytest

from gridbridge.model.transfer_messages_in_spool import (
    TransferMessage,
    TransferMessageKind,
    decode_transfer_message,
    encode_transfer_message,
)
from tests.messages import decode_in_place

FINISH = Path(__file__).parents[3] / "sge-methods" / "finish"
NAME = "gb.alpha.7.0.1"
LEFT_TO_PYTHON = 77


def end(folder: Path, verdict: TransferMessage, note: str = "", wake: str = "wake") -> int:
    (folder / "wake").mkdir()
    (folder / NAME).write_bytes(encode_transfer_message(verdict))
    if note:
        (folder / note).touch()
    names = f"private={folder} fifo={folder}/{wake}/x verdict={folder}/{NAME} wanted="
    argv = ("/bin/sh", "-c", f"{names}; . '{FINISH}'; exit {LEFT_TO_PYTHON}")
    return subprocess.run(argv, check=False, capture_output=True).returncode


def told(folder: Path) -> list[TransferMessage]:
    return [decode_in_place(path.read_bytes()) for path in folder.glob("w.*")]


def test_the_finish_shell_reports_and_notes_a_normal_exit(tmp_path: Path) -> None:
    status = end(tmp_path, TransferMessage(transfer=NAME, outcome="exit", exit_status="7", at="12.5"))

    closed = TransferMessage(kind=TransferMessageKind.CLOSED, transfer=NAME, wake="x", outcome="exit", exit_status="7")
    assert (7, [closed], closed) == (
        status,
        told(tmp_path),
        decode_transfer_message((tmp_path / "closed").read_bytes()),
    )


@pytest.mark.parametrize(
    "verdict",
    [
        TransferMessage(outcome="exit", exit_status="99"),
        TransferMessage(outcome="exit", exit_status="100"),
        TransferMessage(outcome="exit"),
        TransferMessage(outcome="exit", exit_status="1; true"),
        TransferMessage(outcome="signal", signal="9"),
        TransferMessage(outcome="error", reason="why=exit"),
        TransferMessage(outcome="requeue"),
    ],
    ids=repr,
)
def test_the_finish_shell_leaves_every_other_end_to_python(verdict: TransferMessage, tmp_path: Path) -> None:
    assert (end(tmp_path, verdict), told(tmp_path)) == (LEFT_TO_PYTHON, [])


@pytest.mark.parametrize(
    ("note", "wake"), [*((note, "wake") for note in ("intent", "dead", "stage", "warned")), ("", "none/wake")]
)
def test_the_finish_shell_leaves_a_job_with_pending_notes_or_without_spool_to_python(
    note: str, wake: str, tmp_path: Path
) -> None:
    verdict = TransferMessage(outcome="exit", exit_status="0", at="1")

    assert (end(tmp_path, verdict, note, wake), told(tmp_path)) == (LEFT_TO_PYTHON, [])
