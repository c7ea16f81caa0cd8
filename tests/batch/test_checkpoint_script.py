"""Tests of tasks with checkpoints, whose array script really runs here."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gridbridge.batch.campaign_array_script import CampaignArrayScriptTask
from tests.batch.test_task_script import PREEMPT, written
from tests.contract.waiting import until

SETTINGS = {"outputs": "", "checkpoints": "state", "signal": "USR2", "checkpoint_s": "1"}
SAVE = "echo $n >state.new; mv state.new state"
# counts to 60 tenths of a second, and saves the count at the signal
COUNT = (
    'echo "from ${GRIDBRIDGE_CHECKPOINT:-0}"; n=$(cat state 2>/dev/null || echo 0); '
    f"trap '{SAVE}' USR2; while [ $n -lt 60 ]; do sleep 0.1; n=$((n + 1)); done; echo $n #"
)


class Attempts:
    """Attempts of task 7, whose files are in `folder`."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder, self.number = home, home / "data" / "campaign.12", 0

    def begin(self, command: str = COUNT, copy: int = 0, **settings: str) -> subprocess.Popen[bytes]:
        self.number += 1
        task = CampaignArrayScriptTask(7, self.number, ("north",))
        task.copy = copy
        path, environment = written(self.home, task, **SETTINGS | {"exec": command} | settings)
        program = ("env", "--default-signal", "/bin/sh", path)
        return subprocess.Popen(program, env=environment, start_new_session=True)

    def run(self, command: str, **settings: str) -> int:
        return self.begin(command, **settings).wait(30)

    def read(self, name: str) -> str:
        path = self.folder / f"7.{self.number}{name}"
        return path.read_text() if path.exists() else ""

    def until_noted(self, checkpoints: int = 1) -> None:
        until(lambda: self.read(".checkpoints").count("\n") >= checkpoints, "a checkpoint to be noted")


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    return Attempts(tmp_path)


def kill_group(task: subprocess.Popen[bytes]) -> None:
    os.killpg(task.pid, signal.SIGKILL)
    task.wait(10)


def test_a_lost_task_goes_on_at_its_checkpoint(attempts: Attempts) -> None:
    """Its host lost power: nothing of the attempt ran any more after the kill."""
    lost = attempts.begin()
    attempts.until_noted()
    kill_group(lost)
    saved = int(attempts.read("/state"))

    status = attempts.run(COUNT.replace("n=$(", "echo $(cat state) >found; n=$("))

    assert (0, "from 1\n60\n") == (status, attempts.read(".out"))
    assert 0 < saved <= int((attempts.folder / "7" / "found").read_text()) < 60
    assert not (attempts.folder / "7" / "state").exists(), "a successful task needs no checkpoint"
    assert not (attempts.folder / "7.1" / "state").exists(), "a newer checkpoint replaced it"


def test_the_time_from_the_signal_to_the_renamed_file_and_its_size_are_noted(attempts: Attempts) -> None:
    slow = attempts.begin(COUNT.replace(SAVE, f"sleep 1.5; {SAVE}"), checkpoint_s="3")
    attempts.until_noted()
    kill_group(slow)

    took, size = map(int, attempts.read(".checkpoints").split()[:2])
    assert 150 <= took <= 400
    assert len(attempts.read("/state")) == size


def test_a_checkpoint_is_complete_when_all_files_have_been_replaced(attempts: Attempts) -> None:
    half = COUNT.replace(SAVE, f"[ -e a ] || date >a; {SAVE}")
    task = attempts.begin(half, checkpoints="a state")
    attempts.until_noted()
    until(lambda: int(attempts.read("/state")) > 30, "the third signal")
    kill_group(task)

    assert 1 == attempts.read(".checkpoints").count("\n")


@pytest.mark.parametrize(
    ("command", "status"),
    [("sleep 2.5 #", 0), ("exec sleep 60 #", -signal.SIGUSR2), ("sleep 2.5; sh -c 'exit 3' #", 3)],
    ids=["a child that has no handler", "a program in place of the shell", "several commands"],
)
def test_the_signal_goes_to_the_shell_and_its_programs_or_to_the_program_in_its_place(
    attempts: Attempts, command: str, status: int
) -> None:
    """The signal ends a program without a handler, but not the shell: the commands after it run."""
    assert (status or -signal.SIGUSR2 if command == "sleep 2.5 #" else status) == attempts.run(command)
    assert "" == attempts.read(".checkpoints")


@pytest.mark.parametrize("interval", ["1", "600"])
@pytest.mark.parametrize("end", ["", "; exit 0"], ids=["goes on", "ends"])
def test_the_checkpoint_of_a_preempted_task_counts(attempts: Attempts, interval: str, end: str) -> None:
    task = attempts.begin(
        COUNT.replace(SAVE, SAVE + end).replace("60 ]; do", "600 ]; do touch ../began;"), checkpoint_s=interval
    )
    until(lambda: (attempts.folder / "began").exists(), "the program to begin")
    (attempts.home / "job_pid").write_text(f"{task.pid}\n")

    subprocess.run([PREEMPT], env={"SGE_JOB_SPOOL_DIR": str(attempts.home), "SGE_ACCOUNT": "gc.a.12.1"}, check=True)

    assert -55 == task.wait(15)
    kill_leftovers(task)
    assert attempts.read("/state")
    assert attempts.read(".checkpoints")


def kill_leftovers(task: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(task.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_a_task_that_saves_by_itself_has_a_checkpoint_too(attempts: Attempts) -> None:
    assert 3 == attempts.run(f"n=1; {SAVE}; exit 3 #", checkpoint_s="600")

    assert "- 2\n" == attempts.read(".checkpoints")


def test_an_attempt_that_changes_no_file_of_its_checkpoint_makes_no_progress(attempts: Attempts) -> None:
    attempts.run(f"n=1; {SAVE}; exit 3 #", checkpoint_s="600")

    assert 3 == attempts.run("cat state; exit 3 #", checkpoint_s="600")

    assert ("1\n", "") == (attempts.read(".out"), attempts.read(".checkpoints"))


@pytest.mark.parametrize(
    ("names", "files", "shown"),
    [
        (("state",), {1: ("state",), 2: ("state",)}, "2"),
        (("state",), {1: ("state",), 2: ()}, "1"),
        (("a", "b/c"), {1: ("a", "b/c"), 2: ("a",)}, "1"),
        (("a", "b/c"), {1: ("a",), 2: ("b/c",)}, "none"),
    ],
    ids=["the last", "of an attempt before", "a whole set", "no whole set"],
)
def test_an_attempt_begins_with_the_last_whole_checkpoint(
    attempts: Attempts, names: Sequence[str], files: dict[int, tuple[str, ...]], shown: str
) -> None:
    for number, left in files.items():
        for name in left:
            path = attempts.folder / f"7.{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(number))
    attempts.number = len(files)
    attempts.folder.mkdir(exist_ok=True)
    attempts.folder.chmod(0o700)

    attempts.run(f"cat {names[-1]} 2>/dev/null || echo none #", checkpoints=" ".join(names))

    assert shown == attempts.read(".out").strip()


def test_a_speculative_attempt_leaves_the_checkpoint_to_the_attempt_that_still_runs(attempts: Attempts) -> None:
    attempts.run(f"n=1; {SAVE}; exit 3 #")

    attempts.begin(f"n=2; {SAVE}; exit 3 #", copy=1).wait(30)

    states = [(attempts.folder / f"7.{number}" / "state").read_text() for number in (1, 2)]
    assert ["1\n", "2\n"] == states


def test_the_timer_ends_with_its_task(attempts: Attempts) -> None:
    task = attempts.begin("true #", checkpoint_s="599")
    assert 0 == task.wait(10)

    with pytest.raises(ProcessLookupError):
        os.killpg(task.pid, 0)
