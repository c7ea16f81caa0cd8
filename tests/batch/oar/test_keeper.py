"""The first process of a job under OAR, and what is done at its frontend: really run, here."""

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.batch.oar import commands
from gridbridge.batch.oar.submit import _kept
from gridbridge.model.route import OarServer
from tests.contract.waiting import stays, until

BURN = "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done)"
TICKING = "while :; do echo . >>ticks; sleep 0.02; done\n"


class Node:
    """A node's disk, where a job's keeper runs."""

    def __init__(self, folder: Path) -> None:
        self.work, self.scratch = folder / "it's \\here", folder / "scratch"
        self.file = folder / "job.12"
        self.work.mkdir()
        self.scratch.mkdir()
        (folder / "nodes").write_text("n1\nn1\n")
        self.env = {
            "OAR_JOB_ID": "12",
            "OAR_JOB_NAME": "gb.alpha.12.0.1",
            "OAR_NODEFILE": str(folder / "nodes"),
            "TMPDIR": str(self.scratch),
            "HOME": "/home/al_gamma",
            "BASH_ENV": "/nowhere",
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, script: str, cwd: str = "", tells: bool = False) -> "subprocess.Popen[bytes]":
        """Start a job as OAR does."""
        self.file.write_bytes(_kept("/bin/sh", cwd or str(self.work), script.encode(), tells))
        self.started.append(subprocess.Popen(["/usr/bin/perl", self.file], env=self.env))
        return self.started[-1]

    def run(self, script: str, cwd: str = "") -> int:
        """Run a job and return how it ended, a signal as a negative number."""
        return self.start(script, cwd).wait(20)

    def ticks(self) -> int:
        """Return how far a ticking job is."""
        file = self.work / "ticks"
        return file.stat().st_size if file.exists() else 0

    def until_ticking(self) -> None:
        """Wait until it goes on."""
        before = self.ticks()
        until(lambda: self.ticks() > before, "the job to go on", 20)

    def left(self) -> list[str]:
        """Return what is on the disk besides the job's own files."""
        return [*map(str, self.scratch.iterdir())] + [str(self.file)] * self.file.exists()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    for keeper in node.started:
        keeper.kill()
        keeper.wait()
    until(lambda: stays(node.ticks, 0.1), "no job of ours to run", 20)


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 137", 137),
        ("ulimit -c 0; kill -6 $$", -6),
        ("kill -9 $$", -9),
        ("kill -15 $$", -15),
    ],
)
def test_a_keeper_ends_as_its_job_and_leaves_nothing(node: Node, script: str, status: int) -> None:
    assert (node.run(script), node.left()) == (status, [])


def test_a_job_sees_grid_engines_names_and_a_folder_of_its_own(node: Node) -> None:
    node.run('env >env; pwd >cwd; [ -d "$TMPDIR" ] && [ -O "$TMPDIR" ] && ls -A "$TMPDIR" >private')
    seen = dict(line.split("=", 1) for line in (node.work / "env").read_text().splitlines())

    told = [seen[name] for name in ("JOB_ID", "JOB_NAME", "NSLOTS", "HOSTNAME", "ENVIRONMENT")]
    assert told == ["12", "gb.alpha.12.0.1", "2", os.uname().nodename, "BATCH"]
    assert seen["TMPDIR"].startswith(f"{node.scratch}/gridbridge.12.")
    assert (seen["HOME"], seen["OAR_JOB_ID"], "BASH_ENV" in seen) == ("/home/al_gamma", "12", False)
    assert (node.work / "cwd").read_text() == f"{node.work}\n"
    assert (node.work / "private").read_text() == ""


def test_a_job_is_told_its_hosts_as_grid_engine_would(node: Node) -> None:
    Path(node.env["OAR_NODEFILE"]).write_text("n2\nn1\nn2\n")
    node.run('echo "$NHOSTS $NSLOTS" >hosts; cat "$PE_HOSTFILE" >>hosts')

    told = (node.work / "hosts").read_text().splitlines()
    assert told == ["2 3", "n1 1 12@n1 UNDEFINED", "n2 2 12@n2 UNDEFINED"]


def test_a_job_that_can_not_start_ends_as_the_wrapper_would(node: Node) -> None:
    """Its folder is not there, or its node has no room for it: the signal tells that."""
    missing = node.run("exit 0", cwd="/nowhere")
    node.env["TMPDIR"] = "/nowhere"

    assert (missing, node.run("exit 0"), node.left()) == (-57, -58, [])


def test_a_job_is_stopped_with_its_children_and_goes_on(node: Node) -> None:
    keeper = node.start(f"({TICKING}) & wait\n")
    node.until_ticking()
    keeper.send_signal(signal.SIGTSTP)
    until(lambda: stays(node.ticks, 0.2), "the job to stand still", 20)
    keeper.send_signal(signal.SIGCONT)

    node.until_ticking()


def test_other_signals_are_the_jobs(node: Node) -> None:
    """As OAR's checkpoint signal, for which the job has a trap."""
    keeper = node.start(f"trap 'exit 4' USR2; {TICKING}")
    node.until_ticking()
    keeper.send_signal(signal.SIGUSR2)

    assert keeper.wait(20) == 4


def test_a_signal_that_comes_before_the_keeper_knows_its_job_is_not_lost(node: Node) -> None:
    """The job may run before the fork has told the keeper its number."""
    script = "trap 'exit 4' USR2; kill -USR2 $PPID; while :; do sleep 0.01; done"

    assert {node.run(script) for _ in range(30)} == {4}


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_a_keeper_that_is_killed_leaves_no_process_and_no_file(
    node: Node, is_stopped: bool
) -> None:
    keeper = node.start(f"(trap '' TERM HUP; {TICKING}) & wait\n")
    node.until_ticking()
    if is_stopped:
        keeper.send_signal(signal.SIGTSTP)
        until(lambda: stays(node.ticks, 0.2), "the job to stand still", 20)
    keeper.kill()

    until(lambda: stays(node.ticks, 0.2), "the job's processes to be gone", 20)
    until(lambda: not node.left(), "its files to be gone", 20)


def test_a_keeper_removes_what_another_left_when_its_node_lost_its_power(node: Node) -> None:
    """Nobody was there to do it; another node's, where the disk is shared, may be alive."""
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    stale, living, others = (
        f"gridbridge.1.{gone.pid}.5.{os.uname().nodename}",
        f"gridbridge.1.{os.getpid()}.5.{os.uname().nodename}",
        f"gridbridge.1.{gone.pid}.5.another",
    )
    for name in (stale, living, others):
        (node.scratch / name / "tmp").mkdir(parents=True)
    node.run("exit 0")

    assert sorted(os.listdir(node.scratch)) == sorted([living, others])


def test_what_a_job_used_is_noted_where_its_end_is_told(node: Node) -> None:
    """With its children's; the keeper's own does not count."""
    note = node.file.parent / "used.12"
    keeper = node.start(f"{BURN} & wait; exit 3", tells=True)
    status = keeper.wait(60)
    user_s, system_s = map(float, note.read_text().split())
    note.unlink()
    node.run("exit 0")

    assert (status, user_s > 0.1, 0 <= system_s < user_s) == (3, True, True)
    assert not note.exists()


def test_what_a_job_leaves_running_ends_with_it(node: Node) -> None:
    node.run(f"({TICKING}) & until [ -s ticks ]; do sleep 0.02; done\n")

    assert node.ticks() > 0
    assert stays(node.ticks, 0.2)


class Frontend:
    """A home, and an oarsub that says what it is told."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        bin_folder = folder / "bin"
        bin_folder.mkdir()
        person = pwd.getpwuid(os.getuid()).pw_name
        self.tell(bin_folder / "getent", f"echo {person}:x:0:0::{self.home}:/bin/sh")
        self.oarsub, self.oarstat = bin_folder / "oarsub", bin_folder / "oarstat"
        self.server = OarServer(binaries=str(bin_folder), timeout_s=5)
        self.env = {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(self.home)}

    def submit(self, says: str, script: bytes, size: int = -1) -> tuple[int, str, list[str]]:
        """Submit a script; return the status, what was said, and the files that wait."""
        self.tell(self.oarsub, says)
        count = str(len(script) if size < 0 else size)
        argv = commands._far(self.server, "submit", count, str(self.oarsub))
        done = subprocess.run(argv, input=script, env=self.env, capture_output=True, check=False)
        return done.returncode, done.stdout.decode(), self.scripts()

    def scripts(self) -> list[str]:
        """Return the files that wait for their jobs."""
        return sorted(path.name for path in (self.home / ".gridbridge").iterdir())

    def tell(self, path: Path, says: str) -> None:
        """Make a program of a line."""
        path.write_text(f"#!/bin/sh\n{says}\n")
        path.chmod(0o755)


@pytest.fixture
def frontend(tmp_path: Path) -> Frontend:
    return Frontend(tmp_path)


def test_a_script_waits_under_the_jobs_id_where_only_its_owner_reads_it(frontend: Frontend) -> None:
    status, said, scripts = frontend.submit("echo chatter; echo OAR_JOB_ID=12", b"it's $1\n")
    kept = frontend.home / ".gridbridge" / "job.12"

    assert (status, said, scripts) == (0, "chatter\nOAR_JOB_ID=12\n", ["job.12"])
    assert (kept.read_bytes(), kept.stat().st_mode & 0o777) == (b"it's $1\n", 0o600)


@pytest.mark.parametrize("says", ["echo OAR_JOB_ID=-5; exit 8", "exit 254", "kill -14 $$"])
def test_a_script_without_a_job_is_removed(frontend: Frontend, says: str) -> None:
    status, _, scripts = frontend.submit(says, b"exit 0\n")

    assert (status > 0, scripts) == (True, [])


def test_a_script_that_was_cut_short_is_not_submitted(frontend: Frontend) -> None:
    status, _, scripts = frontend.submit("touch $HOME/ran", b"rm -rf /tmp/x", size=20)

    assert (status, scripts) == (75, [])
    assert not (frontend.home / "ran").exists()


@pytest.mark.parametrize(("status", "left"), [(0, []), (6, []), (2, ["job.12"])])
def test_a_deleted_jobs_script_is_removed_once_oar_has_taken_that(
    frontend: Frontend, status: int, left: list[str]
) -> None:
    frontend.submit("echo OAR_JOB_ID=12", b"exit 0\n")
    argv = commands._far(frontend.server, "delete", "12", "/bin/sh", "-c", f"exit {status}")
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
def test_the_script_of_a_job_that_ended_unstarted_is_swept_up_after_a_day(
    frontend: Frontend, says: str, left: list[str]
) -> None:
    """Somebody deleted the job with OAR's own command; whoever submits the next tidies up."""
    frontend.submit("echo OAR_JOB_ID=12", b"exit 0\n")
    two_days_ago = time.time() - 2 * 86400
    os.utime(frontend.home / ".gridbridge" / "job.12", (two_days_ago, two_days_ago))
    frontend.tell(frontend.oarstat, says)
    status, said, scripts = frontend.submit("echo OAR_JOB_ID=13", b"exit 0\n")

    assert (status, said, scripts) == (0, "OAR_JOB_ID=13\n", left)


def test_an_alarm_ends_a_program_that_never_answers() -> None:
    began = time.monotonic()
    done = subprocess.run([*commands.LIMITED, "1", "/bin/sleep", "60"], check=False)

    assert (done.returncode, time.monotonic() - began < 20) == (-signal.SIGALRM, True)
