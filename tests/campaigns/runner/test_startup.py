"""A campaign program in a loop resets its watchdog after each call, however long a cycle takes."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from gridbridge.campaigns.runner import campaign_program_start
from gridbridge.errors import CommandFailed
from gridbridge.model.transfer_route import SshLogin
from gridbridge.shell import program_runs, ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.decision_journal import DecisionJournal
from gridbridge.state.state_file import StateFile


class Lost(ssh.OpenSshClient):
    def run_ssh_request(self, login: SshLogin, *_: object) -> tuple[CompletedProgram, bool]:
        raise CommandFailed((login.host,), None)


@pytest.fixture(name="calling")
def _calling(tmp_path: Path) -> Iterator[MagicMock]:
    """Return a program whose only cycle calls several clusters."""
    calling = MagicMock(pause_s=15.0, is_stopped=False, beats_after=[])
    calling.journal = DecisionJournal(StateFile.open(f"sqlite:///{tmp_path}/state.db"))
    calling.open_cycle.return_value.__enter__.return_value = calling
    calling.entry.return_value = None

    def call(*programs: str, login: SshLogin | None = None) -> None:
        calling.is_stopped = True
        for program in programs:
            with suppress(CommandFailed):
                ssh.run_over_ssh(login, (program,), {}, 9.0, carrier=Lost())
            calling.beats_after.append(calling.send_heartbeat.call_count)

    calling.gather.side_effect = lambda: call("/bin/true") or call("/bin/true", login=SshLogin(host="beta"))
    calling.apply.side_effect = lambda *_: call("/bin/true", "/no/such/program")
    yield calling
    program_runs.call_after_each_program_end(lambda: None)


def test_each_finished_or_failed_call_resets_the_watchdog(calling: MagicMock) -> None:
    campaign_program_start.run_cycles_until_signal(calling, calling, calling, Clock())

    assert calling.beats_after == [2, 3, 4, 4]


def test_a_single_cycle_releases_its_resources(calling: MagicMock) -> None:
    campaign_program_start.run_one_cycle(calling, is_dry=False)

    calling.release.assert_called_once_with()
