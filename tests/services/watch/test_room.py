"""A folder that fills up is noticed, told once, and noticed again when there is room."""

import logging
import os
import re
from pathlib import Path

import pytest

from gridbridge.services.watch.room import LOOK_S, RoomWatch
from gridbridge.shell import host


class Time:
    """A clock that goes on as it is told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def test_a_folder_that_can_not_be_written_is_told_once_and_so_is_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    time, folder = Time(), tmp_path / "spool"
    watch = RoomWatch((str(tmp_path), str(folder)), time)
    told = []
    for change in (lambda: None, lambda: None, folder.mkdir, lambda: None, folder.rmdir):
        change()
        told.append(watch.lacks())
        time.now_s += LOOK_S

    lacking = f"nothing can be written to {folder}: No such file or directory"
    assert told == [lacking, lacking, "", "", lacking]
    events = [re.sub(r" why=.*", "", line) for line in caplog.messages]
    assert events == ["event=full", "event=room_again", "event=full"]


def test_it_is_looked_at_now_and_then_and_nothing_is_left_there(tmp_path: Path) -> None:
    time = Time()
    watch = RoomWatch((str(tmp_path),), time)
    before = watch.lacks()
    tmp_path.chmod(0o755)
    os.rename(tmp_path, f"{tmp_path}.away")
    time.now_s += LOOK_S - 1
    soon = watch.lacks()
    time.now_s += 1
    later = watch.lacks()
    os.rename(f"{tmp_path}.away", tmp_path)

    assert (before, soon, bool(later), os.listdir(tmp_path)) == ("", "", True, [])


def test_a_filesystem_tells_what_is_free(tmp_path: Path) -> None:
    seen = host.room(str(tmp_path))

    assert seen.free_bytes > 0
    assert seen.free_files is None or seen.free_files > 0
    assert host.room(f"{tmp_path}/none").trouble == "No such file or directory"
