"""In a spool with very many files, each scan of the inbox examines some files, and no message is missed."""

import os
from pathlib import Path

import pytest

from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind
from gridbridge.shell.clock import Clock
from gridbridge.state import spool, spool_reader
from gridbridge.state import spool_inbox as inboxes
from gridbridge.state.spool_inbox import StarterMessageInbox

MOST = 5
BOB = 12345
root_alone = pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a spool, of which each scan examines five files."""
    monkeypatch.setattr(inboxes, "NAMES_A_SCAN", MOST)
    (tmp_path / "wake").mkdir()
    return tmp_path


def send(folder: Path, count: int, uid: int = -1) -> list[str]:
    message = TransferMessage(kind=TransferMessageKind.RECORD, transfer="gb.alpha.7.0.1", at="1767225600.000")
    paths = [spool.send_spool_message(message, str(folder)) for _ in range(count)]
    for path in paths:
        os.chown(path, uid, -1)
    return paths


def test_scans_examine_five_files_each_and_return_every_message_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = send(folder, 22)
    looks: list[str] = []
    look = spool_reader.read_spool_file_facts

    def counted(entry: "os.DirEntry[str]") -> object:
        looks.append(entry.name)
        return look(entry)

    monkeypatch.setattr(spool_reader, "read_spool_file_facts", counted)
    inbox = StarterMessageInbox(str(folder), 100, Clock())
    read = []
    for scan in range(1, 16):
        read += [letter.path for letter in inbox.read_new_messages()]
        assert len(looks) <= MOST * scan

    assert sorted(read) == sorted(sent)


def test_the_limit_of_messages_per_user_counts_over_all_scans_of_the_folder(folder: Path) -> None:
    send(folder, 22)
    inbox = StarterMessageInbox(str(folder), 7, Clock())
    read = [letter.path for _ in range(15) for letter in inbox.read_new_messages()]

    assert len(read) == 7
    assert sorted(os.listdir(folder)) == sorted([*map(os.path.basename, read), "wake"])


@root_alone
def test_a_message_is_found_within_one_pass_despite_another_users_many_messages(folder: Path) -> None:
    send(folder, 40, BOB)
    hers = send(folder, 3)
    inbox = StarterMessageInbox(str(folder), 4, Clock())
    read = [letter for _ in range(44 // MOST + 1) for letter in inbox.read_new_messages()]

    assert sorted(letter.path for letter in read if letter.uid != BOB) == sorted(hers)


def test_a_message_that_arrives_during_a_pass_is_found_by_the_end_of_the_next_pass(folder: Path) -> None:
    send(folder, 22)
    inbox = StarterMessageInbox(str(folder), 100, Clock())
    inbox.read_new_messages()
    (late,) = send(folder, 1)
    read = [letter.path for _ in range(2 * 25 // MOST) for letter in inbox.read_new_messages()]

    assert read.count(late) == 1


def test_the_inbox_tries_to_remove_each_folder_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(12):
        (folder / f"m.{number}" / "in").mkdir(parents=True)
    inbox = StarterMessageInbox(str(folder), 100, Clock())
    for _ in range(12):
        inbox.read_new_messages()

    assert sum("event=full_folders" in line for line in caplog.messages) <= 12 // MOST + 1
