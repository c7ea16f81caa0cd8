"""Tests of far.sh, the shell program for OAR's frontend, which really runs here."""

import os
import pwd
import subprocess
import time
from pathlib import Path

import pytest

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.model.transfer_route import OarServerAccessSettings
from tests.builders.programs import write_program

ARRAY = "echo OAR_JOB_ID=12; echo OAR_ARRAY_ID=12"


class Frontend:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        person = pwd.getpwuid(os.getuid()).pw_name
        self.tell(bin_folder / "getent", f"echo {person}:x:0:0::{self.home}:/bin/sh")
        self.oarsub, self.oarstat = bin_folder / "oarsub", bin_folder / "oarstat"
        self.server = OarServerAccessSettings(binaries=str(bin_folder), timeout_s=5)
        self.env = {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(self.home)}

    def submit(self, says: str, script: bytes, size: int = -1, verb: str = "submit") -> tuple[int, str, list[str]]:
        self.tell(self.oarsub, says)
        count = str(len(script) if size < 0 else size)
        argv = oar_command_line_builders.oar_frontend_script_argv(self.server, verb, count, str(self.oarsub))
        done = subprocess.run(argv, input=script, env=self.env, capture_output=True, check=False)
        return done.returncode, done.stdout.decode(), self.scripts()

    def scripts(self) -> list[str]:
        return sorted(path.name for path in (self.home / ".gridbridge").iterdir())

    def grow_old(self, name: str) -> None:
        """Set a stored script's modification time to two days ago."""
        two_days_ago = time.time() - 2 * 86400
        os.utime(self.home / ".gridbridge" / name, (two_days_ago, two_days_ago))

    def tell(self, path: Path, says: str) -> None:
        write_program(path, f"#!/bin/sh\n{says}\n")


@pytest.fixture
def frontend(tmp_path: Path) -> Frontend:
    return Frontend(tmp_path)


def test_a_script_is_stored_under_the_job_id_readable_only_by_its_owner(frontend: Frontend) -> None:
    status, said, scripts = frontend.submit("echo chatter; echo OAR_JOB_ID=12", b"it's $1\n")
    kept = frontend.home / ".gridbridge" / "job.12"

    assert (status, said, scripts) == (0, "chatter\nOAR_JOB_ID=12\n", ["job.12"])
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (b"it's $1\n", 0o600)


@pytest.mark.parametrize("says", ["echo OAR_JOB_ID=-5; exit 8", "exit 254", "kill -14 $$"])
def test_the_script_of_a_failed_submission_is_removed(frontend: Frontend, says: str) -> None:
    status, _, scripts = frontend.submit(says, b"exit 0\n")

    assert (status > 0, scripts) == (True, [])


def test_a_truncated_script_is_not_submitted(frontend: Frontend) -> None:
    status, _, scripts = frontend.submit("touch $HOME/ran", b"rm -rf /tmp/x", size=20)

    assert (status, scripts) == (75, [])
    assert not (frontend.home / "ran").exists()


@pytest.mark.parametrize(("status", "left"), [(0, []), (6, []), (2, ["job.12"])])
def test_a_deleted_jobs_script_is_removed_if_oardel_succeeded(frontend: Frontend, status: int, left: list[str]) -> None:
    frontend.submit("echo OAR_JOB_ID=12", b"exit 0\n")
    argv = oar_command_line_builders.oar_frontend_script_argv(
        frontend.server, "delete", "12", "/bin/sh", "-c", f"exit {status}"
    )
    done = subprocess.run(argv, env=frontend.env, check=False)

    assert (done.returncode, frontend.scripts()) == (status, left)


@pytest.mark.parametrize(
    ("says", "left"),
    [
        ('echo "$3: Error"', ["job.13"]),
        ('echo "$3: Terminated"', ["job.13"]),
        ('echo "$3: Waiting"', ["job.12", "job.13"]),
        ("", ["job.12", "job.13"]),
        ("exit 1", ["job.12", "job.13"]),
    ],
    ids=["failed", "ended", "waits", "unknown", "no answer"],
)
def test_the_script_of_a_job_deleted_before_its_start_is_removed_after_a_day(
    frontend: Frontend, says: str, left: list[str]
) -> None:
    """The next submission removes the old script."""
    frontend.submit("echo OAR_JOB_ID=12", b"exit 0\n")
    frontend.grow_old("job.12")
    frontend.tell(frontend.oarstat, says)
    status, said, scripts = frontend.submit("echo OAR_JOB_ID=13", b"exit 0\n")

    assert (status, said, scripts) == (0, "OAR_JOB_ID=13\n", left)


@pytest.mark.parametrize("says", [ARRAY, "echo OAR_JOB_ID=12"], ids=["array", "of one task"])
def test_an_arrays_script_is_stored_under_the_array_id(frontend: Frontend, says: str) -> None:
    assert frontend.submit(says, b"exit 0\n", verb="submit_array")[2] == ["array.12"]


@pytest.mark.parametrize(
    ("states", "left"),
    [
        (["Terminated", "Terminated"], ["array.13"]),
        (["Terminated", "Error"], ["array.13"]),
        (["Terminated", "Running"], ["array.12", "array.12.begun", "array.13"]),
        ([], ["array.12", "array.12.begun", "array.13"]),
    ],
    ids=["ended", "failed", "runs", "no answer"],
)
def test_files_of_an_ended_array_are_removed_after_a_day(
    frontend: Frontend, states: list[str], left: list[str]
) -> None:
    """The next submission removes the old files."""
    frontend.submit(ARRAY, b"exit 0\n", verb="submit_array")
    (frontend.home / ".gridbridge" / "array.12.begun" / "1").mkdir(parents=True)
    frontend.grow_old("array.12")
    frontend.tell(frontend.oarstat, "".join(f"echo '    state = {one}'\n" for one in states))
    says = ARRAY.replace("12", "13")

    assert frontend.submit(says, b"exit 0\n", verb="submit_array")[2] == left


@pytest.mark.parametrize(("status", "counted"), [(0, True), (6, True), (2, False)])
def test_a_deleted_task_is_marked_as_ended_if_oardel_succeeded(frontend: Frontend, status: int, counted: bool) -> None:
    frontend.submit(ARRAY, b"exit 0\n", verb="submit_array")
    begun = frontend.home / ".gridbridge" / "array.12.begun"
    (begun / "2").mkdir(parents=True)
    words = ("delete_tasks", "12 2 3", "/bin/sh", "-c", f"exit {status}")
    done = subprocess.run(
        oar_command_line_builders.oar_frontend_script_argv(frontend.server, *words), env=frontend.env, check=False
    )

    marks = ["2", "2.ended", "3", "3.ended"] if counted else ["2"]
    assert (done.returncode, sorted(path.name for path in begun.iterdir())) == (status, marks)
