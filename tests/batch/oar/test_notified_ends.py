"""Tests of listen.pl, and of the job ends and usage that OAR jobs report to listen.pl."""

import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.batch.oar.oar_output_parser import parse_oar_job_end_and_usage
from gridbridge.batch.oar.status import LISTENER
from gridbridge.model.transfer_name import job_ids_in_pushed_report
from gridbridge.model.transfer_route import OarServerAccessSettings

LIMIT_S = 20
ME = pwd.getpwuid(os.getuid()).pw_name


class Listener:
    def __init__(self, path: Path) -> None:
        pipe = subprocess.PIPE
        argv = ("/usr/bin/perl", LISTENER, str(path))
        self.process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)
        self.path = path

    def until_there(self, before: int = 0) -> "Listener":
        """Wait until listen.pl has created its FIFO; the inode number must differ from `before`."""
        deadline = time.monotonic() + LIMIT_S
        while self.number() in (0, before):
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
        return self

    def number(self) -> int:
        """Return the FIFO's inode number; 0 if the FIFO does not exist."""
        with suppress(FileNotFoundError):
            return self.path.stat().st_ino
        return 0

    def hear(self) -> bytes:
        return self.process.stdout.readline()

    def hang_up(self) -> tuple[bytes, bytes]:
        return self.process.communicate(timeout=LIMIT_S)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gridbridge.gb" / "ends"


@pytest.fixture
def listener(path: Path) -> Iterator[Listener]:
    listener = Listener(path).until_there()
    yield listener
    listener.process.kill()
    listener.process.communicate()


def submitted(tmp_path: Path, path: Path, home: str = "home") -> tuple[str, ...]:
    """Submit a job as far.sh does; return the command line that OAR runs at the job's end."""
    place = tmp_path / home
    place.mkdir()
    server = OarServerAccessSettings(timeout_s=5, binaries=str(tmp_path), ends=str(path))
    oarsub = (oar_command_line_builders.ENDED, "command")
    argv = list(
        oar_command_line_builders.oar_frontend_script_argv(
            server, "submit", "0", "/bin/sh", "-c", PRETEND, *oarsub, ends=str(path)
        )
    )
    argv[2] = argv[2].replace('"$(getent passwd "$(id -u)" | cut -d: -f6)"', '"$HOME"')
    env = {"PATH": "/usr/bin:/bin", "HOME": str(place)}
    subprocess.run(argv, env=env, check=True, capture_output=True, input=b"")
    asked = (place / "asked").read_text()
    return tuple(asked.removeprefix("--notify=exec:").split())


def end_job(program: str, *words: str, tag: str = "END") -> int:
    argv = (program, *words, "12", "gb.alpha.1.0.1", tag, "Job stopped normally.")
    return subprocess.run(argv, check=False, timeout=LIMIT_S).returncode


PRETEND = 'echo "$0" >$HOME/asked; echo OAR_JOB_ID=12'


@pytest.mark.parametrize("tag", ["END", "ERROR"])
def test_a_job_reports_its_end_to_the_listener(tmp_path: Path, listener: Listener, tag: str) -> None:
    program, *words = submitted(tmp_path, listener.path)
    status = end_job(program, *words, tag=tag)

    assert (listener.hear(), status > 1, Path(program).exists()) == (b"12\n", False, False)


def used(path: Path) -> dict[str, tuple[float, float]]:
    """Return job 12's usage as the service reads it; oarstat prints no job."""
    oarstat = path.parent.parent / "oarstat"
    oarstat.symlink_to("/bin/true")
    server = OarServerAccessSettings(timeout_s=5, binaries=str(oarstat.parent), ends=str(path))
    argv = oar_command_line_builders.show_job_end_and_usage_argv(server, "12")
    return parse_oar_job_end_and_usage(subprocess.run(argv, check=True, capture_output=True).stdout)[1]


def test_a_jobs_usage_is_reported_with_its_end(tmp_path: Path, listener: Listener) -> None:
    program, *words = submitted(tmp_path, listener.path)
    note = Path(program).parent / "used.12"
    note.write_text("1.5 0.25\n")
    end_job(program, *words)

    assert used(listener.path) == {ME: (1.5, 0.25)}
    assert not note.exists()
    assert listener.path.with_name("used").stat().st_mode & 0o7777 == 0o1733


@pytest.mark.parametrize("spoil", ["uid", "link", "second", "fifo", "words", "job"])
def test_forged_usage_of_another_users_job_is_ignored(listener: Listener, spoil: str) -> None:
    place = listener.path.with_name("used")
    uid = os.getuid() + (spoil == "uid")
    told = place / f"{120 if spoil == 'job' else 12}.{uid}.7"
    if spoil == "fifo":
        os.mkfifo(told)
    else:
        told.write_text("1e9 x\n" if spoil == "words" else "1.5 0.25\n")
    if spoil == "link":
        told.rename(place / "x")
        told.symlink_to("x")
    if spoil == "second":
        told.with_name("x").hardlink_to(told)

    assert used(listener.path) == {}


def test_usage_files_are_removed_after_a_while(path: Path) -> None:
    place = path.with_name("used")
    place.mkdir(parents=True)
    for name, age_s in (("old", 7200), ("new", 60)):
        (place / name).touch()
        os.utime(place / name, (time.time() - age_s,) * 2)
    listener = Listener(path).until_there()
    deadline = time.monotonic() + LIMIT_S
    while (place / "old").exists():
        assert time.monotonic() < deadline
    listener.hang_up()

    assert os.listdir(place) == ["new"]


def test_the_start_of_a_job_is_not_reported(tmp_path: Path, listener: Listener) -> None:
    program, *words = submitted(tmp_path, listener.path)

    assert end_job(program, *words, tag="RUNNING") == 0
    assert Path(program).exists()
    assert listener.hang_up() == (b"", b"")


def test_a_job_ends_normally_without_listener(tmp_path: Path, path: Path) -> None:
    program, *words = submitted(tmp_path, path)
    end_job(program, *words)

    assert (path.exists(), Path(program).exists()) == (False, False)


@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_job_end_is_written_only_into_a_fifo(tmp_path: Path, path: Path, kind: str) -> None:
    """Any user may create the path while no listener runs."""
    program, *words = submitted(tmp_path, path)
    precious = tmp_path / "precious"
    precious.write_text("precious data\n")
    path.parent.mkdir()
    precious.rename(path) if kind == "file" else path.symlink_to(precious)
    end_job(program, *words)

    assert path.read_text() == "precious data\n"


def test_text_that_is_no_job_id_is_ignored() -> None:
    """Any user may write to the FIFO."""
    assert job_ids_in_pushed_report(b"12\nx 7x -1 " + b"9" * 5000 + b"\n13\n") == [12, 13]


def test_a_home_path_with_characters_that_oar_forbids_gets_no_notify_option(tmp_path: Path, path: Path) -> None:
    assert submitted(tmp_path, path, "it's") == ("command",)


def test_a_listener_removes_its_folder_when_the_connection_ends(listener: Listener) -> None:
    listener.hang_up()

    assert not listener.path.parent.exists()


def test_a_later_listener_takes_over_the_fifo(listener: Listener) -> None:
    """The earlier listener removes nothing when its connection ends."""
    before = listener.number()
    later = Listener(listener.path).until_there(before)
    with later.path.open("w") as ends:
        ends.write("7\n")
    heard = later.hear()
    listener.hang_up()

    assert (heard, later.path.exists()) == (b"7\n", True)
    later.hang_up()


@pytest.mark.parametrize("spoil", ["link", "mode"])
def test_a_listener_refuses_a_folder_that_others_can_change(path: Path, spoil: str) -> None:
    if spoil == "link":
        (path.parent.parent / "theirs").mkdir()
        path.parent.symlink_to("theirs")
    else:
        path.parent.mkdir()
        path.parent.chmod(0o777)
    told = Listener(path).hang_up()

    assert told == (b"", f"{path.parent}: expected a folder that only this account owns and can write\n".encode())
