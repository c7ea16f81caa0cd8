"""No user alters, deletes, forges or delays another user's message."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gridbridge.errors import StateError
from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind, encode_transfer_message
from gridbridge.shell import safe_files
from gridbridge.shell.clock import Clock
from gridbridge.state import spool
from gridbridge.state.spool_inbox import NAMES_A_SCAN, StarterMessageInbox
from tests.state_files import Acting, AsUser

SERVICE, ALICE, MALLORY = 10000, 10001, 10002
MESSAGE = TransferMessage(kind=TransferMessageKind.RECORD, transfer="gb.alpha.7.0.1", at="1767225600.000")
FORGED = MESSAGE.with_changes(reason="forged")
FLOOD = 100_000
SCANS = FLOOD // NAMES_A_SCAN + 1  # number of scans that examine all files

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(500),
    pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users"),
]


def overwrite(path: str) -> None:
    with open(path, "r+b") as file:
        file.write(encode_transfer_message(FORGED))


def rename_over(path: str) -> None:
    own = f"{os.path.dirname(path)}/.own"
    safe_files.replace_file_atomically(own, encode_transfer_message(FORGED))
    os.rename(own, path)


def create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


ATTACKS = {
    "overwrite": overwrite,
    "truncate": lambda path: os.truncate(path, 0),
    "delete": os.unlink,
    "rename": lambda path: os.rename(path, path + "x"),
    "rename over it": rename_over,
    "squat its name": create,
    "link over it": lambda path: os.symlink("/dev/null", path),
    "make it writable": lambda path: os.chmod(path, 0o666),
    "change its time": lambda path: os.utime(path, (0, 0)),
    "list the spool": lambda path: os.listdir(os.path.dirname(path)),
    "list the FIFOs": lambda path: os.listdir(f"{os.path.dirname(path)}/wake"),
    "replace the FIFOs' folder": lambda path: os.rename(f"{os.path.dirname(path)}/wake", "x"),
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_user_can_not_change_or_remove_another_users_message(
    spool_folder: Path, as_user: AsUser, acting_as: Acting, attack: Callable[[str], object]
) -> None:
    """The attacker knows the name of the message file."""
    path = as_user(ALICE, lambda: spool.send_spool_message(MESSAGE, str(spool_folder)))

    with pytest.raises(OSError, match=r"Operation|Permission|File exists"):
        as_user(MALLORY, lambda: attack(path))
    with acting_as(SERVICE):
        letters = [
            one for one in StarterMessageInbox(str(spool_folder), 10, Clock()).read_new_messages() if one.uid == ALICE
        ]
    assert [(one.path, one.message) for one in letters] == [(path, MESSAGE)]


def test_the_owner_of_the_file_is_the_sender_regardless_of_the_messages_content(
    spool_folder: Path, as_user: AsUser, acting_as: Acting
) -> None:
    as_user(MALLORY, lambda: spool.send_spool_message(MESSAGE, str(spool_folder)))

    with acting_as(SERVICE):
        assert [one.uid for one in StarterMessageInbox(str(spool_folder), 10, Clock()).read_new_messages()] == [MALLORY]


def test_a_hard_link_to_another_users_file_is_not_read_as_a_message(
    spool_folder: Path, as_user: AsUser, acting_as: Acting
) -> None:
    """The test also runs with a kernel that allows such links: fs.protected_hardlinks (proc(5)) is 0.

    The setting belongs to the whole host. One test tries both values, because parallel tests would undo each
    other's change.
    """
    links = [spool_folder / f"m.link{number}" for number in range(250)]  # more files than one scan reads
    switch = Path("/proc/sys/fs/protected_hardlinks")
    before = switch.read_text()
    for protected in ("0", "1"):
        note = as_user(ALICE, lambda: keep_note(spool_folder))
        try:
            switch.write_text(protected)
            as_user(MALLORY, lambda source=note: [try_to_link(source, link) for link in links])
            os.unlink(note)
        finally:
            switch.write_text(before)

        with acting_as(SERVICE):
            inbox = StarterMessageInbox(str(spool_folder), 1000, Clock())
            assert [inbox.read_new_messages() for _ in range(3)] == [()] * 3
        assert os.listdir(spool_folder) == ["wake"]


def keep_note(folder: Path) -> str:
    """Write a file with a message's content beside the spool, in a sticky folder like /tmp."""
    path = f"{folder}/wake/note"
    safe_files.replace_file_atomically(path, encode_transfer_message(MESSAGE))
    return path


def try_to_link(source: str, path: Path) -> None:
    try:
        os.link(source, path)
    except PermissionError:
        return


def test_a_symbolic_link_to_another_users_file_is_not_read_as_a_message(
    spool_folder: Path, as_user: AsUser, acting_as: Acting
) -> None:
    note = as_user(ALICE, lambda: keep_note(spool_folder))
    as_user(MALLORY, lambda: os.symlink(note, spool_folder / "m.link"))

    with acting_as(SERVICE):
        assert StarterMessageInbox(str(spool_folder), 10, Clock()).read_new_messages() == ()
    assert Path(note).exists()
    assert not (spool_folder / "m.link").is_symlink()


def test_a_message_that_the_service_can_not_open_is_removed(
    spool_folder: Path, as_user: AsUser, acting_as: Acting
) -> None:
    as_user(
        MALLORY,
        lambda: safe_files.replace_file_atomically(f"{spool_folder}/m.0", encode_transfer_message(MESSAGE), mode=0),
    )

    with acting_as(SERVICE):
        assert StarterMessageInbox(str(spool_folder), 10, Clock()).read_new_messages() == ()
    assert os.listdir(spool_folder) == ["wake"]


def test_messages_of_two_users_are_returned_alternately(spool_folder: Path, as_user: AsUser, acting_as: Acting) -> None:
    for at in ("1", "2", "3"):
        as_user(MALLORY, lambda at=at: spool.send_spool_message(MESSAGE.with_changes(at=at), str(spool_folder)))
    for at in ("8", "9"):
        as_user(ALICE, lambda at=at: spool.send_spool_message(MESSAGE.with_changes(at=at), str(spool_folder)))

    with acting_as(SERVICE):
        letters = StarterMessageInbox(str(spool_folder), 10, Clock()).read_new_messages()
    assert [one.message.at for one in letters] == ["1", "8", "2", "9", "3"]


def test_one_users_100_000_messages_do_not_delay_another_users_messages(
    spool_folder: Path, as_user: AsUser, acting_as: Acting
) -> None:
    as_user(MALLORY, lambda: flood(spool_folder, FLOOD))
    sent = {as_user(ALICE, lambda: spool.send_spool_message(MESSAGE, str(spool_folder))) for _ in range(10)}
    inbox = StarterMessageInbox(str(spool_folder), 1000, Clock())

    with acting_as(SERVICE):
        scans = [inbox.read_new_messages() for _ in range(SCANS)]
        found = {letter.path for letters in scans for letter in letters if letter.uid == ALICE}
        assert sent == found
        assert max(map(len, scans)) <= 200 + len(sent)
        for _ in range(12 * SCANS):
            inbox.read_new_messages()
    assert len(os.listdir(spool_folder)) == 1000 + len(sent) + len(["wake"])


def flood(folder: Path, count: int) -> None:
    content = encode_transfer_message(MESSAGE)
    for number in range(count):
        end = os.open(f"{folder}/m.{number}", os.O_WRONLY | os.O_CREAT, 0o644)
        os.write(end, content)
        os.close(end)


def test_a_full_spool_refuses_messages_until_the_service_has_read_and_removed_some(
    small_disk: Path, as_user: AsUser, acting_as: Acting
) -> None:
    folder = small_disk / "spool"
    folder.mkdir()
    folder.chmod(0o1733)
    os.chown(folder, SERVICE, SERVICE)
    taken = as_user(ALICE, lambda: send_until_full(str(folder)))
    assert len(os.listdir(folder)) == taken  # the spool contains no incomplete message

    with acting_as(SERVICE):
        inbox = StarterMessageInbox(str(folder), 10_000, Clock())
        letters = [letter for _ in range(taken // 200 + 1) for letter in inbox.read_new_messages()]
        for letter in letters:
            inbox.remove_stored_message(letter.path)
    assert len(letters) == taken
    as_user(ALICE, lambda: spool.send_spool_message(MESSAGE, str(folder)))


def send_until_full(folder: str) -> int:
    count = 0
    while True:
        try:
            spool.send_spool_message(MESSAGE, folder)
        except StateError as error:
            if str(error).endswith("No space left on device"):
                return count
            raise
        count += 1
