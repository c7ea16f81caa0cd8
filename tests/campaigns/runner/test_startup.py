"""A campaign program in a loop resets its watchdog after each call, however long a cycle takes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gridbridge.campaigns.runner import campaign_program_start
from gridbridge.errors import CommandFailed
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import program_runs, ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile

FAR = SshLogin(host="beta")


class Lost(ssh.OpenSshClient):
    def run_ssh_request(self, login: SshLogin, *_: object) -> tuple[CompletedProgram, bool]:
        raise CommandFailed((login.host,), None)


class Calling:
    """A program whose only cycle calls several clusters."""

    pause_s = 15.0

    def __init__(self, folder: Path) -> None:
        self.journal = DecisionJournal(StateFile.open(f"sqlite:///{folder}/state.db"))
        self.is_stopped = False
        self.beats = 0
        self.beats_after: list[int] = []
        self.is_released = False

    def send_heartbeat(self) -> None:
        self.beats += 1

    def wait_for_signal(self, _: float) -> bool:
        return True

    @contextmanager
    def open_cycle(self) -> Iterator["Calling"]:
        self.is_stopped = True
        yield self

    def gather(self) -> int:
        self._call(None)
        self._call(FAR)
        return 0

    def decide(self, _: int) -> int:
        return 0

    def entry(self, *_: int) -> DecisionJournalEntry | None:
        return None

    def apply(self, *_: int) -> None:
        """Run a program twice; the second program is missing."""
        self._call(None)
        self._call(None, "/no/such/program")

    def release(self) -> None:
        self.is_released = True

    def _call(self, login: SshLogin | None, program: str = "/bin/true") -> None:
        with suppress(CommandFailed):
            ssh.run_over_ssh(login, (program,), {}, 9.0, carrier=Lost())
        self.beats_after.append(self.beats)


@pytest.fixture(name="calling")
def _calling(tmp_path: Path) -> Iterator[Calling]:
    yield Calling(tmp_path)
    program_runs.call_after_each_program_end(lambda: None)


def test_each_finished_or_failed_call_resets_the_watchdog(calling: Calling) -> None:
    campaign_program_start.run_cycles_until_signal(calling, calling, calling, Clock())  # type: ignore[arg-type]  # what it needs of them

    assert calling.beats_after == [2, 3, 4, 4]


def test_a_single_cycle_releases_its_resources(calling: Calling) -> None:
    campaign_program_start.run_one_cycle(calling, is_dry=False)

    assert calling.is_released
