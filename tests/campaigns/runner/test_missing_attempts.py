"""A runner from cron keeps in files since when a task is missing, because each cycle is a new process."""

from pathlib import Path

import pytest

from gridbridge.campaigns.runner.missing_and_straggling_attempts import MissingAttemptTracker
from gridbridge.campaigns.store.campaign_task_rows import TaskMissingAtClusterRows
from gridbridge.shell.clock import Clock
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, site_fixture


class CronSite(CampaignSite):
    """A site where each cycle of the runner may be a new process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=3))
        self.ran = folder / "runner.ran"
        self.kept = TaskMissingAtClusterRows(self.database)
        self.pending = self.attempts(self.send(3))
        self.now_s = NOON.timestamp()
        self.steady_s = 50.0
        self.running: set[int] = set()  # array indices of listed tasks that run
        self.new_process()

    def new_process(self) -> None:
        self.clock = Clock(lambda: self.now_s, lambda: self.steady_s)
        self.missing = MissingAttemptTracker(self.kept, self.clock, str(self.ran))

    def later(self, seconds: float) -> None:
        self.now_s += seconds
        self.steady_s += seconds

    def look(self, *gone: int) -> list[float]:
        """Run a cycle whose job list lacks these tasks; return for how many seconds each task is missing."""
        self.missing.load_missing_tasks()
        absent = [self.pending[n] for n in gone]
        listed = {one.place for one in self.pending} - {one.place for one in absent}
        self.missing.record_listed_tasks(self.array, listed, self.running & listed)
        told = self.missing.missing_seconds_by_attempt(absent)
        self.missing.update_missing_tasks(absent, [])
        self.missing.save_started_tasks([self.array])
        self.kept.store_missing_tasks(self.missing.changed)
        return [told[one] for one in absent]


_site = site_fixture(CronSite)


@pytest.mark.parametrize("is_cron", [True, False], ids=["cron", "loop"])
def test_a_task_is_missing_since_the_first_cycle_without_it(site: CronSite, is_cron: bool) -> None:
    told = []
    for gone in ((1,), (1, 2), (1, 2)):
        told.append(site.look(*gone))
        site.later(60)
        if is_cron:
            site.new_process()

    assert told == [[0.0], [60.0, 0.0], [120.0, 60.0]]


def test_a_task_listed_again_is_not_missing(site: CronSite) -> None:
    site.look(1)
    site.look()
    site.later(60)
    site.new_process()

    assert site.look(1) == [0.0]


def test_no_missing_task_of_an_ended_array_stays_in_memory(site: CronSite) -> None:
    site.look(0, 1)
    site.missing.update_missing_tasks([site.pending[0]], [site.pending[0]])
    site.look(1)
    site.look()

    assert site.missing._since_s == {}


def test_a_changed_clock_makes_no_task_missing_for_longer(site: CronSite) -> None:
    site.look(1)
    site.now_s += 86400

    assert site.look(1) == [0.0]
    site.now_s -= 2 * 86400
    site.new_process()
    assert site.look(1) == [0.0]


def test_started_tasks_are_remembered_until_their_ends(site: CronSite) -> None:
    site.running = {1, 2}
    site.look()
    site.running = {1}
    site.look(0)
    ran = site.missing.indices_of_started_tasks(site.array)
    site.missing.update_missing_tasks(site.pending[:1], site.pending[:1])

    assert (ran, site.missing.indices_of_started_tasks(site.array)) == ({1}, set())


def test_started_tasks_are_known_to_the_next_process(site: CronSite) -> None:
    site.running = {1, 2}
    site.look()
    site.later(60)
    site.new_process()
    site.look(0, 1)
    site.new_process()

    assert site.missing.indices_of_started_tasks(site.array) == {1, 2}
    site.missing.save_started_tasks([])
    site.new_process()
    assert site.missing.indices_of_started_tasks(site.array) == set()


@pytest.mark.parametrize("kept", ["", "{", "[1]", '{"1": "2"}', '{"1.1": "5-"}', '{"1.1": null}'])
def test_a_damaged_file_of_started_tasks_is_ignored(site: CronSite, kept: str) -> None:
    site.ran.write_text(kept)
    site.new_process()

    assert site.missing.indices_of_started_tasks(site.array) == set()
