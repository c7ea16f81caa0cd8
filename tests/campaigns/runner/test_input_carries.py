"""An array waits for the input files of its tasks; a task whose file can't come hinders no other task."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.store.campaign_statistics_rows import InputCarryRows
from gridbridge.campaigns.store.shared_input_rows import SharedInputRows
from gridbridge.errors import GridbridgeError, ParseError
from gridbridge.model.campaigns.campaign import (
    ArraySubmissionState,
    RootLedgerArray,
    TaskAttemptOutcome,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, PlannedCampaignTaskSend
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.campaign_predecessors import PredecessorCondition
from gridbridge.model.fixed_paths import NOT_NOW
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.campaign_tables import PREDECESSORS
from tests.builders.campaigns import NOON, made_campaign
from tests.campaigns.runner.fake_clusters import CARRIED, CarryingGrid, GridSite

NOTHING_MISSING = CompletedProgram((), 0, b'{"missing": {}}\n', b"")


class CarryingSite(GridSite):
    def __init__(self, folder: Path, *, inputs: tuple[str, ...] = ("/d/./x",)) -> None:
        campaign = made_campaign("beta", "gamma", tasks=9)
        super().__init__(folder, replace(campaign, jdl=replace(campaign.jdl, inputs=inputs)), grid=CarryingGrid())
        self.passed_s = 0.0
        self.clock = Clock(lambda: NOON.timestamp() + self.passed_s, lambda: self.passed_s)
        self.runner = self.executor(self.clock, remote_clusters={"beta"})
        self.do = self.runner.execute_plan

    def plan(self, cluster: str = "beta", tasks: int = 2) -> None:
        self.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster=cluster, tasks=tasks),)))

    def resume(self) -> None:
        self.do(CampaignCyclePlan(resumed=self.campaigns.query_open_arrays()))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[CarryingSite]:
    site = CarryingSite(tmp_path)
    yield site
    site.database.close()


def test_an_array_is_submitted_once_its_inputs_are_at_the_cluster(site: CarryingSite) -> None:
    site.plan()
    site.resume()
    assert ["carry 1 [0, 1]"] == site.grid.told

    site.grid.end_carry()
    site.resume()

    assert ["submit 1 beta 0:1,1:1", "release 1 71"] == site.grid.told[1:]
    assert ArraySubmissionState.RELEASED is site.array.state


def test_one_carry_runs_for_a_campaign_and_cluster(site: CarryingSite) -> None:
    site.plan()
    site.plan()
    site.grid.end_carry()
    site.resume()

    assert ["carry 1 [0, 1]", "carry 2 [2, 3]", "submit 1 beta 0:1,1:1", "release 1 71"] == site.grid.told


@pytest.mark.parametrize(("cluster", "expected"), [("beta", [0, 2, 4]), ("gamma", [0, 1, 2])])
def test_tasks_that_share_a_file_go_together_where_files_are_carried(
    site: CarryingSite, cluster: str, expected: list[int]
) -> None:
    """A retry goes before other tasks, and a purge forgets the files."""
    shared = SharedInputRows(site.database)
    shared.store_input_groups(1, [(task, task, task % 2) for task in range(8)])
    site.plan(cluster, tasks=3)
    assert expected == [attempt.task for attempt in site.attempts()]
    if cluster == "gamma":
        return

    site.campaigns.add_unsent_tasks(1, WaitingTaskRange(first=4, last=4, attempt=2, priority=20))
    site.plan("beta", tasks=4)

    array = site.campaigns.query_open_arrays()[1]
    taken = [(attempt.task, attempt.attempt) for attempt in site.campaigns.unfinished_attempts(array)]
    assert [(4, 2), (1, 1), (3, 1), (6, 1)] == taken
    left = [(part.first, part.last) for part in site.campaigns.list_unsent_tasks(1)]
    assert [(5, 5), (7, 8)] == left
    site.tasks.purge_campaign(1)
    assert not shared.have_tasks_preferred_clusters(1)


@pytest.mark.parametrize(("cluster", "expected"), [("beta", [1, 2, 5]), ("gamma", [0, 1, 2])])
def test_tasks_go_first_where_the_same_task_of_their_predecessor_ran(
    site: CarryingSite, cluster: str, expected: list[int]
) -> None:
    """Its outputs are there. Tasks whose predecessor ran elsewhere go last."""
    predecessor = site.insert(made_campaign("beta", "gamma", tasks=5))
    row = {"campaign": 1, "predecessor": predecessor, "condition": PredecessorCondition.SAME}
    site.database.execute(sqlalchemy.insert(PREDECESSORS), row)
    for tasks, at in ((1, "gamma"), (2, "beta"), (2, "gamma")):
        site.end(site.attempts(site.send(tasks, 1, at, predecessor)), TaskAttemptOutcome.SUCCESS)

    site.plan(cluster, tasks=3)

    array = next(array for array in site.campaigns.query_open_arrays() if array.campaign == 1)
    assert expected == [attempt.task for attempt in site.attempts(array)]


def test_a_deleted_array_keeps_no_other_array_waiting(site: CarryingSite) -> None:
    site.plan()
    site.plan()
    site.grid.end_carry()
    site.do(CampaignCyclePlan(resumed=site.campaigns.query_open_arrays()[1:]))

    assert ["carry 1 [0, 1]", "carry 2 [2, 3]"] == site.grid.told


@pytest.mark.parametrize("inputs", [("/d/./x",), ()], ids=["a cluster that sees the files", "no inputs"])
def test_nothing_is_carried_without_need(tmp_path: Path, inputs: tuple[str, ...]) -> None:
    site = CarryingSite(tmp_path, inputs=inputs)

    site.plan("gamma" if inputs else "beta")

    assert [told.split()[0] for told in site.grid.told] == ["submit", "release"]


def test_a_carry_begins_again_after_a_restart_and_if_another_one_was_busy(site: CarryingSite) -> None:
    site.plan()
    site.grid.end_carry(NOT_NOW)
    site.resume()
    site.resume()
    site.do = site.executor(remote_clusters={"beta"}).execute_plan
    site.resume()

    assert ["carry 1 [0, 1]"] * 3 == site.grid.told
    assert not site.events.query_open_events()


def test_a_carry_that_fails_is_an_event_and_is_tried_again(site: CarryingSite) -> None:
    site.plan()
    site.grid.end_carry(2, stderr=b"beta-disk: no such folder\n")
    site.resume()

    (event,) = site.events.query_open_events()
    assert (CampaignEventCode.SUBMIT_JOB, "beta-disk: no such folder") == (event.code, event.why)
    assert ArraySubmissionState.INTENDED is site.array.state
    site.resume()
    assert ["carry 1 [0, 1]"] * 2 == site.grid.told


def test_a_task_without_its_file_fails_alone_and_the_other_tasks_are_sent(site: CarryingSite) -> None:
    """The task is tried as often as a task that can't start; then an event has the reason."""
    for _ in range(4):
        site.plan(tasks=3)
        site.grid.end_carry(stdout=CARRIED.replace(b"{}", b'{"1": "/d/x: No such file or directory"}'))
        site.resume()

    assert not site.grid.submissions()
    assert {1: TaskAttemptOutcome.INPUT_MISSING} == {
        task.number: task.outcome for task in site.tasks.submitted_tasks(1, 0, 9) if not task.is_waiting
    }
    (event,) = site.events.query_open_events()
    assert (CampaignEventCode.INPUT_ERROR, 1, 1) == (event.code, event.first_task, event.tasks)
    assert "/d/x: No such file or directory" == event.why
    assert (8, 1, 1) == (site.campaigns.count_unsent_tasks()[1], site.campaign.ended, site.campaign.failed)


def test_an_answer_about_other_tasks_alone_resends_no_task(site: CarryingSite) -> None:
    """Otherwise each cycle would store a new array, without an end."""
    site.plan()
    site.grid.end_carry(stdout=CARRIED.replace(b"{}", b'{"7": "No such file or directory"}'))
    site.resume()

    (event,) = site.events.query_open_events()
    assert event.code is CampaignEventCode.SUBMIT_JOB
    assert event.why == "carry-inputs: the answer is about tasks that are not in the array"
    assert [(0, 1), (1, 1)] == [(attempt.task, attempt.attempt) for attempt in site.attempts()]


def test_a_carry_shows_the_time_in_which_the_next_tasks_files_come(
    site: CarryingSite, caplog: pytest.LogCaptureFixture
) -> None:
    """The rate of the network counts for all campaigns, and each new carry as much as all earlier carries."""
    caplog.set_level("INFO")
    costs = InputCarryRows(site.database)
    pairs = [(site.campaign, "beta"), (site.campaign, "gamma")]
    assert [None, None] == [cost.task_s for cost in costs.carry_costs(pairs)]
    for copied_bytes, expected_s in ((4_000_000, 0.5), (16_000_000, 0.2), (9, 0.2)):
        site.plan()
        site.grid.end_carry(stdout=CARRIED.replace(b"4000000", str(copied_bytes).encode()))
        site.resume()

        assert [expected_s, None] == [cost.task_s for cost in costs.carry_costs(pairs)]
        assert f" at=beta bytes={copied_bytes} took_s=" in caplog.text


@pytest.mark.parametrize("amount", [b"1e999", b"-1", b"NaN", b'"x"', b"[]", b"1e19", b"[" * 100_000])
def test_an_owners_answer_with_wrong_amounts_is_an_error(amount: bytes) -> None:
    answer = CompletedProgram((), 0, CARRIED.replace(b"4000000", amount), b"")
    with pytest.raises(ParseError, match=r"^carry of files: "):
        array_commands_as_owner.timed_input_carry(answer)


def test_inputs_of_an_ended_campaign_are_removed_where_they_were_carried(site: CarryingSite) -> None:
    """A removal that failed or found another process of the owner is repeated after a pause."""
    site.plan()
    site.grid.end_carry(2)
    site.campaigns.record_ledger_has_campaign_end(1)
    site.grid.told.clear()
    for status in (NOT_NOW, 2, 0):
        site.do(CampaignCyclePlan())
        site.grid.end_carry(status)
        site.do(CampaignCyclePlan())
        site.do(CampaignCyclePlan())
        site.passed_s += 600

    assert ["remove 1 beta"] * 3 == site.grid.told


def test_a_removal_is_remembered_when_the_runner_is_killed(site: CarryingSite) -> None:
    """The first carry may have been killed, too, after it had copied some files."""
    site.plan()
    site.campaigns.record_ledger_has_campaign_end(1)
    for _ in range(2):
        site.do = site.executor(site.clock, remote_clusters={"beta"}).execute_plan
        site.do(CampaignCyclePlan())

    assert ["remove 1 beta"] * 2 == site.grid.told[1:]


def test_one_program_of_an_owner_works_at_a_cluster(site: CarryingSite) -> None:
    """So an owner of many campaigns holds few programs of the service."""
    site.insert(replace(site.campaign, number=2))
    site.plan()
    site.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=2, cluster="beta", tasks=1),)))
    site.campaigns.record_ledger_has_campaign_end(1)
    site.do(CampaignCyclePlan())

    assert ["carry 1 [0, 1]"] == site.grid.told


@pytest.mark.parametrize("tasks", [b"", b"[]", b'{"x": "y"}', b"[" * 100_000])
def test_an_answer_that_is_no_list_of_tasks_is_an_error(tasks: bytes) -> None:
    """The answer about inputs has further values, which are valid here."""
    answer = CompletedProgram((), 0, CARRIED.replace(b"{}", tasks), b"")
    with pytest.raises(ParseError, match=r"^carry of files: "):
        array_commands_as_owner.timed_input_carry(answer)
    with pytest.raises(ParseError, match=r"^bring-outputs: "):
        array_commands_as_owner.tasks_without_outputs(answer)


def test_the_error_of_a_failed_carry_is_that_of_the_owners_program() -> None:
    for parse in (array_commands_as_owner.timed_input_carry, array_commands_as_owner.tasks_without_outputs):
        with pytest.raises(GridbridgeError, match=r"^no space$"):
            parse(CompletedProgram((), 2, b"", b"no space\n"))


def test_copies_of_arrays_imported_from_roots_ledger_are_removed_after_the_end(site: CarryingSite) -> None:
    site.grid.ledger = (RootLedgerArray(number=1, cluster="beta", tasks=((0, 1),), job_id=71),)

    site.do(CampaignCyclePlan(behind=(1,)))
    site.campaigns.record_ledger_has_campaign_end(1)

    assert [(1, "beta")] == [*InputCarryRows(site.database).input_copies_of_ended_campaigns()]
