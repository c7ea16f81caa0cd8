"""The inbox returns messages once, fairly, and survives whatever else lies in the spool."""

import logging
import os
import tempfile
import time
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
from gridbridge.state.spool_reader import ResumableFolderScan

HOUR_S = 3600
DAY_S = 24 * HOUR_S


def message(at: str = "1767225600.000", **values: str) -> TransferMessage:
    return TransferMessage(**({"kind": TransferMessageKind.RECORD, "transfer": "gb.alpha.7.0.1", "at": at} | values))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a spool of our own."""
    (tmp_path / "wake").mkdir()
    return tmp_path


def test_a_message_is_returned_with_its_writer(folder: Path) -> None:
    path = spool.send_spool_message(message(), str(folder))

    [letter] = StarterMessageInbox(str(folder), 10, Clock()).read()

    assert (letter.path, letter.uid, letter.message) == (path, os.getuid(), message())


def test_a_message_is_returned_once_and_stays(folder: Path) -> None:
    """It is the proof of who owns a transfer, for as long as that lives."""
    path = spool.send_spool_message(message(), str(folder))
    inbox = StarterMessageInbox(str(folder), 10, Clock())
    inbox.read()

    assert inbox.read() == ()
    assert os.path.exists(path)


def test_a_new_process_is_told_everything_again(folder: Path) -> None:
    spool.send_spool_message(message(), str(folder))
    StarterMessageInbox(str(folder), 10, Clock()).read()

    assert len(StarterMessageInbox(str(folder), 10, Clock()).read()) == 1


def test_a_message_that_was_replaced_is_returned_again(folder: Path) -> None:
    path = spool.send_spool_message(message(), str(folder))
    inbox = StarterMessageInbox(str(folder), 10, Clock())
    inbox.read()
    safe_files.replace_file_atomically(path, encode_transfer_message(message(phase="held")))

    assert [letter.message.phase for letter in inbox.read()] == ["held"]


def test_a_processed_message_is_removed(folder: Path) -> None:
    spool.send_spool_message(message(), str(folder))
    inbox = StarterMessageInbox(str(folder), 10, Clock())
    [letter] = inbox.read()
    inbox.remove(letter.path)
    inbox.remove(letter.path)  # gone already

    assert os.listdir(folder) == ["wake"]


def test_a_newer_message_in_its_place_is_not_removed_with_it(folder: Path) -> None:
    path = spool.send_spool_message(message(), str(folder))
    inbox = StarterMessageInbox(str(folder), 10, Clock())
    [letter] = inbox.read()
    safe_files.replace_file_atomically(path, encode_transfer_message(message(phase="held")))
    inbox.remove(letter.path)

    assert [letter.message.phase for letter in inbox.read()] == ["held"]


def test_messages_come_in_the_order_of_their_times(folder: Path) -> None:
    for at in ("10", "9.5", "100"):
        spool.send_spool_message(message(at=at), str(folder))

    found = StarterMessageInbox(str(folder), 10, Clock()).read()

    assert [one.message.at for one in found] == ["9.5", "10", "100"]


def test_a_message_without_a_time_is_as_old_as_its_file(folder: Path) -> None:
    path = folder / "m.1"
    path.write_bytes(encode_transfer_message(message(at="")))
    os.utime(path, (12.5, 12.5))

    assert [one.message.at for one in StarterMessageInbox(str(folder), 10, Clock()).read()] == ["12.500"]


def test_one_scan_reads_a_limited_number_of_a_uid(folder: Path) -> None:
    for _ in range(300):
        safe_files.replace_file_atomically(
            f"{folder}/{safe_files.random_file_name('m.')}", encode_transfer_message(message()), durable=False
        )
    inbox = StarterMessageInbox(str(folder), 1000, Clock())

    assert [len(inbox.read()) for _ in range(3)] == [200, 100, 0]


def test_the_newest_beyond_the_limit_are_removed(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for second in range(5):
        path = spool.send_spool_message(message(at=str(second)), str(folder))
        os.utime(path, (second + 1, second + 1))
    inbox = StarterMessageInbox(str(folder), 3, Clock())

    assert [letter.message.at for letter in inbox.read()] == ["0", "1", "2"]
    assert len(os.listdir(folder)) == 3 + len(["wake"])
    assert caplog.messages == [f"event=too_many_messages uid={os.getuid()} files=5 limit=3 removed=2"]


def test_files_with_forged_old_times_do_not_pass_the_limit(folder: Path) -> None:
    inbox = StarterMessageInbox(str(folder), 3, Clock())
    for second in range(100, 0, -1):
        os.utime(spool.send_spool_message(message(), str(folder)), (second, second))
        inbox.read()

    assert len(os.listdir(folder)) == 3 + len(["wake"])


def test_unfinished_messages_are_left_for_an_hour(folder: Path) -> None:
    (folder / ".half").write_bytes(b"kind=rec")

    assert StarterMessageInbox(str(folder), 10, Clock()).read() == ()
    assert (folder / ".half").exists()
    StarterMessageInbox(str(folder), 10, Clock(lambda: time.time() + HOUR_S + 1)).read()
    assert not (folder / ".half").exists()


def write_in_place(folder: Path, data: bytes) -> Path:
    path = folder / "w.1"
    path.write_bytes(data)
    return path


def test_a_message_that_is_written_in_place_is_read_when_it_is_whole(folder: Path) -> None:
    """Until then it is neither taken nor refused, wherever its writer is."""
    told = message(kind=TransferMessageKind.ENDED)
    inbox, whole = StarterMessageInbox(str(folder), 10, Clock()), encode_transfer_message(told) + b"\n"
    for length in range(len(whole)):
        write_in_place(folder, whole[:length])
        assert inbox.read() == ()

    path = write_in_place(folder, whole)
    [letter] = inbox.read()
    assert (letter.path, letter.message, inbox.read()) == (str(path), told, ())


@pytest.mark.parametrize("end", [b"", b"\n", b"x\n", b"\nx", b"\n\nx"], ids=repr)
def test_a_message_whose_writer_died_is_removed_in_the_end(folder: Path, end: bytes) -> None:
    path = write_in_place(folder, encode_transfer_message(message(kind=TransferMessageKind.ENDED))[:-1] + end)
    inbox = StarterMessageInbox(str(folder), 10, Clock(lambda: time.time() + HOUR_S + 1))

    assert inbox.read() == ()
    assert not path.exists()


def test_many_that_are_never_finished_delay_nothing(folder: Path) -> None:
    for number in range(300):
        (folder / f"w.{number}").write_bytes(b"kind=ended\n" if number % 2 else b"")
    inbox = StarterMessageInbox(str(folder), 1000, Clock())
    inbox.read()
    inbox.read()
    path = spool.send_spool_message(message(), str(folder))

    assert [letter.path for letter in inbox.read()] == [path]


def test_a_message_that_grew_after_a_look_is_read_again(folder: Path) -> None:
    inbox, whole = (
        StarterMessageInbox(str(folder), 10, Clock()),
        encode_transfer_message(message(kind=TransferMessageKind.CLOSED)) + b"\n",
    )
    path = write_in_place(folder, whole[:20])
    looks = [inbox.read() for _ in range(2)]
    with path.open("ab") as file:
        file.write(whole[20:])

    assert looks == [(), ()]
    assert [letter.message.kind for letter in inbox.read()] == [TransferMessageKind.CLOSED]


def test_a_shell_can_not_send_a_record(folder: Path) -> None:
    """Gridbridge-as-user takes none under such a name."""
    path = write_in_place(folder, encode_transfer_message(message()) + b"\n")

    assert StarterMessageInbox(str(folder), 10, Clock()).read() == ()
    assert not path.exists()


def make_file(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def make_hard_links(path: Path) -> None:
    path.write_bytes(encode_transfer_message(message()))
    os.link(path, path.with_name("m.other"))


def make_socket(path: Path) -> None:
    os.mknod(path, 0o140666)


BROKEN = {
    "empty": lambda path: make_file(path, b""),
    "no message": lambda path: make_file(path, b"\xff\0\n"),
    "cut": lambda path: make_file(path, encode_transfer_message(message())[:-1]),
    "too long": lambda path: make_file(path, encode_transfer_message(message(reason="x" * MAX_BYTES))),
    "bad transfer": lambda path: make_file(path, encode_transfer_message(message(transfer="gb.alpha.7"))),
    "superfluous zeros": lambda path: make_file(path, encode_transfer_message(message(transfer="gb.alpha.07.0.1"))),
    "not a number": lambda path: make_file(path, encode_transfer_message(message(at="nan"))),
    "after the calendar": lambda path: make_file(path, encode_transfer_message(message(at="1e300"))),
    "symbolic link": lambda path: path.symlink_to("/etc/passwd"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "hard links": make_hard_links,
    "FIFO": os.mkfifo,
    "socket": make_socket,
    "huge": lambda path: make_file(path, b"x" * 50_000_000),
    "sparse": make_sparse,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_message_is_removed_and_reported_once(
    folder: Path, caplog: pytest.LogCaptureFixture, make: object
) -> None:
    assert callable(make)
    make(folder / "m.broken")
    good = spool.send_spool_message(message(), str(folder))
    inbox = StarterMessageInbox(str(folder), 10, Clock())

    assert [good] == [letter.path for letter in inbox.read()]
    assert inbox.read() == ()
    assert sorted(os.listdir(folder)) == sorted([os.path.basename(good), "wake"])
    assert sum("name='m.broken'" in line for line in caplog.messages) == 1
    assert all(line.startswith("event=no_message ") for line in caplog.messages)
    assert os.path.exists("/etc/passwd")


def test_a_full_folder_stays_and_is_reported_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "m.full" / "in").mkdir(parents=True)
    inbox = StarterMessageInbox(str(folder), 10, Clock())
    for number in range(3):
        inbox.read()
        (folder / "m.full" / f"more{number}").touch()

    assert caplog.messages == [f"event=full_folders new=1 all=1 uids={os.getuid()}"]


def test_an_empty_folder_is_removed(folder: Path) -> None:
    (folder / "m.empty").mkdir()
    StarterMessageInbox(str(folder), 10, Clock()).read()

    assert os.listdir(folder) == ["wake"]


def test_folders_are_not_looked_at_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be a hundred thousand, which nobody but their owner or root can remove."""
    for number in range(20):
        (folder / f"m.{number}" / "in").mkdir(parents=True)
    path = spool.send_spool_message(message(), str(folder))
    inbox = StarterMessageInbox(str(folder), 2, Clock())
    letters = [letter.path for letter in inbox.read()]
    looked: list[object] = []
    for name in ("rmdir", "lstat", "unlink"):
        monkeypatch.setattr(os, name, looked.append)
    inbox.read()

    assert (letters, looked) == ([path], [])


def test_a_name_cannot_forge_a_log_line(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "m.\nevent=login\udcff").touch()
    StarterMessageInbox(str(folder), 10, Clock()).read()

    [line] = caplog.messages
    assert "\n" not in line
    assert line.isascii()


def test_trouble_of_our_own_removes_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service without file descriptors must not take messages for broken."""
    spool.send_spool_message(message(), str(folder))
    inbox = StarterMessageInbox(str(folder), 10, Clock())

    def no_descriptors(*_: object) -> None:
        raise StateError("open") from OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(safe_files, "read_file_only_owner_writes", no_descriptors)
        assert inbox.read() == ()

    assert "removed=no" in caplog.text
    assert len(inbox.read()) == 1


def test_a_file_that_vanishes_meanwhile_is_no_event(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spool.send_spool_message(message(), str(folder))
    read = safe_files.read_file_only_owner_writes

    def vanish(*arguments: object) -> object:
        safe_files.remove_file(path)
        return read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(safe_files, "read_file_only_owner_writes", vanish)

    assert StarterMessageInbox(str(folder), 10, Clock()).read() == ()
    assert caplog.messages == []


def test_a_spool_that_is_missing_is_an_error() -> None:
    with pytest.raises(StateError, match="/nowhere: No such file"):
        StarterMessageInbox("/nowhere", 10, Clock()).read()


def test_old_fifos_that_nobody_knows_are_removed(folder: Path) -> None:
    known, unknown = (spool.create_starter_wake_fifo(str(folder)) for _ in range(2))
    now, tomorrow = (
        StarterMessageInbox(str(folder), 10, Clock(lambda late=late: time.time() + late)) for late in (0, DAY_S + 1)
    )

    assert now.sweep(frozenset()) == 0
    assert tomorrow.sweep(frozenset({known})) == 1
    assert os.listdir(folder / "wake") == [known]
    assert unknown != known


def test_of_very_many_fifos_some_are_looked_at_in_each_sweep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(7):
        spool.create_starter_wake_fifo(str(folder))
    inbox = StarterMessageInbox(str(folder), 10, Clock(lambda: time.time() + DAY_S + 1))
    monkeypatch.setattr(inbox, "_waking", ResumableFolderScan(3))

    assert [inbox.sweep(frozenset()), inbox.is_amid_sweep] == [3, True]
    assert [inbox.sweep(frozenset()), inbox.is_amid_sweep] == [3, True]
    assert [inbox.sweep(frozenset()), inbox.is_amid_sweep] == [1, False]
    spool.create_starter_wake_fifo(str(folder))
    assert inbox.sweep(frozenset()) == 1


def test_a_link_in_place_of_wake_is_not_followed(folder: Path, tmp_path: Path) -> None:
    (folder / "wake").rmdir()
    (folder / "wake").symlink_to(tmp_path)

    with pytest.raises(StateError, match="not a folder of the service account"):
        StarterMessageInbox(str(folder), 10, Clock()).sweep(frozenset())


@given(st.binary(max_size=200))
def test_any_content_is_survived(content: bytes) -> None:
    logging.getLogger("gridbridge.state.spool_inbox").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "m.any").write_bytes(content)

        assert StarterMessageInbox(folder, 10, Clock()).read() == ()


def test_a_mark_is_as_old_as_the_spool_and_made_anew_where_messages_were_removed(folder: Path) -> None:
    """By it starters see that their records may be gone; it is no message itself."""
    inbox = StarterMessageInbox(str(folder), 10, Clock())
    mark, seen = folder / spool.MARK, []
    for change in (lambda: None, lambda: None, mark.unlink):
        change()
        assert inbox.read() == ()
        inbox.keep_mark()
        seen.append(mark.stat().st_ino)
        os.utime(mark, (1e9, 1e9)) if len(seen) == 1 else None

    assert seen[0] == seen[1]
    assert mark.stat().st_mtime > 1e9


@pytest.mark.parametrize("whose", [os.geteuid(), 12345], ids=["ours", "another's"])
def test_a_mark_from_the_future_or_of_another_is_made_anew(folder: Path, whose: int) -> None:
    """Starters would tell again each minute until that time; nobody else says when they do."""
    if whose != os.geteuid() != 0:
        pytest.skip("only root gives a file to another")
    mark = folder / spool.MARK
    mark.touch()
    os.utime(mark, (time.time() + (HOUR_S if whose == os.geteuid() else -HOUR_S),) * 2)
    os.chown(mark, whose, -1)
    inbox = StarterMessageInbox(str(folder), 10, Clock())
    inbox.read()
    inbox.keep_mark()

    age_s = time.time() - mark.stat().st_mtime
    assert (mark.stat().st_uid, -1 < age_s < HOUR_S / 2) == (os.geteuid(), True)
