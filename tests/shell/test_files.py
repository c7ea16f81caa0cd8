"""Files are replaced atomically and read only if their owner alone can write them; lines of a log are read once."""

import os
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gridbridge.errors import FileWritableByOthers, ParseError, StateError
from gridbridge.model.jobs_and_accounting import AccountingFilePosition
from gridbridge.shell import safe_files
from gridbridge.shell.appended_file_lines import QUIET_S, AppendedLines, read_appended_lines

ME = os.getuid()


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_atomically(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "file"
    for data in (b"long " * 500, b"short", b""):
        safe_files.replace_file_atomically(str(path), data, durable=durable)

        assert path.read_bytes() == data
    assert (os.listdir(tmp_path), path.stat().st_mode & 0o777) == (["file"], 0o644)


def test_the_mode_of_a_replaced_file_ignores_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        safe_files.replace_file_atomically(f"{tmp_path}/file", b"", mode=0o644)
    finally:
        os.umask(before)

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=True)
    (tmp_path / "old").write_bytes(b"old")
    with open(tmp_path / "filler", "wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
def test_a_full_disk_leaves_the_old_file(full_disk: Path) -> None:
    with pytest.raises(StateError, match=r"old: No space left on device"):
        safe_files.replace_file_atomically(f"{full_disk}/old", b"new")

    assert (full_disk / "old").read_bytes() == b"old"
    assert sorted(os.listdir(full_disk)) == ["filler", "old"]
    (full_disk / "filler").unlink()
    safe_files.replace_file_atomically(f"{full_disk}/old", b"new")
    assert (full_disk / "old").read_bytes() == b"new"


def test_replacing_a_file_in_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="No such file or directory"):
        safe_files.replace_file_atomically(f"{tmp_path}/none/file", b"")


TRICKS = {
    "a link": lambda path: path.with_name("x").write_bytes(b"") or path.symlink_to("x"),
    "a second name": lambda path: path.write_bytes(b"") or os.link(path, path.with_name("x")),
    "a FIFO": os.mkfifo,
    "a folder": os.mkdir,
    "too large": lambda path: path.write_bytes(b"12345"),
    "others may write": lambda path: path.write_bytes(b"") or path.chmod(0o602),
    "its group may write": lambda path: path.write_bytes(b"") or path.chmod(0o620),
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
def test_only_a_regular_file_with_one_link_and_writer_is_read(tmp_path: Path, trick: Callable[[Path], object]) -> None:
    trick(tmp_path / "file")

    with pytest.raises(StateError):
        safe_files.read_file_only_owner_writes(f"{tmp_path}/file", 4)


def test_reading_a_small_file_allocates_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"few")
    tracemalloc.start()
    data, _ = safe_files.read_file_only_owner_writes(str(path), 1 << 29)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert data == b"few"
    assert most < 1 << 20


def test_a_file_of_another_owner_is_refused(tmp_path: Path) -> None:
    safe_files.replace_file_atomically(f"{tmp_path}/file", b"")

    with pytest.raises(StateError, match="owned by uid"):
        safe_files.read_file_only_owner_writes(f"{tmp_path}/file", 4, owner=os.getuid() + 1)


def test_a_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        safe_files.read_file_only_owner_writes(f"{tmp_path}/file", 4)
    safe_files.remove_file(f"{tmp_path}/file")


def test_lines_keep_their_ends_and_lose_the_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n\xef\xbb\xbftwo")
    with path.open("rb") as file:
        found = list(safe_files.iterate_bounded_lines(file, str(path)))

    assert found == [b"one\r\n", b"\n", b"\xef\xbb\xbftwo"]


def test_an_overlong_line_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "some"
    path.write_bytes(b"one\n" + bytes(safe_files.LONGEST + 1))

    with (
        path.open("rb") as file,
        pytest.raises(ParseError, match=f"{path}:2: more than 1048576 bytes; expected a file"),
    ):
        list(safe_files.iterate_bounded_lines(file, str(path)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "etc/bridge").mkdir(parents=True)
    path = tmp_path / "etc/bridge/file"
    path.write_text("")
    path.chmod(0o644)
    return path


def doubts(path: Path) -> list[str]:
    found = safe_files.write_risks_along_path(str(path), ME)
    return [wrong.replace(f"{path.parents[2]}/", "") for wrong, _ in found]


def test_a_file_that_only_its_owner_can_change_is_trusted(path: Path) -> None:
    assert doubts(path) == []
    safe_files.require_trusted_path(str(path), owner=ME)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666], ids=["group", "others", "both"])
def test_a_file_that_others_may_write_is_not_trusted(path: Path, mode: int) -> None:
    path.chmod(mode)

    assert doubts(path) == [f"etc/bridge/file has mode {mode:04o}"]


def test_a_file_below_a_writable_folder_is_not_trusted(path: Path) -> None:
    path.parent.chmod(0o775)
    path.parents[1].chmod(0o757)

    assert doubts(path) == ["etc has mode 0757", "etc/bridge has mode 0775"]


def test_a_sticky_folder_is_trusted_above_a_file_but_not_itself(path: Path) -> None:
    """Users may add files to a sticky folder, but not rename files of others."""
    path.parent.chmod(0o1777)

    assert doubts(path) == []
    assert doubts(path.parent)[0].endswith("etc/bridge has mode 1777")


def test_a_symlink_is_judged_by_the_path_to_its_target(path: Path) -> None:
    link = path.parents[1] / "link"
    link.symlink_to("./bridge/../bridge/file")
    path.parent.chmod(0o777)

    found = [wrong for wrong, _ in safe_files.write_risks_along_path(str(link), ME)]
    assert set(found) == {f"{path.parent} has mode 0777"}


def test_a_symlink_loop_is_an_error(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)

    with pytest.raises(OSError, match="Too many levels"):
        safe_files.require_trusted_path(str(path), owner=ME)


def test_correcting_commands_form_one_shell_line(path: Path) -> None:
    odd = path.rename(path.parent / "a file's")
    odd.chmod(0o646)
    path.parent.chmod(0o757)

    with pytest.raises(FileWritableByOthers) as refused:
        safe_files.require_trusted_path(str(odd), owner=ME)
    quoted = str(odd).replace("'", "'\\''")
    assert refused.value.mend == f"chmod go-w {path.parent} && chmod go-w '{quoted}'"
    assert str(refused.value).endswith(f"Check the file, then run: {refused.value.mend}")
    assert "\n" not in str(refused.value)


def test_an_open_file_is_judged_by_its_descriptor(path: Path, tmp_path: Path) -> None:
    """Another file may replace the path meanwhile."""
    other = tmp_path / "other"
    other.write_text("")
    other.chmod(0o666)

    with other.open() as opened, pytest.raises(FileWritableByOthers):
        safe_files.require_trusted_path(str(path), opened.fileno(), ME)


@pytest.mark.root
def test_a_file_or_symlink_of_another_owner_is_not_trusted(path: Path) -> None:
    link = path.parent / "link"
    link.symlink_to("file")
    os.lchown(link, 1, 1)
    os.chown(path, 1, 1)

    assert [mend.split()[:-1] for _, mend in safe_files.write_risks_along_path(str(link))] == [
        ["chown", "-h", "root"],
        ["chown", "root"],
    ]


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
