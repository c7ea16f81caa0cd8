"""Lines of a growing file are read once each, across rotation and truncation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gridbridge.errors import StateError
from gridbridge.model.jobs_and_accounting import AccountingFilePosition
from gridbridge.shell.appended_file_lines import QUIET_S, AppendedLines, read_appended_lines

NOBODY = 65534


class Log:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "accounting"
        self.place = AccountingFilePosition()
        self.path.touch()

    def append(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def rename(self, suffix: str, age_s: float = 2 * QUIET_S) -> Path:
        """Rotate the file as logrotate does; the next line creates the new file."""
        old = self.path.rename(f"{self.path}{suffix}")
        changed_s = old.stat().st_mtime - age_s
        os.utime(old, (changed_s, changed_s))
        return old

    def step(self, most: int = 1 << 20) -> AppendedLines:
        step = read_appended_lines(str(self.path), self.place, self.now(), most)
        self.place = step.place
        return step

    def now(self) -> float:
        """Return the time of the host that has the disk."""
        beside = self.path.parent / "now"
        beside.write_text("")
        return beside.stat().st_mtime

    def read(self, most: int = 1 << 20) -> str:
        lines = []
        while (step := self.step(most)).lines or step.is_more:
            lines.append(step.lines)
        return b"".join(lines).decode()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def test_each_appended_line_is_read_once(log: Log) -> None:
    log.append("1\n2\n")

    assert (log.read(), log.read()) == ("1\n2\n", "")
    log.append("3\n")
    assert log.read() == "3\n"


def test_an_incomplete_line_is_read_after_its_end(log: Log) -> None:
    log.append("1\n2")

    assert log.read() == "1\n"
    log.append("2\n")
    assert log.read() == "22\n"


def test_a_long_file_is_read_in_steps(log: Log) -> None:
    text = "".join(f"{number}\n" for number in range(1000))
    log.append(text)

    first = log.step(100)

    assert first.is_more
    assert first.lines.decode() + log.read(100) == text


def test_late_lines_in_a_rotated_file_are_read(log: Log) -> None:
    log.append("1\n")
    log.read()
    old = log.rename(".1", age_s=0)
    log.append("3\n")

    assert log.read() == ""
    with old.open("a") as late:
        late.write("2\n")
    assert log.read() == "2\n"
    os.utime(old, (0, 0))
    assert log.read() == "3\n"


def test_several_rotations_between_two_reads_lose_no_line(log: Log) -> None:
    log.append("1\n")
    log.read()
    log.append("2\n")
    log.rename(".2", age_s=300)
    log.append("3\n")
    log.rename(".1", age_s=200)
    log.append("4\n")

    assert log.read() == "2\n3\n4\n"


def test_a_file_rotated_by_copytruncate_is_read_to_its_end(log: Log) -> None:
    log.append("1\n")
    log.read()
    log.append("2\n")
    copy = log.path.with_name("accounting.1")
    copy.write_bytes(log.path.read_bytes())
    os.utime(copy, (0, 0))
    log.path.write_text("")
    log.append("3\n")

    assert log.read() == "2\n3\n"


def test_a_missing_file_during_rotation_is_no_error(log: Log) -> None:
    log.append("1\n")
    log.read()
    log.append("2\n")
    log.rename(".1", age_s=0)

    assert (log.read(), log.read()) == ("2\n", "")


@pytest.mark.parametrize("grown", ["", "7\n" * 100], ids=["shorter", "longer than before"])
def test_a_truncated_file_is_read_from_its_start_with_a_warning(log: Log, grown: str) -> None:
    log.append("1\n" * 50)
    log.read()
    log.path.write_text(f"9\n{grown}")

    step = log.step()

    assert step.lines.decode() == f"9\n{grown}"
    assert step.lost.startswith(f"{log.path}: the file was cut short or replaced")


def test_an_overlong_line_is_skipped(log: Log) -> None:
    log.append("x" * 300)
    log.append("\n1\n")

    assert log.read(100).endswith("1\n")


def test_a_compressed_rotated_file_is_reported_as_lost(log: Log) -> None:
    log.append("1\n")
    log.read()
    log.rename(".1").rename(f"{log.path}.1.gz")
    log.path.with_name("accounting.1.gz").write_bytes(b"\x1f\x8b")
    log.append("2\n")

    step = log.step()

    assert (step.lines, bool(step.lost)) == (b"2\n", True)


def test_an_unreadable_neighbour_file_does_not_hide_the_rotated_file() -> None:
    with TemporaryDirectory() as place:
        log = Log(Path(place))
        log.append("1\n")
        log.read()
        (log.path.parent / "now").unlink()
        log.path.with_name("accounting.0-save").touch(mode=0o000)
        log.rename(".1")
        log.append("2\n")
        with _rights(log.path.parent):
            found = log.read()

    assert found == "2\n"


@contextmanager
def _rights(folder: Path) -> Iterator[None]:
    if os.geteuid():
        yield
        return
    for place in (folder, *folder.iterdir()):
        os.chown(place, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("path", ["missing/accounting", "."], ids=["missing", "a folder"])
def test_an_unreadable_log_is_an_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(StateError, match=str(tmp_path)):
        read_appended_lines(f"{tmp_path}/{path}", AccountingFilePosition(), 0.0)
