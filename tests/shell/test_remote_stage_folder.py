"""The remote folder of a transfer is created, searched and removed by name, and no other folder is.

A real sh stands for the remote host, and a local folder for the account's home.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, ParseError, UnsafeRemoteFolder, UnstageablePaths
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import remote_stage_folder, ssh
from gridbridge.shell.program_runs import CompletedProgram

LOGIN = SshLogin(host="delta-master")
NAME = "gb.alpha.7.0.1"
PLACE = f".gridbridge/sta ge/{NAME}"
LIMIT_S = 30.0


class Near(ssh.OpenSshClient):
    """Runs each ssh request by sh in a local folder."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run_ssh_request(
        self, _login: SshLogin, _token: str, request: bytes, timeout_s: float, most_bytes: int = 0
    ) -> tuple[CompletedProgram, bool]:
        del most_bytes
        argv = ("/bin/sh", "-c", ssh.FAR_SHELL)
        done = subprocess.run(argv, input=request, capture_output=True, check=False, cwd=self.home, timeout=timeout_s)
        return CompletedProgram(argv, done.returncode, done.stdout, done.stderr), False


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    ssh.set_ssh_request_carrier(Near(tmp_path))
    yield tmp_path
    ssh.set_ssh_request_carrier(ssh.OpenSshClient())


def test_a_stage_folder_is_created_empty_and_private(home: Path) -> None:
    path = remote_stage_folder.make_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    (home / PLACE / "work/old").touch()

    assert path == remote_stage_folder.make_remote_stage_folder(LOGIN, PLACE, LIMIT_S) == f"{home}/{PLACE}"
    assert [(home / PLACE / "work")] == list((home / PLACE).iterdir())
    assert list((home / PLACE / "work").iterdir()) == []
    assert (home / PLACE).stat().st_mode & 0o777 == 0o700


def test_restoring_a_stage_folder_keeps_existing_files(home: Path) -> None:
    remote_stage_folder.restore_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    (home / PLACE / "work/input").touch()
    remote_stage_folder.restore_remote_stage_folder(LOGIN, PLACE, LIMIT_S)

    assert (home / PLACE / "work/input").exists()


def test_files_with_odd_names_are_found(home: Path) -> None:
    remote_stage_folder.make_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    names = ("-e", "a b", "$(x)\n'", "dangling")
    for name in names[:3]:
        (home / PLACE / name).touch()
    (home / PLACE / "dangling").symlink_to("/nowhere")

    (home / PLACE / "link").symlink_to("a b")
    found = remote_stage_folder.find_existing_staged_files(LOGIN, PLACE, ("none", *names, "link"), LIMIT_S)

    assert found == {**dict.fromkeys(names, False), "link": True}


def test_a_missing_stage_folder_differs_from_an_empty_folder(home: Path) -> None:
    (home / PLACE).parent.mkdir(parents=True)
    assert remote_stage_folder.find_existing_staged_files(LOGIN, PLACE, ("a",), LIMIT_S) is None
    remote_stage_folder.make_remote_stage_folder(LOGIN, PLACE, LIMIT_S)

    assert remote_stage_folder.find_existing_staged_files(LOGIN, PLACE, ("a",), LIMIT_S) == {}
    assert (home / PLACE).is_dir()


@pytest.mark.parametrize("place", [PLACE, f"/nowhere/{NAME}"], ids=["in the home", "elsewhere"])
def test_a_folder_on_a_missing_filesystem_is_an_error(home: Path, place: str) -> None:
    """The job's outputs are on that filesystem; only its mount is missing."""
    with pytest.raises(CommandFailed):
        remote_stage_folder.find_existing_staged_files(LOGIN, place, ("a",), LIMIT_S)


def test_removal_on_a_missing_filesystem_is_an_error(home: Path) -> None:
    """A missing folder in the home was never created; another filesystem may come back."""
    remote_stage_folder.remove_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    with pytest.raises(CommandFailed):
        remote_stage_folder.remove_remote_stage_folder(LOGIN, f"/nowhere/{NAME}", LIMIT_S)


def test_outputs_in_a_folder_without_permissions_are_found(home: Path) -> None:
    remote_stage_folder.make_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    (home / PLACE / "work/out").touch()
    (home / PLACE / "work").chmod(0)

    assert remote_stage_folder.find_existing_staged_files(LOGIN, PLACE, ("work/out",), LIMIT_S) == {"work/out": False}


def test_a_stage_folder_is_removed_with_its_content(home: Path) -> None:
    remote_stage_folder.make_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    os.makedirs(home / PLACE / "work/closed/deep")
    (home / PLACE / "work/out").symlink_to(home / "mine")
    (home / "mine").mkdir()
    (home / PLACE / "work/closed").chmod(0o500)
    remote_stage_folder.remove_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    remote_stage_folder.remove_remote_stage_folder(LOGIN, PLACE, LIMIT_S)

    assert not (home / PLACE).exists()
    assert (home / "mine").is_dir()


@pytest.mark.parametrize(
    ("mode", "group", "mend"),
    [
        (None, 0, "mkdir -p -m 1777 {}"),
        (0o777, 0, "chmod +t {}"),
        (0o775, 100, "chmod +t {}"),
        (0o2775, 12345, "chmod +t {}"),
        (0o1777, 100, ""),
        (0o3775, 100, ""),
        (0o775, 0, ""),
        (0o755, 100, ""),
    ],
    ids=["missing", "of all", "of a group", "of no name", "sticky", "both", "the owner's", "root's"],
)
@pytest.mark.parametrize(
    "do", [remote_stage_folder.make_remote_stage_folder, remote_stage_folder.restore_remote_stage_folder]
)
def test_no_stage_folder_is_created_below_an_unsafe_folder(
    home: Path, do: Callable[[SshLogin, str, float], object], mode: int | None, group: int, mend: str
) -> None:
    """A shared parent that a user creates would belong to that user alone."""
    if os.geteuid() != 0:
        pytest.skip("only root gives a folder to another group")
    place = home / "scratch"
    if mode is not None:
        place.mkdir()
        os.chown(place, 0, group)
        place.chmod(mode)

    if mend:
        with pytest.raises(UnsafeRemoteFolder) as refused:
            do(LOGIN, f"{place}/al/{NAME}", LIMIT_S)
        assert refused.value.mend == mend.format(place)
        with pytest.raises(UnsafeRemoteFolder):
            remote_stage_folder.require_safe_stage_dir(LOGIN, str(place), LIMIT_S)
        assert not (place / "al").exists()
        subprocess.run(("/bin/sh", "-c", refused.value.mend), check=True)
    do(LOGIN, f"{place}/al/{NAME}", LIMIT_S)
    remote_stage_folder.require_safe_stage_dir(LOGIN, f"{place}/", LIMIT_S)

    assert (place / f"al/{NAME}/work").is_dir()


def _a_link(own: Path) -> None:
    (own.parent / "theirs").mkdir()
    own.symlink_to(own.parent / "theirs")


def _a_link_to_nothing(own: Path) -> None:
    own.symlink_to("/nowhere")


def _of_another(own: Path) -> None:
    own.mkdir(mode=0o777)
    os.chown(own, 12345, 12345)


@pytest.mark.parametrize("plant", [_a_link, _a_link_to_nothing, Path.touch, _of_another])
@pytest.mark.parametrize(
    "do", [remote_stage_folder.make_remote_stage_folder, remote_stage_folder.restore_remote_stage_folder]
)
def test_a_planted_account_folder_is_not_used(
    home: Path, do: Callable[[SshLogin, str, float], object], plant: Callable[[Path], None]
) -> None:
    """Other users may create entries in a shared stage_dir."""
    if plant is _of_another and os.geteuid() != 0:
        pytest.skip("only root gives a folder to another")
    (home / "scratch").mkdir()
    own = home / "scratch/al"
    plant(own)

    with pytest.raises((UnstageablePaths, CommandFailed), match=r"belongs to another account"):
        do(LOGIN, f"{own}/{NAME}", LIMIT_S)
    assert not own.is_dir() or list(own.iterdir()) == []


def test_the_account_folder_is_made_private(home: Path) -> None:
    (home / "scratch/al").mkdir(parents=True, mode=0o777)
    (home / "scratch/al").chmod(0o777)

    remote_stage_folder.make_remote_stage_folder(LOGIN, f"{home}/scratch/al/{NAME}", LIMIT_S)

    assert (home / "scratch/al").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("stage_dir", "expected"), [("/scratch/gb", "/scratch/gb/al"), ("stage", "stage"), ("", ".gridbridge/stage")]
)
def test_a_stage_dir_outside_the_home_has_a_folder_per_account(stage_dir: str, expected: str) -> None:
    assert remote_stage_folder.parent_of_remote_stage_folder(stage_dir, "al") == expected


@pytest.mark.parametrize("place", [".", "", "/", "docs", f"{NAME}/..", f"../{NAME}", f"a/../{NAME}", f"{NAME}/"])
def test_a_path_that_is_no_transfer_folder_is_refused(place: str) -> None:
    with pytest.raises(ParseError):
        remote_stage_folder.remove_remote_stage_folder(LOGIN, place, LIMIT_S)
    with pytest.raises(ParseError):
        remote_stage_folder.make_remote_stage_folder(LOGIN, place, LIMIT_S)


@pytest.mark.parametrize(
    ("login", "place"), [(None, PLACE), (LOGIN, ".gridbridge/gb.alpha.8.0.1")], ids=["no login", "another transfer's"]
)
def test_a_transfer_record_can_remove_only_its_own_folder(login: SshLogin | None, place: str) -> None:
    with pytest.raises(ParseError):
        remote_stage_folder.remove_stage_folder_of_record(login, place, NAME, LIMIT_S)


def test_an_unmounted_filesystem_is_not_an_empty_stage_folder(home: Path) -> None:
    """An unmarked folder is not the folder in which the stage folder was created."""
    place = f"{home}/scratch/{NAME}"
    remote_stage_folder.make_remote_stage_folder(LOGIN, place, LIMIT_S)
    (home / "scratch").rename(home / "unmounted")
    (home / "scratch").mkdir()

    with pytest.raises(CommandFailed, match="is the filesystem mounted"):
        remote_stage_folder.find_existing_staged_files(LOGIN, place, ("a",), LIMIT_S)
    with pytest.raises(CommandFailed, match="is the filesystem mounted"):
        remote_stage_folder.remove_remote_stage_folder(LOGIN, place, LIMIT_S)
    (home / "scratch").rmdir()
    (home / "unmounted").rename(home / "scratch")
    remote_stage_folder.remove_remote_stage_folder(LOGIN, place, LIMIT_S)
    assert remote_stage_folder.find_existing_staged_files(LOGIN, place, ("a",), LIMIT_S) is None


def test_a_symlink_in_place_of_the_stage_folder_is_not_followed(home: Path) -> None:
    (home / PLACE).parent.mkdir(parents=True)
    (home / "theirs").mkdir()
    (home / PLACE).symlink_to(home / "theirs")

    with pytest.raises(CommandFailed, match="belongs to another account"):
        remote_stage_folder.restore_remote_stage_folder(LOGIN, PLACE, LIMIT_S)
    remote_stage_folder.make_remote_stage_folder(LOGIN, PLACE, LIMIT_S)

    assert (list((home / "theirs").iterdir()), (home / PLACE).is_symlink()) == ([], False)
