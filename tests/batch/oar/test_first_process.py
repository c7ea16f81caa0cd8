"""Tests of keeper.pl, the first process of an OAR job, which really runs here."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.batch.oar import oar_command_line_builders
from gridbridge.batch.oar.job_submission_and_control import oar_job_file_contents
from gridbridge.model.job_request import JobRequest, JobSpec
from tests.contract.waiting import stays, until

BURN = "(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done)"
BEGUN = ["array.12", "array.12.begun"]
TICKING = "while :; do echo . >>ticks; sleep 0.02; done\n"


class Node:
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
        self.write(script, cwd, tells)
        return self.launch()

    def write(self, script: str, cwd: str = "", tells: bool = False, tasks: int = 0) -> None:
        known = {"cwd": cwd or str(self.work), "script": script.encode(), "tasks": tasks}
        spec = JobSpec(transfer="gb.alpha.12.0.1", request=JobRequest(), **known)
        self.file.write_bytes(oar_job_file_contents(spec, tells=tells))

    def launch(self, **environment: str) -> "subprocess.Popen[bytes]":
        self.started.append(subprocess.Popen(["/usr/bin/perl", self.file], env=self.env | environment))
        return self.started[-1]

    def run(self, script: str, cwd: str = "") -> int:
        """Run a job and return its exit status; a signal is a negative number."""
        return self.start(script, cwd).wait(20)

    def ticks(self) -> int:
        file = self.work / "ticks"
        return file.stat().st_size if file.exists() else 0

    def until_ticking(self) -> None:
        before = self.ticks()
        until(lambda: self.ticks() > before, "the job to continue", 20)

    def left(self) -> list[str]:
        return [*map(str, self.scratch.iterdir())] + [str(self.file)] * self.file.exists()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    for keeper in node.started:
        keeper.kill()
        keeper.wait()
    until(lambda: stays(node.ticks, 0.1), "all jobs of the test to end", 20)


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
def test_a_keeper_ends_like_its_job_and_leaves_no_file(node: Node, script: str, status: int) -> None:
    assert (node.run(script), node.left()) == (status, [])


def test_a_job_has_grid_engines_variables_and_a_private_folder(node: Node) -> None:
    node.run('env >env; pwd >cwd; [ -d "$TMPDIR" ] && [ -O "$TMPDIR" ] && ls -A "$TMPDIR" >private')
    seen = dict(line.split("=", 1) for line in (node.work / "env").read_text().splitlines())

    told = [seen[name] for name in ("JOB_ID", "JOB_NAME", "NSLOTS", "HOSTNAME", "ENVIRONMENT")]
    assert told == ["12", "gb.alpha.12.0.1", "2", os.uname().nodename, "BATCH"]
    assert seen["TMPDIR"].startswith(f"{node.scratch}/gridbridge.12.")
    assert (seen["HOME"], seen["OAR_JOB_ID"], "BASH_ENV" in seen) == ("/home/al_gamma", "12", False)
    assert (node.work / "cwd").read_text() == f"{node.work}\n"
    assert (node.work / "private").read_text() == ""


def test_a_job_has_pe_hostfile_and_host_counts(node: Node) -> None:
    Path(node.env["OAR_NODEFILE"]).write_text("n2\nn1\nn2\n")
    node.run('echo "$NHOSTS $NSLOTS" >hosts; cat "$PE_HOSTFILE" >>hosts')

    told = (node.work / "hosts").read_text().splitlines()
    assert told == ["2 3", "n1 1 12@n1 UNDEFINED", "n2 2 12@n2 UNDEFINED"]


def test_a_job_that_cannot_start_ends_with_the_wrappers_signal(node: Node) -> None:
    """-57: no working directory, -58: no room on the node."""
    missing = node.run("exit 0", cwd="/nowhere")
    node.env["TMPDIR"] = "/nowhere"

    assert (missing, node.run("exit 0"), node.left()) == (-57, -58, [])


def test_a_job_is_stopped_with_its_children_and_continued(node: Node) -> None:
    keeper = node.start(f"({TICKING}) & wait\n")
    node.until_ticking()
    keeper.send_signal(signal.SIGTSTP)
    until(lambda: stays(node.ticks, 0.2), "the job to stop", 20)
    keeper.send_signal(signal.SIGCONT)

    node.until_ticking()


def test_other_signals_are_passed_to_the_job(node: Node) -> None:
    keeper = node.start(f"trap 'exit 4' USR2; {TICKING}")
    node.until_ticking()
    keeper.send_signal(signal.SIGUSR2)

    assert keeper.wait(20) == 4


def test_an_early_signal_is_not_lost(node: Node) -> None:
    """The job may run before the keeper knows its process id."""
    script = "trap 'exit 4' USR2; kill -USR2 $PPID; while :; do sleep 0.01; done"

    assert {node.run(script) for _ in range(30)} == {4}


@pytest.mark.parametrize("is_stopped", [False, True], ids=["running", "stopped"])
def test_a_killed_keeper_leaves_no_process_and_no_file(node: Node, is_stopped: bool) -> None:
    keeper = node.start(f"(trap '' TERM HUP; {TICKING}) & wait\n")
    node.until_ticking()
    if is_stopped:
        keeper.send_signal(signal.SIGTSTP)
        until(lambda: stays(node.ticks, 0.2), "the job to stop", 20)
    keeper.kill()

    until(lambda: stays(node.ticks, 0.2), "the job's processes to be gone", 20)
    until(lambda: not node.left(), "the files of the job to be removed", 20)


def test_a_keeper_removes_files_of_dead_keepers_on_its_node(node: Node) -> None:
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


def test_a_jobs_usage_is_recorded_with_its_childrens_usage(node: Node) -> None:
    note = node.file.parent / "used.12"
    keeper = node.start(f"{BURN} & wait; exit 3", tells=True)
    status = keeper.wait(60)
    user_s, system_s = map(float, note.read_text().split())
    note.unlink()
    node.run("exit 0")

    assert (status, user_s > 0.1, 0 <= system_s < user_s) == (3, True, True)
    assert not note.exists()


def test_background_processes_end_with_the_job(node: Node) -> None:
    node.run(f"({TICKING}) & until [ -s ticks ]; do sleep 0.02; done\n")

    assert node.ticks() > 0
    assert stays(node.ticks, 0.2)


class Array:
    def __init__(self, node: Node, script: str, cwd: str = "") -> None:
        self.node = node
        node.file = node.file.with_name("array.12")
        node.write(script, cwd, tasks=2)

    def run(self, place: int) -> int:
        told = {"OAR_ARRAY_ID": "12", "OAR_ARRAY_INDEX": str(place)}
        return self.node.launch(**told).wait(20)

    def left(self) -> list[str]:
        return sorted(path.name for path in self.node.file.parent.glob("array.*"))


@pytest.mark.parametrize(
    ("script", "cwd", "status", "between"),
    [
        ("exit 3", "", 3, BEGUN),
        ("kill -9 $$", "", -9, BEGUN),
        ("exit 0", "/nowhere", -57, BEGUN),
        ('rm "$OAR_FILE"', "", 0, []),
    ],
    ids=["exit", "killed", "no directory", "deleted meanwhile"],
)
def test_the_last_task_of_an_array_removes_the_arrays_files(
    node: Node, script: str, cwd: str, status: int, between: list[str]
) -> None:
    array = Array(node, script.replace("$OAR_FILE", str(node.file.with_name("array.12"))), cwd)
    ended = array.run(2)
    before = array.left()
    if before:
        array.run(1)

    assert (ended, before, array.left()) == (status, between, [])


LINK = 'case ${{gb_usage:-}} in ?*) ln -s "{}" "$gb_usage" ;; esac\n'  # as task.sh links its file
FILL = "x=$(head -c 30000000 /dev/zero | tr '\\0' x); head -c 400000 /dev/zero >file; sync file\n"


def is_usage_of_filled_memory(used: Path) -> bool:
    words = used.read_text().split() if used.exists() else []
    return len(words) == 2 and 29_000 < int(words[0]) < 200_000 and 390 <= int(words[1]) < 10_000


@pytest.mark.parametrize("tasks", [0, 2], ids=["a transferred job", "a task"])
def test_memory_and_written_bytes_of_a_task_are_measured(node: Node, tasks: int) -> None:
    used = node.file.with_name("used")
    node.file = node.file.with_name("array.12") if tasks else node.file
    node.write(LINK.format(used) + FILL, tasks=tasks)
    assert node.launch(OAR_ARRAY_ID="12", OAR_ARRAY_INDEX="1").wait(20) == 0

    assert used.exists() is bool(tasks)
    assert not tasks or is_usage_of_filled_memory(used)


def test_a_task_that_oar_kills_at_its_walltime_has_been_measured_before(node: Node) -> None:
    used = node.file.with_name("used")
    node.file = node.file.with_name("array.12")
    node.write(f"{LINK.format(used)}{FILL}{TICKING}", tasks=2)
    keeper = node.launch(OAR_ARRAY_ID="12", OAR_ARRAY_INDEX="1", OAR_JOB_WALLTIME_SECONDS="14")
    until(lambda: is_usage_of_filled_memory(used), "the usage", 20)
    keeper.kill()
    until(lambda: not [*node.scratch.iterdir()], "the task's private folder to be removed", 20)

    assert is_usage_of_filled_memory(used)


def test_a_killed_task_is_marked_as_ended(node: Node) -> None:
    array = Array(node, f"[ $OAR_ARRAY_INDEX = 1 ] || exit 0\n{TICKING}")
    array.run(2)
    keeper = node.launch(OAR_ARRAY_ID="12", OAR_ARRAY_INDEX="1")
    node.until_ticking()
    keeper.kill()

    until(lambda: not array.left(), "all files of the array to be removed", 20)


def test_a_task_that_oar_launches_twice_runs_once(node: Node) -> None:
    array = Array(node, "echo . >>ticks")
    first, again = array.run(1), array.run(1)

    assert (first, again, node.ticks()) == (0, -58, 2)
    assert array.left() == ["array.12", "array.12.begun"]


def test_an_alarm_ends_a_program_that_never_answers() -> None:
    began = time.monotonic()
    done = subprocess.run([*oar_command_line_builders.LIMITED, "1", "/bin/sleep", "60"], check=False)

    assert (done.returncode, time.monotonic() - began < 20) == (-signal.SIGALRM, True)
