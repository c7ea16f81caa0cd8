"""What came of a stream is appended once, wherever a step before was killed."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gridbridge.errors import GridbridgeError
from gridbridge.transfer.starter.file_staging import RemoteStagingFolder, _append_stream_once, _rsync_source_path

CAME = b"line\n" * 40_000  # more than is read at once


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("/data/ref", "/data/./ref"),
        ("/data/ref/.", "/data/./ref"),
        ("/data/./ref//", "/data/./ref"),
        ("ref/.", "/home/a/./ref"),
        ("b//ref", "/home/a/./b/ref"),
    ],
)
def test_an_input_is_taken_from_where_it_lies_however_its_path_is_written(path: str, source: str) -> None:
    assert _rsync_source_path(RemoteStagingFolder(folder="", cwd="/home/a"), path) == source


@pytest.mark.parametrize("done", [0, 1, 65536, 65537, len(CAME)])
def test_a_step_that_was_killed_goes_on_where_it_was(tmp_path: Path, done: int) -> None:
    fetched, target = tmp_path / "stdout", tmp_path / "out"
    fetched.write_bytes(CAME)
    (tmp_path / "stdout.from").write_bytes(b"7")
    target.write_bytes(b"before\n" + CAME[:done])

    _append_stream_once(str(fetched), str(target))

    assert target.read_bytes() == b"before\n" + CAME


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    fetched, target = tmp_path / "stdout", tmp_path / "out"
    fetched.write_bytes(b"line\nmore\n")
    target.write_bytes(b"line\n")

    _append_stream_once(str(fetched), str(target))
    _append_stream_once(str(fetched), str(target))

    assert target.read_bytes() == b"line\nline\nmore\n"


def test_tasks_that_share_a_file_lose_nothing(tmp_path: Path) -> None:
    """All append the same text, at once."""
    target = tmp_path / "out"

    def append(task: int) -> None:
        fetched = tmp_path / f"stdout{task}"
        fetched.write_bytes(b"done\n")
        _append_stream_once(str(fetched), str(target))

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(append, range(40)))

    assert target.read_bytes() == b"done\n" * 40


def test_a_pipe_takes_what_came(tmp_path: Path) -> None:
    fetched, pipe = tmp_path / "stdout", tmp_path / "pipe"
    fetched.write_bytes(b"line\n")
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as threads:
        came = threads.submit(pipe.read_bytes)
        _append_stream_once(str(fetched), str(pipe))

        assert came.result(10) == b"line\n"


def test_nothing_is_lost_when_another_wrote_between(tmp_path: Path) -> None:
    fetched, target = tmp_path / "stdout", tmp_path / "out"
    fetched.write_bytes(b"mine\n")
    (tmp_path / "stdout.from").write_bytes(b"0")
    target.write_bytes(b"mother's\n")

    _append_stream_once(str(fetched), str(target))

    assert target.read_bytes() == b"mother's\nmine\n"


def test_a_file_that_takes_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"line\n")

    with pytest.raises(GridbridgeError, match="No such file"):
        _append_stream_once(str(tmp_path / "stdout"), str(tmp_path / "gone/out"))
