"""Outputs of successful tasks come home once, in the background; a failure is an event and is tried again."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.background_readings import BackgroundPrograms
from gridbridge.campaigns.store.campaign_task_rows import UnbroughtOutputRows
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, PlannedCampaignTaskSend
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.fixed_paths import NOT_NOW
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import NOON, made_campaign, site_fixture
from tests.campaigns.runner.fake_clusters import CarryingGrid, GridSite

SUCCESS, FAILED = TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.PROGRAM_ERROR


class BringingSite(GridSite):
    """A campaign whose three tasks were sent to beta, and which brings outputs home."""

    def __init__(self, folder: Path, outputs_to: str = "/home/alice/results") -> None:
        self.passed_s = 0.0
        self.clock = Clock(lambda: NOON.timestamp() + self.passed_s, lambda: self.passed_s)
        campaign = made_campaign(tasks=3)
        jdl = replace(campaign.jdl, outputs=("{}.txt",), outputs_to=outputs_to)
        super().__init__(folder, replace(campaign, jdl=jdl), grid=CarryingGrid(), clock=self.clock)
        self.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=3),)))
        self.grid.told.clear()

    def end_tasks(self, *outcomes: TaskAttemptOutcome) -> None:
        """End the first unfinished tasks with these outcomes."""
        pairs = zip(self.attempts(), outcomes, strict=False)
        self.do(CampaignCyclePlan(ended=tuple(replace(attempt, outcome=outcome) for attempt, outcome in pairs)))

    def end_carry(self, *answer: object) -> None:
        self.grid.end_carry(*answer)
        self.do(CampaignCyclePlan())

    def awaited(self, cluster: str = "beta") -> frozenset[int]:
        """Return the campaigns that wait for their outputs, if this is the only cluster of the site."""
        return UnbroughtOutputRows(self.database).campaigns_with_outputs_to_bring({cluster})


_site = site_fixture(BringingSite)


def test_outputs_of_successful_tasks_are_brought_once(site: BringingSite) -> None:
    site.end_tasks(SUCCESS, FAILED)
    site.end_tasks(SUCCESS)
    assert (["bring 1 beta [0]"], frozenset({1})) == (site.grid.told, site.awaited())
    assert frozenset() == site.awaited("gamma")

    site.end_carry()
    site.end_carry()
    site.do(CampaignCyclePlan())

    assert (["bring 1 beta [0]", "bring 1 beta [2]"], frozenset()) == (site.grid.told, site.awaited())


def test_a_campaign_without_a_folder_for_outputs_brings_nothing(tmp_path: Path) -> None:
    site = BringingSite(tmp_path, outputs_to="")

    site.end_tasks(SUCCESS)

    assert [] == site.grid.told


def test_outputs_are_brought_again_after_a_restart_and_if_another_program_was_busy(site: BringingSite) -> None:
    site.end_tasks(SUCCESS)
    site.end_carry(NOT_NOW)
    site.do = site.executor(site.clock).execute_plan
    site.do(CampaignCyclePlan())

    assert ["bring 1 beta [0]"] * 3 == site.grid.told
    assert not site.events.query_open_events()


@pytest.mark.parametrize(
    ("answer", "tasks", "why", "again"),
    [
        ((2, b"", b"beta: no route to host\n"), 2, "beta: no route to host", [0, 1]),
        ((0, b'{"missing": {"1": "1.txt: no space left"}, "absent": []}'), 1, "1.txt: no space left", [1]),
        ((0, b'{"missing": {"1": "1.txt: no such file"}, "absent": [1]}'), 1, "1.txt: no such file", [1]),
        ((0, b"[]"), 2, "bring-outputs: b'[]'", [0, 1]),
    ],
    ids=["no connection", "a full disk", "a missing file", "no answer of the program"],
)
def test_what_can_not_be_brought_is_an_event_and_is_tried_again(
    site: BringingSite, answer: tuple[object, ...], tasks: int, why: str, again: list[int]
) -> None:
    """The campaign waits for all outputs but those that are not at the cluster."""
    site.end_tasks(SUCCESS, SUCCESS)
    site.end_carry(*answer)

    (event,) = site.events.query_open_events()
    assert (CampaignEventCode.OUTPUT_ERROR, tasks, why) == (event.code, event.tasks, event.why)
    assert (frozenset() if b'"absent": [1]' in answer[-1] else frozenset({1})) == site.awaited()
    site.do(CampaignCyclePlan())
    assert ["bring 1 beta [0, 1]"] == site.grid.told

    site.passed_s = (event.until - NOON).total_seconds()
    site.do(CampaignCyclePlan())
    site.end_carry()

    assert ["bring 1 beta [0, 1]", f"bring 1 beta {again}"] == site.grid.told
    assert not site.events.query_open_events()


def test_one_program_of_an_owner_brings_outputs_from_a_cluster(site: BringingSite) -> None:
    site.insert(replace(site.campaign, number=2))
    site.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=2, cluster="beta", tasks=1),)))
    arrays = site.campaigns.query_open_arrays()
    ended = [replace(attempt, outcome=SUCCESS) for array in arrays for attempt in site.attempts(array)]
    site.grid.told.clear()
    site.do(CampaignCyclePlan(ended=tuple(ended)))
    site.end_carry()

    assert ["bring 1 beta [0, 1, 2]", "bring 2 beta [0]"] == site.grid.told


def test_a_program_outlives_a_failed_cycle(site: BringingSite) -> None:
    """The runner makes new objects after a failed cycle, and would forget the program."""
    programs = BackgroundPrograms()
    site.do = site.executor(site.clock, programs=programs).execute_plan
    site.end_tasks(SUCCESS)
    site.do = site.executor(site.clock, programs=programs).execute_plan
    site.end_carry()

    assert ["bring 1 beta [0]"] == site.grid.told
    assert frozenset() == site.awaited()


def test_a_busy_program_of_the_owner_starts_no_cycle_early(site: BringingSite) -> None:
    programs = BackgroundPrograms()
    site.do = site.executor(site.clock, programs=programs).execute_plan
    site.end_tasks(SUCCESS)
    site.grid.end_carry(NOT_NOW)

    assert (False, False) == (programs.has_new_end(), programs.are_in_use)


def test_tasks_that_can_not_be_brought_keep_no_later_task_waiting(site: BringingSite) -> None:
    site.end_tasks(SUCCESS)
    site.end_carry(0, b'{"missing": {"0": "no such file"}, "absent": [0]}')
    site.end_tasks(SUCCESS)

    assert ["bring 1 beta [0]", "bring 1 beta [1]"] == site.grid.told


def test_a_cycle_begins_once_when_outputs_have_come(site: BringingSite) -> None:
    programs = BackgroundPrograms()
    site.do = site.executor(site.clock, programs=programs).execute_plan
    assert not programs.are_in_use
    site.end_tasks(SUCCESS)
    assert (False, True) == (programs.has_new_end(), programs.are_in_use)

    site.grid.end_carry()

    assert [True, False] == [programs.has_new_end() for _ in range(2)]
    assert programs.are_in_use
    site.do(CampaignCyclePlan())
    assert not programs.are_in_use


def test_purged_campaigns_bring_nothing(site: BringingSite) -> None:
    site.end_tasks(SUCCESS)

    site.tasks.purge_campaign(1)

    assert frozenset() == site.awaited()
