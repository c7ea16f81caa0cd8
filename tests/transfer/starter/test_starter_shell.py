"""The starter's waiting shell, with steps that answer what a test has written down.

Under dash and under bash, for either may be a site's /bin/sh and they wait in different ways.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.programs import write_program
from tests.contract.waiting import until

ROOT = Path(__file__).resolve().parents[3]
STEP = """#!/bin/sh
mkdir -p "$TMPDIR/.gridbridge"
echo "${4:-nothing}" >>"$TMPDIR/noted"
[ ! -e "$TMPDIR/under-way" ] || echo so >"$TMPDIR/.gridbridge/record"
n=$(wc -l <"$TMPDIR/noted")
exec cat "$TMPDIR/answer.$n"
"""


class Starter:
    """A starter script whose n-th step prints the n-th answer; a step without answer was killed."""

    def __init__(self, folder: Path, shell: str) -> None:
        self.folder = folder
        self.shell = shell
        self.verdict = folder / "verdict"
        self.fifo = folder / "wake/fifo"
        self.fifo.parent.mkdir()
        os.mkfifo(self.fifo)
        step = write_program(folder / "python", STEP)
        text = (ROOT / "sge-methods/starter").read_text().replace('*) sleep "$1"', "*) sleep 0.02")
        self.script = folder / "starter"
        self.script.write_text(re.sub(r"python=\S+", f"python={step}", text, count=1))

    def start(self, *answers: str) -> None:
        """Start the script as the shepherd does: in its own session, with the job's environment."""
        for number, answer in enumerate(answers, 1):
            if answer:
                (self.folder / f"answer.{number}").write_text(f"{answer}\n")
        folder = str(self.folder)
        self.process = subprocess.Popen(
            # a shell can't take back what was ignored when it began, as under nohup
            ["/usr/bin/env", "--default-signal", f"/bin/{self.shell}", str(self.script), "argument"],
            env={"TMPDIR": folder, "SGE_JOB_SPOOL_DIR": folder, "PATH": "/nowhere"},
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def nap(self, seconds: int = 60) -> str:
        return f"wait {seconds} {self.fifo} {self.verdict}"

    def asleep(self) -> list[int]:
        """Wait until the script waits on its FIFO; return the pids of the shell and its sleep process."""
        napping = {self.shell} | ({"sleep"} if self.shell == "dash" else set())
        return until(lambda: self.processes() if set(self.running()) == napping else [], "the script to wait", 10)

    def processes(self) -> list[int]:
        """Return all living processes of the script, if all sleep and one reads the FIFO."""
        return list(self.running().values()) if self._listens() else []

    def running(self) -> dict[str, int]:
        """Return the living processes of the session by name, if all of them sleep."""
        listed = subprocess.run(
            ["ps", "-s", str(self.process.pid), "-o", "pid=,stat=,comm="],
            capture_output=True, text=True, check=False
        ).stdout  # fmt: skip
        rows = [line.split() for line in listed.splitlines()]
        living = [(pid, stat, name) for pid, stat, name in rows if "Z" not in stat]
        is_quiet = all("S" in stat for _, stat, _ in living)
        return {name: int(pid) for pid, _, name in living} if is_quiet else {}

    def _listens(self) -> bool:
        try:
            os.close(os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    def decide(self) -> None:
        """Publish a job end, and wake the script once, as the poller does."""
        self.verdict.touch()
        end = os.open(self.fifo, os.O_WRONLY | os.O_NONBLOCK)
        os.write(end, b"\n")
        os.close(end)

    def ends(self, limit_s: float = 10) -> int:
        return self.process.wait(limit_s)

    def noted(self) -> list[str]:
        path = self.folder / "noted"
        return path.read_text().split() if path.exists() else []


@pytest.fixture(params=["dash", "bash"])
def starter(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Starter]:
    """Return a starter in its own folder; all its processes end with the test."""
    with _starter(tmp_path / "starter", request.param) as made:
        yield made


@contextlib.contextmanager
def _starter(folder: Path, shell: str) -> Iterator[Starter]:
    folder.mkdir()
    made = Starter(folder, shell)
    yield made
    if made.process.poll() is None:
        os.killpg(made.process.pid, signal.SIGKILL)
        made.process.wait()


def test_the_starter_script_has_less_than_60_lines() -> None:
    assert len((ROOT / "sge-methods/starter").read_text().splitlines()) < 60


@pytest.mark.parametrize("answer", [*(f"exit {n}" for n in (0, 7, 99, 100, 255)), "signal 1", "signal 9", "signal 15"])
def test_the_starter_script_ends_as_the_job_did(starter: Starter, answer: str) -> None:
    starter.start(answer)

    word, number = answer.split()
    assert starter.ends() == (int(number) if word == "exit" else -int(number))


@pytest.mark.parametrize("is_woken", [True, False], ids=["woken by the FIFO", "without a wake-up"])
def test_the_starter_script_sleeps_until_its_job_end_is_published(starter: Starter, is_woken: bool) -> None:
    starter.start(starter.nap() if is_woken else starter.nap(1), "exit 3")
    starter.asleep()
    starter.decide() if is_woken else starter.verdict.touch()

    assert starter.ends() == 3


def test_the_starter_script_is_woken_after_its_sleep_process_was_killed(tmp_path: Path) -> None:
    with _starter(tmp_path / "starter", "dash") as starter:
        starter.start(starter.nap(), "exit 3")
        _, first = sorted(starter.asleep())

        os.kill(first, signal.SIGKILL)
        until(lambda: starter.running().get("sleep", first) != first, "another sleep process", 10)
        starter.decide()

        assert starter.ends() == 3


def test_a_killed_step_of_a_rescheduled_task_ends_with_status_99(starter: Starter) -> None:
    for note in ("back", "dead"):
        (starter.folder / ".gridbridge").mkdir(exist_ok=True)
        (starter.folder / ".gridbridge" / note).touch()

    starter.start("", "exit 3")

    assert starter.ends() == 99


def test_a_notify_signal_is_passed_to_one_step(starter: Starter) -> None:
    starter.start(starter.nap(), starter.nap(), "exit 3")
    starter.asleep()

    os.killpg(starter.process.pid, signal.SIGUSR1)
    until(lambda: len(starter.noted()) == 2, "the second step", 10)
    starter.asleep()
    starter.decide()
    starter.ends()

    assert starter.noted() == ["nothing", "suspended", "nothing"]


@pytest.mark.parametrize("trouble", ["many waits", "a newer spool mark", "an emptied spool"])
def test_after_many_waits_or_a_changed_spool_a_step_checks_its_record(starter: Starter, trouble: str) -> None:
    """An emptied spool has lost its FIFO, and the step creates the FIFO again."""
    step, record, mark = starter.folder / "python", starter.folder / ".gridbridge/record", starter.folder / "m.mark"
    made = {"a newer spool mark": f"touch {record}", "an emptied spool": f"mkfifo {starter.fifo}"}.get(trouble, ":")
    step.write_text(step.read_text().replace("exec cat", f"{made} 2>/dev/null; exec cat"))
    brief = f"wait 0.01 {starter.fifo} {starter.verdict}" if trouble == "many waits" else starter.nap(1)
    starter.start(brief, starter.nap(), "exit 3")
    if trouble != "many waits":
        starter.asleep()
    if trouble == "a newer spool mark":
        mark.touch()
    elif trouble == "an emptied spool":
        starter.fifo.unlink()
    until(lambda: len(starter.noted()) == 2, "the second step", 10)
    starter.asleep()
    starter.decide()
    starter.ends()

    assert starter.noted() == ["nothing", "look", "nothing"]


def test_a_signal_is_passed_again_after_a_failed_step(starter: Starter) -> None:
    starter.start(starter.nap(), "again 1 - -", "exit 3")
    starter.asleep()

    os.killpg(starter.process.pid, signal.SIGUSR2)
    starter.ends()

    assert starter.noted() == ["nothing", "dead", "dead"]


def test_signals_of_limits_and_terminals_are_ignored(starter: Starter) -> None:
    starter.start(starter.nap(), "exit 3")

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGXCPU, signal.SIGXFSZ):
        starter.asleep()
        os.kill(starter.process.pid, number)
    starter.asleep()
    starter.decide()

    assert starter.ends() == 3
    assert starter.noted() == ["nothing", "nothing"]


def test_a_killed_step_is_repeated(starter: Starter) -> None:
    starter.start("", "exit 3")

    assert starter.ends() == 3


def test_a_step_that_cannot_run_ends_the_job_with_a_reason(starter: Starter) -> None:
    starter.start()

    assert starter.ends() == 100
    assert (starter.folder / "error").read_text().startswith("gridbridge: can't run ")


def test_killed_steps_of_a_begun_transfer_are_repeated_without_limit(starter: Starter) -> None:
    (starter.folder / "under-way").touch()
    starter.start("", "", "", "", "", "exit 3")

    assert starter.ends() == 3


def test_notes_from_before_a_power_cut_are_removed(starter: Starter) -> None:
    notes, config = starter.folder / ".gridbridge", starter.folder / "config"
    notes.mkdir()
    (notes / "record").touch()
    config.touch()
    os.utime(config, (time.time() + 60, time.time() + 60))
    starter.start(starter.nap(), "exit 3")
    starter.asleep()
    left = list(notes.glob("record"))
    (notes / "intent").touch()
    starter.decide()

    assert (left, starter.ends()) == ([], 3)


def test_a_waiting_starter_uses_less_than_a_megabyte(tmp_path: Path) -> None:
    with contextlib.ExitStack() as ended:
        waiting = [ended.enter_context(_starter(tmp_path / name, "dash")) for name in "abcd"]
        for starter in waiting:
            starter.start(starter.nap(), "exit 3")
        kb = sum(_pss_kb(pid) for starter in waiting for pid in starter.asleep())

    assert 0 < kb / len(waiting) < 1024


def _pss_kb(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])
