"""The inbox returns each message once, serves users fairly, and tolerates any other file in the spool."""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import StateError
from gridbridge.model.transfer_messages_in_spool import (
    MAX_BYTES,
    TransferMessage,
    TransferMessageKind,
    encode_transfer_message,
)
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import spool
from gridbridge.state.spool_inbox import StarterMessageInbox

HOUR_S = 3600
DAY_S = 24 * HOUR_S


def message(at: str = "1767225600.000", **values: str) -> TransferMessage:
    return TransferMessage(**({"kind": TransferMessageKind.RECORD, "transfer": "gb.alpha.7.0.1", "at": at} | values))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wake").mkdir()
    return tmp_path


@pytest.fixture
def inbox(folder: Path) -> StarterMessageInbox:
    return inbox_later(folder, 0)


def inbox_later(folder: Path, seconds: int, limit: int = 10, **more: int) -> StarterMessageInbox:
    return StarterMessageInbox(str(folder), limit, Clock(lambda: time.time() + seconds), **more)


def send(folder: Path, **values: str) -> str:
    return spool.send_spool_message(message(**values), str(folder))


def test_a_service_process_returns_each_message_once_and_leaves_the_file(
    folder: Path, inbox: StarterMessageInbox
) -> None:
    """The file proves the owner of a transfer until the transfer ends.

    A new process returns all messages again.
    """
    path = send(folder)
    [letter] = inbox.read_new_messages()

    assert (letter.path, letter.uid, letter.message) == (path, os.getuid(), message())
    assert inbox.read_new_messages() == ()
    assert os.path.exists(path)
    assert len(inbox_later(folder, 0).read_new_messages()) == 1


@pytest.mark.parametrize("is_removed", [False, True], ids=["read", "removed as processed"])
def test_a_message_that_its_sender_replaced_is_returned_again(
    folder: Path, inbox: StarterMessageInbox, is_removed: bool
) -> None:
    """The service removes only the version of the message that it has processed."""
    path = send(folder)
    [letter] = inbox.read_new_messages()
    safe_files.replace_file_atomically(path, encode_transfer_message(message(phase="held")))
    if is_removed:
        inbox.remove_stored_message(letter.path)

    assert [letter.message.phase for letter in inbox.read_new_messages()] == ["held"]


def test_processed_messages_and_empty_folders_are_removed(folder: Path, inbox: StarterMessageInbox) -> None:
    send(folder)
    (folder / "m.empty").mkdir()
    [letter] = inbox.read_new_messages()
    inbox.remove_stored_message(letter.path)
    inbox.remove_stored_message(letter.path)  # the second removal finds no file

    assert os.listdir(folder) == ["wake"]


def test_messages_are_sorted_by_their_times_or_else_by_the_times_of_their_files(
    folder: Path, inbox: StarterMessageInbox
) -> None:
    for at in ("10", "9.5", "100"):
        send(folder, at=at)
    path = folder / "m.1"
    path.write_bytes(encode_transfer_message(message(at="")))
    os.utime(path, (12.5, 12.5))

    assert [letter.message.at for letter in inbox.read_new_messages()] == ["9.5", "10", "12.500", "100"]


def test_one_scan_reads_at_most_200_messages_of_one_user(folder: Path) -> None:
    for _ in range(300):
        safe_files.replace_file_atomically(
            f"{folder}/{safe_files.random_file_name('m.')}", encode_transfer_message(message()), durable=False
        )
    inbox = inbox_later(folder, 0, limit=1000)

    assert [len(inbox.read_new_messages()) for _ in range(3)] == [200, 100, 0]


def test_a_users_newest_messages_beyond_the_limit_are_removed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for second in range(5):
        os.utime(send(folder, at=str(second)), (second + 1, second + 1))
    inbox = inbox_later(folder, 0, limit=3)

    assert [letter.message.at for letter in inbox.read_new_messages()] == ["0", "1", "2"]
    assert len(os.listdir(folder)) == 3 + len(["wake"])
    assert caplog.messages == [f"event=too_many_messages uid={os.getuid()} files=5 limit=3 removed=2"]


def test_messages_with_forged_old_times_do_not_exceed_the_users_limit(folder: Path) -> None:
    inbox = inbox_later(folder, 0, limit=3)
    for second in range(100, 0, -1):
        os.utime(send(folder), (second, second))
        inbox.read_new_messages()

    assert len(os.listdir(folder)) == 3 + len(["wake"])


def test_unfinished_messages_are_removed_after_an_hour(folder: Path, inbox: StarterMessageInbox) -> None:
    (folder / ".half").write_bytes(b"kind=rec")

    assert inbox.read_new_messages() == ()
    assert (folder / ".half").exists()
    inbox_later(folder, HOUR_S + 1).read_new_messages()
    assert not (folder / ".half").exists()


def write_in_place(folder: Path, data: bytes) -> Path:
    path = folder / "w.1"
    path.write_bytes(data)
    return path


def test_a_message_written_in_place_is_read_once_the_message_is_complete(
    folder: Path, inbox: StarterMessageInbox
) -> None:
    told = message(kind=TransferMessageKind.ENDED)
    whole = encode_transfer_message(told) + b"\n"
    for length in range(len(whole)):
        write_in_place(folder, whole[:length])
        assert inbox.read_new_messages() == ()

    path = write_in_place(folder, whole)
    [letter] = inbox.read_new_messages()
    assert (letter.path, letter.message, inbox.read_new_messages()) == (str(path), told, ())


@pytest.mark.parametrize("end", [b"", b"\n", b"x\n", b"\nx", b"\n\nx"], ids=repr)
def test_a_message_whose_writer_died_is_removed_after_an_hour(folder: Path, end: bytes) -> None:
    path = write_in_place(folder, encode_transfer_message(message(kind=TransferMessageKind.ENDED))[:-1] + end)

    assert inbox_later(folder, HOUR_S + 1).read_new_messages() == ()
    assert not path.exists()


def test_hundreds_of_unfinished_messages_do_not_delay_a_complete_message(folder: Path) -> None:
    for number in range(300):
        (folder / f"w.{number}").write_bytes(b"kind=ended\n" if number % 2 else b"")
    inbox = inbox_later(folder, 0, limit=1000)
    inbox.read_new_messages()
    inbox.read_new_messages()
    path = send(folder)

    assert [letter.path for letter in inbox.read_new_messages()] == [path]


def test_a_record_under_the_file_name_of_a_shells_message_is_removed(folder: Path, inbox: StarterMessageInbox) -> None:
    """gridbridge-as-user accepts no record with such a file name."""
    path = write_in_place(folder, encode_transfer_message(message()) + b"\n")

    assert inbox.read_new_messages() == ()
    assert not path.exists()


def make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def make_hard_links(path: Path) -> None:
    path.write_bytes(encode_transfer_message(message()))
    os.link(path, path.with_name("m.other"))


BROKEN = {
    "empty": lambda path: path.write_bytes(b""),
    "no message": lambda path: path.write_bytes(b"\xff\0\n"),
    "cut": lambda path: path.write_bytes(encode_transfer_message(message())[:-1]),
    "too long": lambda path: path.write_bytes(encode_transfer_message(message(reason="x" * MAX_BYTES))),
    "bad transfer": lambda path: path.write_bytes(encode_transfer_message(message(transfer="gb.alpha.7"))),
    "superfluous zeros": lambda path: path.write_bytes(encode_transfer_message(message(transfer="gb.alpha.07.0.1"))),
    "not a number": lambda path: path.write_bytes(encode_transfer_message(message(at="nan"))),
    "after the calendar": lambda path: path.write_bytes(encode_transfer_message(message(at="1e300"))),
    "symbolic link": lambda path: path.symlink_to("/etc/passwd"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "hard links": make_hard_links,
    "FIFO": os.mkfifo,
    "socket": lambda path: os.mknod(path, 0o140666),
    "huge": lambda path: path.write_bytes(b"x" * 50_000_000),
    "sparse": make_sparse,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN.keys())
def test_a_file_that_is_no_message_is_removed_and_logged_once(
    folder: Path, inbox: StarterMessageInbox, caplog: pytest.LogCaptureFixture, make: Callable[[Path], object]
) -> None:
    make(folder / "m.broken")
    good = send(folder)

    assert [good] == [letter.path for letter in inbox.read_new_messages()]
    assert inbox.read_new_messages() == ()
    assert sorted(os.listdir(folder)) == sorted([os.path.basename(good), "wake"])
    assert sum("name='m.broken'" in line for line in caplog.messages) == 1
    assert all(line.startswith("event=no_message ") for line in caplog.messages)
    assert os.path.exists("/etc/passwd")


def test_a_folder_with_files_stays_in_the_spool_and_is_logged_once(
    folder: Path, inbox: StarterMessageInbox, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "m.full" / "in").mkdir(parents=True)
    for number in range(3):
        inbox.read_new_messages()
        (folder / "m.full" / f"more{number}").touch()

    assert caplog.messages == [f"event=full_folders new=1 all=1 uids={os.getuid()}"]


def test_folders_in_the_spool_are_not_examined_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may make a hundred thousand folders, which only this user or root can remove."""
    for number in range(20):
        (folder / f"m.{number}" / "in").mkdir(parents=True)
    path = send(folder)
    inbox = inbox_later(folder, 0, limit=2)
    letters = [letter.path for letter in inbox.read_new_messages()]
    looked: list[object] = []
    for name in ("rmdir", "lstat", "unlink"):
        monkeypatch.setattr(os, name, looked.append)
    inbox.read_new_messages()

    assert (letters, looked) == ([path], [])


def test_a_file_name_can_not_forge_a_log_line(
    folder: Path, inbox: StarterMessageInbox, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "m.\nevent=login\udcff").touch()
    inbox.read_new_messages()

    [line] = caplog.messages
    assert "\n" not in line
    assert line.isascii()


def test_an_error_of_the_service_itself_removes_no_message(
    folder: Path, inbox: StarterMessageInbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service without free file descriptors must not treat messages as invalid."""
    send(folder)

    def no_descriptors(*_: object) -> None:
        raise StateError("open") from OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(safe_files, "read_file_only_owner_writes", no_descriptors)
        assert inbox.read_new_messages() == ()

    assert "removed=no" in caplog.text
    assert len(inbox.read_new_messages()) == 1


def test_a_message_that_disappears_during_a_scan_is_not_logged(
    folder: Path, inbox: StarterMessageInbox, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = send(folder)
    read = safe_files.read_file_only_owner_writes

    def vanish(*arguments: object) -> object:
        safe_files.remove_file(path)
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(safe_files, "read_file_only_owner_writes", vanish)

    assert inbox.read_new_messages() == ()
    assert caplog.messages == []


def test_a_missing_spool_folder_is_an_error() -> None:
    with pytest.raises(StateError, match="/nowhere: No such file"):
        StarterMessageInbox("/nowhere", 10, Clock()).read_new_messages()


def test_fifos_that_belong_to_no_transfer_are_removed_after_a_day(folder: Path, inbox: StarterMessageInbox) -> None:
    known, _ = (spool.create_starter_wake_fifo(str(folder)) for _ in range(2))

    assert inbox.remove_old_fifos(frozenset()) == 0
    assert inbox_later(folder, DAY_S + 1).remove_old_fifos(frozenset({known})) == 1
    assert os.listdir(folder / "wake") == [known]


def test_a_sweep_examines_a_limited_number_of_fifos(folder: Path) -> None:
    for _ in range(7):
        spool.create_starter_wake_fifo(str(folder))
    inbox = inbox_later(folder, DAY_S + 1, fifos_a_scan=3)

    for removed, is_amid in ((3, True), (3, True), (1, False)):
        assert [inbox.remove_old_fifos(frozenset()), inbox.is_fifo_sweep_unfinished] == [removed, is_amid]
    spool.create_starter_wake_fifo(str(folder))
    assert inbox.remove_old_fifos(frozenset()) == 1


def test_a_symbolic_link_in_place_of_the_folder_of_fifos_is_refused(folder: Path, inbox: StarterMessageInbox) -> None:
    (folder / "wake").rmdir()
    (folder / "wake").symlink_to(folder)

    with pytest.raises(StateError, match="not a folder of the service account"):
        inbox.remove_old_fifos(frozenset())


@given(st.binary(max_size=200))
def test_a_message_of_arbitrary_bytes_stops_no_scan(content: bytes) -> None:
    logging.getLogger("gridbridge.state.spool_inbox").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m.any").write_bytes(content)

        assert StarterMessageInbox(folder, 10, Clock()).read_new_messages() == ()


def test_the_spools_mark_keeps_its_time_and_is_replaced_only_after_a_deletion(
    folder: Path, inbox: StarterMessageInbox
) -> None:
    """A new mark tells starters that their records may have been deleted."""
    mark, seen = folder / spool.MARK, []
    for change in (lambda: None, lambda: None, mark.unlink):
        change()
        assert inbox.read_new_messages() == ()
        inbox.restore_spool_loss_mark()
        seen.append(mark.stat().st_ino)
        os.utime(mark, (1e9, 1e9)) if len(seen) == 1 else None

    assert seen[0] == seen[1]
    assert mark.stat().st_mtime > 1e9


@pytest.mark.parametrize("whose", [os.geteuid(), 12345], ids=["ours", "another's"])
def test_a_mark_with_a_future_time_or_another_owner_is_replaced(
    folder: Path, inbox: StarterMessageInbox, whose: int
) -> None:
    """With a future time, starters would send their records again every minute."""
    if whose != os.geteuid() != 0:
        pytest.skip("only root gives a file to another")
    mark = folder / spool.MARK
    mark.touch()
    os.utime(mark, (time.time() + (HOUR_S if whose == os.geteuid() else -HOUR_S),) * 2)
    os.chown(mark, whose, -1)
    inbox.read_new_messages()
    inbox.restore_spool_loss_mark()

    age_s = time.time() - mark.stat().st_mtime
    assert (mark.stat().st_uid, -1 < age_s < HOUR_S / 2) == (os.geteuid(), True)
