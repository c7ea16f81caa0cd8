"""The steps of a program's cycle, their order, and the handling of failures."""

import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from subprocess import PIPE, Popen, call
from tempfile import TemporaryDirectory

import pytest

from gridbridge.campaigns.runner.campaign_program_start import log_cycle_sentence
from gridbridge.errors import CommandFailed
from gridbridge.program import service_cycle
from gridbridge.program.service_cycle import FIRST_PAUSE_S, LONGEST_PAUSE_S, NOTHING
from gridbridge.shell import program_lock_file
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_startup import version_with_commit
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile
from tests.program.test_threads import without_room

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNREACHED = CommandFailed(("qstat",), 1, stderr=b"unable to contact qmaster")


class Balance:
    """A program that adds a host for each waiting job."""

    pause_s = 60.0

    def __init__(self, folder: Path, waiting: int = 2) -> None:
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.journal = DecisionJournal(self.database)
        self.waiting = waiting
        self.done: list[str] = []
        self.told: list[str] = []
        self.faults: list[Exception] = []
        self.news: list[bool] = []

    def gather(self) -> int:
        self.done.append("gather")
        if self.faults:
            raise self.faults.pop(0)
        return self.waiting

    def decide(self, seen: int) -> tuple[str, ...]:
        return ("add",) * seen

    def journal_entry(self, seen: int, plan: tuple[str, ...]) -> DecisionJournalEntry | None:
        if not plan:
            return None
        sentence = f"{seen} jobs waiting: add {len(plan)}"
        return DecisionJournalEntry(at=NOON, program="balance", sentence=sentence, inputs={"waiting": seen})

    def apply(self, _: int, plan: tuple[str, ...]) -> None:
        """Add the hosts, and record how many decisions the journal has by then."""
        self.done += [f"{act}, {len(self.kept())} kept" for act in plan]

    @contextmanager
    def open_cycle(self) -> Iterator["Balance"]:
        yield self

    def should_start_cycle_early(self) -> bool:
        return self.news.pop() if self.news else False

    def recover(self) -> None:
        self.done.append("recover")

    def release(self) -> None:
        self.done.append("release")

    def kept(self) -> list[str]:
        return [one.sentence for one in DecisionJournal(self.database).last_decisions(9)]


class Waiting:
    """Signals, heartbeat and clock; waiting advances the clock."""

    def __init__(self) -> None:
        self.is_stopped = False
        self.now_s = 0.0
        self.waits: list[float] = []
        self.lived: list[str] = []
        self.clock = Clock(lambda: self.now_s, lambda: self.now_s)

    def wait_for_signal(self, limit_s: float) -> bool:
        self.waits.append(limit_s)
        self.now_s += limit_s
        return False

    def send_heartbeat(self) -> None:
        """Do nothing."""

    def announce_long_step(self) -> None:
        self.lived.append("begin")


class Stopping(Balance):
    """A balance that is stopped in a given cycle."""

    def __init__(self, folder: Path, waiting: Waiting, cycles: int) -> None:
        super().__init__(folder)
        self.signals = waiting
        self.cycles = cycles

    def gather(self) -> int:
        """Gather; SIGTERM arrives during the last cycle."""
        self.cycles -= 1
        self.signals.is_stopped = self.cycles == 0
        return super().gather()


def run_until_stopped(balance: Stopping, *sayings: Callable[..., None]) -> None:
    signals = balance.signals
    service_cycle.run_cycles_forever(balance, signals, signals, signals.clock, *sayings)  # type: ignore[arg-type]  # what it needs of them


@pytest.fixture
def balance(tmp_path: Path) -> Balance:
    """Return a program for which two jobs wait."""
    return Balance(tmp_path)


def test_a_decision_is_recorded_and_printed_before_it_is_applied(balance: Balance) -> None:
    plan = service_cycle.run_cycle_once(balance, balance.told.append)

    assert plan == ("add", "add")
    assert balance.told == balance.kept() == ["2 jobs waiting: add 2"]
    assert balance.done == ["gather", "add, 1 kept", "add, 1 kept"]
    assert DecisionJournal(balance.database).last_decisions(1)[0].inputs == {"waiting": 2}


@pytest.mark.parametrize(("waiting", "sentence"), [(2, "2 jobs waiting: add 2"), (0, NOTHING)])
def test_a_dry_run_prints_the_plan_and_changes_nothing(balance: Balance, waiting: int, sentence: str) -> None:
    balance.waiting = waiting
    if not waiting:
        service_cycle.run_cycle_once(balance, balance.told.append)
        assert balance.told == []  # only a dry run prints an empty plan
        balance.done.clear()
    plan = service_cycle.run_cycle_once(balance, balance.told.append, is_dry=True)

    assert (plan, balance.told) == (("add",) * waiting, [sentence])
    assert (balance.done, balance.kept()) == (["gather"], [])


def test_a_failed_single_cycle_raises_its_error(balance: Balance) -> None:
    balance.faults.append(UNREACHED)

    with pytest.raises(CommandFailed, match="unable to contact qmaster"):
        service_cycle.run_cycle_once(balance, balance.told.append)
    assert (balance.told, balance.kept()) == ([], [])


def test_a_failed_cycle_is_followed_by_recovery_and_the_next_cycle(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    waiting = Waiting()
    balance = Stopping(tmp_path, waiting, cycles=3)
    balance.faults += [UNREACHED, UNREACHED]
    run_until_stopped(balance)

    why = "qstat: unable to contact qmaster"
    anew = ["release", "recover", "gather"]
    assert balance.done[:7] == ["gather", *anew, *anew]
    assert [one.getMessage() for one in caplog.records if one.name == service_cycle.__name__] == [
        f"event=cycle_failed why={why!r}",
        f"event=cycle_failed why={why!r}",
        f"event=well_again after={why!r}",
    ]
    assert not any(one.exc_info for one in caplog.records)
    assert waiting.lived == ["begin", "begin"]
    assert sum(waiting.waits) == 3 * FIRST_PAUSE_S + balance.pause_s


def test_the_sentence_of_a_campaign_cycle_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A cycle that does nothing is not logged."""
    caplog.set_level("INFO")
    waiting = Waiting()
    balance = Stopping(tmp_path, waiting, cycles=2)
    balance.waiting = 0
    run_until_stopped(balance, log_cycle_sentence)
    assert "event=round" not in caplog.text

    waiting.is_stopped, balance.waiting, balance.cycles = False, 2, 1
    run_until_stopped(balance, log_cycle_sentence)

    assert "event=round does='2 jobs waiting: add 2'" in caplog.text


class Failing(Stopping):
    pause_s = 7.0

    def __init__(self, folder: Path, waiting: Waiting, fails: str) -> None:
        super().__init__(folder, waiting, cycles=len(fails))
        self.began_s: list[float] = []
        self.fails = fails

    def gather(self) -> int:
        self.began_s.append(self.signals.now_s)
        if self.fails[len(self.began_s) - 1] == "x":
            self.faults.append(UNREACHED)
        return super().gather()


def test_consecutive_failures_double_the_pause_up_to_a_minute(tmp_path: Path) -> None:
    """A successful cycle resets the pause."""
    balance = Failing(tmp_path, Waiting(), fails="xxxxxx.x.")
    run_until_stopped(balance)

    pauses = [after - before for before, after in pairwise(balance.began_s)]
    first, longest = FIRST_PAUSE_S, LONGEST_PAUSE_S
    assert pauses == [first, 2 * first, 4 * first, 8 * first, longest, longest, 7.0, first]


def test_a_stopped_program_finishes_its_cycle(tmp_path: Path) -> None:
    balance = Stopping(tmp_path, Waiting(), cycles=1)
    run_until_stopped(balance)

    assert balance.done == ["gather", "add, 1 kept", "add, 1 kept"]


@pytest.mark.parametrize("fault", [ZeroDivisionError, RuntimeError, RecursionError])
def test_an_unexpected_exception_ends_the_program(tmp_path: Path, fault: type[Exception]) -> None:
    """Its supervisor restarts the program, and the log has the traceback."""
    balance = Stopping(tmp_path, Waiting(), cycles=1)
    balance.faults.append(fault())

    with pytest.raises(fault):
        run_until_stopped(balance)


class Threaded(Stopping):
    """A balance that queries its clusters in threads, which cannot start in its first two cycles."""

    def __init__(self, folder: Path, waiting: Waiting, give_room: Callable[[], None]) -> None:
        super().__init__(folder, waiting, cycles=3)
        self.give_room = give_room

    def gather(self) -> int:
        """Query in a thread, then by a process, then in a thread again."""
        self.cycles -= 1
        if self.cycles == 1:
            return os.waitpid(os.fork(), 0)[1]
        if not self.cycles:
            self.give_room()
        with ThreadPoolExecutor(2) as threads:
            found = sum(threads.map(int, "11"))
        self.signals.is_stopped = True
        return found


def test_a_thread_or_process_that_cannot_start_does_not_end_the_program(capfd: pytest.CaptureFixture[str]) -> None:
    def act(give_room: Callable[[], None]) -> None:
        logging.basicConfig(level=logging.INFO, force=True)
        with TemporaryDirectory() as folder:
            balance = Threaded(Path(folder), Waiting(), give_room)
            run_until_stopped(balance)
        assert balance.done[-2:] == ["add, 1 kept", "add, 1 kept"]

    without_room(act)
    told = capfd.readouterr().err
    assert "Traceback" not in told
    assert 'event=cycle_failed why="can\'t start new thread"' in told
    assert "event=cycle_failed why='Resource temporarily unavailable'" in told
    assert "event=well_again" in told


class Losing(Stopping):
    """A balance that fails to look for news after its first cycle."""

    def should_start_cycle_early(self) -> bool:
        self.done.append("look")
        if self.done.count("look") == 1:
            raise UNREACHED
        return False


def test_a_failed_look_for_news_counts_as_a_failed_cycle(tmp_path: Path) -> None:
    """The next cycle recovers first, and begins only after the pause."""
    waiting = Waiting()
    balance = Losing(tmp_path, waiting, cycles=2)
    run_until_stopped(balance)

    after = balance.done[balance.done.index("look") :]
    assert after[:4] == ["look", "release", "recover", "gather"]
    assert sum(waiting.waits) >= balance.pause_s


HOLD = """
import sys
from gridbridge.shell import program_lock_file as lock
print(lock.take_lock_until_exit(sys.argv[1]), flush=True)
sys.stdin.read()
"""


def test_a_held_program_lock_prints_one_line_and_exits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "lock")
    with Popen((sys.executable, "-c", HOLD, path), stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"True\n"
        with pytest.raises(SystemExit) as ended:
            service_cycle.take_program_lock(path, "gridbridge-balance", 3)
        said = capsys.readouterr().err
        other.communicate()
    service_cycle.take_program_lock(path, "gridbridge-balance", 3)

    assert (ended.value.code, said) == (3, "gridbridge-balance: another instance runs\n")
    assert capsys.readouterr().err == ""
    assert program_lock_file.lock_file_holder_version(path) == version_with_commit()


@pytest.mark.parametrize("acts", ["take_program_lock(PATH, NAME, 3)", "hold_program_lock(PATH, NAME, 3).__enter__()"])
def test_the_message_about_another_instance_has_a_time_in_a_log_file(tmp_path: Path, acts: str) -> None:
    log, path = tmp_path / "balance.log", str(tmp_path / "lock")
    program = f"from gridbridge.program import service_cycle; PATH, NAME = {path!r}, 'p'; service_cycle.{acts}"
    with Popen((sys.executable, "-c", HOLD, path), stdin=PIPE, stdout=PIPE) as other:
        assert other.stdout
        assert other.stdout.readline() == b"True\n"
        with log.open("a") as end:
            status = call((sys.executable, "-c", program), stderr=end)
        other.communicate()

    assert status == 3
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(rf"{time} p: another instance runs\n", log.read_text())
