"""A runner from cron knows since when a task is missing: each of its rounds is a new process."""

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
    """Rounds of a runner; each may be a new process."""

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
        """Begin another one."""
        self.clock = Clock(lambda: self.now_s, lambda: self.steady_s)
        self.missing = MissingAttemptTracker(self.kept, self.clock, str(self.ran))

    def later(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds
        self.steady_s += seconds

    def look(self, *gone: int) -> list[float]:
        """Do a round in which these are not listed; return for how long that has been so."""
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
def test_a_task_is_missing_since_the_first_round_that_missed_it(rounds: Rounds, is_cron: bool) -> None:
    told = []
    for gone in ((1,), (1, 2), (1, 2)):
        told.append(rounds.look(*gone))
        rounds.later(60)
        if is_cron:
            rounds.new_process()

    assert told == [[0.0], [60.0, 0.0], [120.0, 60.0]]


def test_one_that_is_listed_again_is_not_missing(rounds: Rounds) -> None:
    rounds.look(1)
    rounds.look()
    rounds.later(60)
    rounds.new_process()

    assert rounds.look(1) == [0.0]


def test_what_has_ended_is_forgotten(rounds: Rounds) -> None:
    rounds.look(0, 1)
    CampaignRows(rounds.database).record_attempt_ends([replace(rounds.attempts[0], outcome=TaskAttemptOutcome.SUCCESS)])
    rounds.kept.store_missing_tasks([])

    assert [*rounds.kept.missing_tasks()] == [(1, 1, 2)]


def test_of_arrays_that_are_over_nothing_is_held(rounds: Rounds) -> None:
    """A runner that goes on for months has had very many."""
    rounds.look(0, 1)
    rounds.missing.update_missing_tasks([rounds.attempts[0]], [rounds.attempts[0]])
    rounds.look(1)
    rounds.look()

    assert rounds.missing._since_s == {}


def test_a_clock_that_is_set_makes_nothing_older(rounds: Rounds) -> None:
    """A running process counts steady seconds; one that begins later has only the time of day."""
    rounds.look(1)
    rounds.now_s += 86400

    assert rounds.look(1) == [0.0]
    rounds.now_s -= 2 * 86400
    rounds.new_process()
    assert rounds.look(1) == [0.0]


def test_what_ran_when_it_was_listed_last_is_known_until_it_has_ended(rounds: Rounds) -> None:
    """What was put back waits again."""
    (array,) = rounds.campaigns.open_arrays()
    rounds.running = {1, 2}
    rounds.look()
    rounds.running = {1}
    rounds.look(0)
    ran = rounds.missing.indices_of_started_tasks(array)
    rounds.missing.update_missing_tasks(rounds.attempts[:1], rounds.attempts[:1])

    assert (ran, rounds.missing.indices_of_started_tasks(array)) == ({1}, set())


def test_what_ran_is_known_to_the_next_process(rounds: Rounds) -> None:
    """Of it a cluster that knows nothing any more has lost something; else it never began."""
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
def test_what_is_not_as_it_was_kept_counts_for_nothing(rounds: Rounds, kept: str) -> None:
    rounds.ran.write_text(kept)
    rounds.new_process()
    (array,) = rounds.campaigns.open_arrays()

    assert rounds.missing.indices_of_started_tasks(array) == set()
