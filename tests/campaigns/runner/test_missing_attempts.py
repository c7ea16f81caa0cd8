"""A runner from cron keeps in files since when a task is missing, because each cycle is a new process."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.missing_and_straggling_attempts import MissingAttemptTracker
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_task_rows import TaskMissingAtClusterRows
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.shell.clock import Clock
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign


class Rounds:
    """Cycles of a runner; each cycle may be a new process."""

    def __init__(self, folder: Path) -> None:
        self.ran = folder / "runner.ran"
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.kept = TaskMissingAtClusterRows(self.database)
        self.campaigns = CampaignRows(self.database)
        self.campaigns.insert_campaign(made_campaign(tasks=3), "token")
        self.attempts = self.campaigns.unfinished_attempts(self.campaigns.create_array(1, "beta", 3, NOON))
        self.now_s = NOON.timestamp()
        self.steady_s = 50.0
        self.running: set[int] = set()  # places that run where they are listed
        self.new_process()

    def new_process(self) -> None:
        """Start a new process."""
        self.clock = Clock(lambda: self.now_s, lambda: self.steady_s)
        self.missing = MissingAttemptTracker(self.kept, self.clock, str(self.ran))

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
        self.steady_s += seconds

    def look(self, *gone: int) -> list[float]:
        """Run a cycle without these tasks in the job list; return since how many seconds each is missing."""
        self.missing.load_missing_tasks()
        absent = [self.attempts[n] for n in gone]
        (array,) = self.campaigns.open_arrays()
        listed = {one.place for one in self.attempts} - {one.place for one in absent}
        self.missing.record_listed_tasks(array, listed, self.running & listed)
        told = self.missing.missing_seconds_by_attempt(absent)
        self.missing.update_missing_tasks(absent, [])
        self.missing.save_started_tasks([array])
        self.kept.store_missing_tasks(self.missing.changed)
        return [told[one] for one in absent]


@pytest.fixture(name="rounds")
def _rounds(tmp_path: Path) -> Iterator[Rounds]:
    rounds = Rounds(tmp_path)
    yield rounds
    rounds.database.close()


@pytest.mark.parametrize("is_cron", [True, False], ids=["cron", "loop"])
def test_a_task_is_missing_since_the_first_cycle_without_it(rounds: Rounds, is_cron: bool) -> None:
    told = []
    for gone in ((1,), (1, 2), (1, 2)):
        told.append(rounds.look(*gone))
        rounds.later(60)
        if is_cron:
            rounds.new_process()

    assert told == [[0.0], [60.0, 0.0], [120.0, 60.0]]


def test_a_task_listed_again_is_not_missing(rounds: Rounds) -> None:
    rounds.look(1)
    rounds.look()
    rounds.later(60)
    rounds.new_process()

    assert rounds.look(1) == [0.0]


def test_an_ended_attempt_is_no_longer_missing(rounds: Rounds) -> None:
    rounds.look(0, 1)
    CampaignRows(rounds.database).record_attempt_ends([replace(rounds.attempts[0], outcome=TaskAttemptOutcome.SUCCESS)])
    rounds.kept.store_missing_tasks([])

    assert [*rounds.kept.missing_tasks()] == [(1, 1, 2)]


def test_no_missing_task_of_an_ended_array_stays_in_memory(rounds: Rounds) -> None:
    rounds.look(0, 1)
    rounds.missing.update_missing_tasks([rounds.attempts[0]], [rounds.attempts[0]])
    rounds.look(1)
    rounds.look()

    assert rounds.missing._since_s == {}


def test_a_changed_clock_makes_no_task_missing_for_longer(rounds: Rounds) -> None:
    rounds.look(1)
    rounds.now_s += 86400

    assert rounds.look(1) == [0.0]
    rounds.now_s -= 2 * 86400
    rounds.new_process()
    assert rounds.look(1) == [0.0]


def test_started_tasks_are_remembered_until_their_ends(rounds: Rounds) -> None:
    (array,) = rounds.campaigns.open_arrays()
    rounds.running = {1, 2}
    rounds.look()
    rounds.running = {1}
    rounds.look(0)
    ran = rounds.missing.indices_of_started_tasks(array)
    rounds.missing.update_missing_tasks(rounds.attempts[:1], rounds.attempts[:1])

    assert (ran, rounds.missing.indices_of_started_tasks(array)) == ({1}, set())


def test_started_tasks_are_known_to_the_next_process(rounds: Rounds) -> None:
    rounds.running = {1, 2}
    rounds.look()
    rounds.later(60)
    rounds.new_process()
    rounds.look(0, 1)
    rounds.new_process()
    (array,) = rounds.campaigns.open_arrays()

    assert rounds.missing.indices_of_started_tasks(array) == {1, 2}
    rounds.missing.save_started_tasks([])
    rounds.new_process()
    assert rounds.missing.indices_of_started_tasks(array) == set()


@pytest.mark.parametrize("kept", ["", "{", "[1]", '{"1": "2"}', '{"1.1": "5-"}', '{"1.1": null}'])
def test_a_damaged_file_of_started_tasks_is_ignored(rounds: Rounds, kept: str) -> None:
    rounds.ran.write_text(kept)
    rounds.new_process()
    (array,) = rounds.campaigns.open_arrays()

    assert rounds.missing.indices_of_started_tasks(array) == set()
