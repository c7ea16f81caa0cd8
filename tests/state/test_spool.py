"""Messages to the spool, and the FIFOs on which starters wait."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gridbridge.model.transfer_messages_in_spool import TransferMessage, TransferMessageKind, decode_transfer_message
from gridbridge.state import spool

MESSAGE = TransferMessage(kind=TransferMessageKind.INTENT, transfer="gb.alpha.7.0.1", at="1")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "wake").mkdir()
    return str(tmp_path)


@pytest.fixture
def asleep(folder: str) -> Iterator[tuple[str, int]]:
    """Wait on a FIFO as the starter does; yield the FIFO's name and the open file descriptor."""
    name = spool.create_starter_wake_fifo(folder)
    end = os.open(f"{folder}/wake/{name}", os.O_RDWR | os.O_NONBLOCK)
    yield name, end
    os.close(end)


def test_each_message_is_a_complete_file_with_a_unique_name(folder: str) -> None:
    paths = {spool.send_spool_message(MESSAGE, folder) for _ in range(3)}

    assert len(paths) == 3
    assert all(decode_transfer_message(Path(path).read_bytes()) == MESSAGE for path in paths)
    assert all(os.path.basename(path).startswith("m.") for path in paths)


def test_a_waiting_starter_is_woken_by_one_byte_without_blocking(folder: str, asleep: tuple[str, int]) -> None:
    name, end = asleep

    assert spool.is_starter_asleep(name, os.getuid(), folder)
    assert spool.wake_starter(name, folder)
    assert os.read(end, 10) == b"\n"
    with suppress(BlockingIOError):
        while os.write(end, b"x" * 65536):
            pass
    assert spool.wake_starter(name, folder)  # the FIFO is full


def test_a_fifo_of_another_user_is_not_written(folder: str, asleep: tuple[str, int]) -> None:
    name, end = asleep

    assert not spool.is_starter_asleep(name, os.getuid() + 1, folder)
    assert not spool.wake_starter(name, folder, owner=os.getuid() + 1)
    with pytest.raises(BlockingIOError):
        os.read(end, 1)


SQUATS = {
    "nothing": lambda path: None,
    "nobody reads": os.mkfifo,
    "a file": lambda path: Path(path).touch(),
    "a folder": os.mkdir,
    "a link": lambda path: os.symlink("/dev/null", path),
}


@pytest.mark.parametrize("squat", SQUATS.values(), ids=SQUATS.keys())
def test_a_path_that_is_no_fifo_with_a_reader_means_that_no_starter_waits(
    folder: str, squat: Callable[[str], object]
) -> None:
    squat(f"{folder}/wake/f0")

    assert not spool.is_starter_asleep("f0", os.getuid(), folder)
    assert not spool.wake_starter("f0", folder)
    spool.remove_starter_wake_fifo("f0", folder)


@pytest.mark.parametrize("name", ["", "../wake", "a/b", ".", "x" * 5000])
def test_an_invalid_name_of_a_fifo_opens_no_file(folder: str, name: str) -> None:
    assert not spool.wake_starter(name, folder)
    assert not spool.is_starter_asleep(name, os.getuid(), folder)
    spool.remove_starter_wake_fifo(name, folder)


def test_a_removed_fifo_can_be_removed_again(folder: str) -> None:
    name = spool.create_starter_wake_fifo(folder)
    spool.remove_starter_wake_fifo(name, folder)
    spool.remove_starter_wake_fifo(name, folder)

    assert os.listdir(f"{folder}/wake") == []
