"""Everybody sees the state of each task, as the state file has it, whoever is killed when."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.model.campaigns.campaign import (
    Array,
    Attempt,
    Campaign,
    CampaignState,
    Outcome,
    Waiting,
)
from gridbridge.model.campaigns.jdl import AtCluster, Jdl
from gridbridge.model.campaigns.shown import ShownCampaigns
from gridbridge.model.campaigns.task import ShownTask
from gridbridge.services.campaigns.forecasts import Forecasts
from gridbridge.services.campaigns.publication import Publication
from gridbridge.shell.clock import Clock
from gridbridge.state import campaigns_shown, tasks_shown
from gridbridge.state.database import Database
from gridbridge.state.database.campaigns import Campaigns
from gridbridge.state.database.predictions import Predictions

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SWEEP = Campaign(
    number=0,
    uid=1000,
    owner="alice",
    state=CampaignState.IN_TREATMENT,
    submitted_at=NOON,
    tasks=2500,
    digest="",
    jdl=Jdl(name="sweep", clusters={"beta": AtCluster(exec_file="run")}),
)


class Site:
    """A state file, and what is published from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = f"{folder}/published"
        Path(self.folder).mkdir()
        self.database = Database.open(f"sqlite:///{folder}/state.db")
        self.campaigns = Campaigns(self.database)
        self.publication = self.started()

    def started(self) -> Publication:
        """Return the publication of a process that has just begun."""
        clock = Clock()
        forecasts = Forecasts(self.campaigns, Predictions(self.database), clock, 15)
        return Publication(self.database, self.campaigns, forecasts, clock, self.folder)

    def send(self, tasks: int) -> tuple[Array, tuple[Attempt, ...]]:
        """Send tasks of campaign 1 to beta."""
        array = self.campaigns.intend(1, "beta", tasks, NOON)
        assert array
        return array, self.campaigns.pending(array)

    def ended(self, attempt: Attempt, outcome: Outcome) -> Attempt:
        """Note how an attempt ended."""
        known = replace(attempt, outcome=outcome, exit_status=3, wallclock_s=7)
        self.campaigns.ended([known])
        return known

    def shown(self, part: int = 0) -> dict[int, str]:
        """Return the words of the tasks of a part."""
        return {n: one.word for n, one in tasks_shown.read(1, part, self.folder).items()}


@pytest.fixture(name="site")
def _site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    site.campaigns.add(SWEEP, "token")
    yield site
    site.database.close()


def test_each_task_is_shown_by_its_last_attempt(site: Site) -> None:
    """One that waits for its next attempt waits; the numbers are those of the cluster."""
    _, (first, second, third) = site.send(3)
    failed = site.ended(first, Outcome.PROGRAM_ERROR)
    again = site.ended(second, Outcome.PREEMPTED)
    site.campaigns.wait_again(1, Waiting(first=1, last=1, attempt=2))

    site.publication.begin([1])
    site.publication.end([failed, again, third])

    assert site.shown() == {0: "program_error", 1: "waiting", 2: "sent"}
    known = ShownTask(number=0, attempt=1, outcome=Outcome.PROGRAM_ERROR, is_waiting=False)
    there = replace(known, cluster="beta", place=1, exit_status=3, wallclock_s=7)
    assert tasks_shown.read(1, 0, site.folder)[0] == there
    (end,) = tasks_shown.ends(1, site.folder)
    assert (end.cluster, end.tasks, end.failed) == ("beta", 1, 1)


def test_only_the_parts_that_a_cycle_touched_are_replaced(site: Site) -> None:
    """A million tasks are not written anew for each that ends."""
    _, attempts = site.send(2100)
    site.publication.end(attempts)
    before = Path(site.folder, "campaigns/1/tasks.0").stat().st_ino
    last = site.ended(attempts[2099], Outcome.SUCCESS)

    site.publication.end([last])

    assert site.shown(2)[2099] == "success"
    assert len(site.shown(1)) == 1000
    assert Path(site.folder, "campaigns/1/tasks.0").stat().st_ino == before


def test_what_a_killed_cycle_touched_is_shown_by_the_next(site: Site) -> None:
    """The campaigns that it was at are noted before anything changes."""
    _, attempts = site.send(2)
    site.publication.begin([1])
    site.ended(attempts[0], Outcome.SUCCESS)

    next_one = site.started()
    next_one.begin([])
    next_one.end([])

    assert site.shown() == {0: "success", 1: "sent"}
    assert tasks_shown.touching(site.folder) == frozenset()


def test_no_parameter_is_shown(site: Site) -> None:
    """Nor what is run."""
    site.publication.end(site.send(2)[1])
    site.publication.show([])

    texts = [path.read_text() for path in Path(site.folder).rglob("*") if path.is_file()]
    assert campaigns_shown.read(ShownCampaigns, site.folder)
    assert not any("run" in text for text in texts)


def test_everybody_can_read_it_whatever_the_umask_of_the_service_is(site: Site) -> None:
    """It is people's commands that read."""
    before = os.umask(0o077)
    try:
        site.publication.begin([1])
        site.publication.end([site.ended(site.send(1)[1][0], Outcome.SUCCESS)])
    finally:
        os.umask(before)

    places = Path(site.folder, "campaigns").rglob("*")
    assert {path.name: path.stat().st_mode & 0o777 for path in places} == {
        "1": 0o755,
        "tasks.0": 0o644,
        "ends": 0o644,
    }


def test_half_a_line_of_ends_is_skipped(site: Site) -> None:
    """Power may go while it is written."""
    site.publication.end([site.ended(site.send(1)[1][0], Outcome.SUCCESS)])
    with Path(site.folder, "campaigns/1/ends").open("a") as file:
        file.write("17672")

    assert len(tasks_shown.ends(1, site.folder)) == 1
