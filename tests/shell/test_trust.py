"""Files that root obeys belong to root, and so do all folders above."""

import os
from pathlib import Path

import pytest

from gridbridge.errors import FileWritableByOthers
from gridbridge.shell import safe_files

ME = os.getuid()


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
