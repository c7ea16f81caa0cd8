"""Files are replaced atomically, and read or trusted only if their owner alone can write them."""

import os
import subprocess
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gridbridge.errors import FileWritableByOthers, ParseError, StateError
from gridbridge.shell import safe_files

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
