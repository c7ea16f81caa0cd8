"""A task that goes to another cluster starts once its checkpoint is there; the first copy stays while it is needed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gridbridge.campaigns.runner.background_checkpoint_carries import MOST_TRIES
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointCarryRows
from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign import ArraySubmissionState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    ClusterCapacityForCampaigns,
    PlannedCampaignTaskSend,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointCarryState
from gridbridge.model.campaigns.published_campaigns_and_tasks import TaskCheckpoint
from gridbridge.model.fixed_paths import NOT_NOW
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import NOON, made_campaign, made_situation, site_fixture
from tests.campaigns.runner.fake_clusters import CarryingGrid, GridSite

MB = 1_000_000
PREEMPTED, SUCCESS = TaskAttemptOutcome.PREEMPTED, TaskAttemptOutcome.SUCCESS
SAVE, DROP = "save 1 beta gamma [(0, 1)]", "drop 1 beta [(0, 1)]"
SUBMIT = ["submit 2 gamma 0:2", "release 2 72"]
COPIED = b'{"missing": {}, "copied_bytes": 4000000, "took_s": 2}\n'
LOST = b'{"missing": {"0": "no space"}, "copied_bytes": 0, "took_s": 2}\n'


class SavingSite(GridSite):
    """A campaign of one task, which was preempted at beta after 3000 s, with a checkpoint of 100 MB."""

    def __init__(self, folder: Path) -> None:
        self.passed_s = 0.0
        campaign = made_campaign("beta", "gamma")
        self.clock = Clock(lambda: NOON.timestamp() + self.passed_s, lambda: self.passed_s)
        saving = replace(campaign.jdl, checkpoint_files=("state",), may_move=False)
        super().__init__(folder, replace(campaign, jdl=saving), grid=CarryingGrid(), clock=self.clock)
        self.carries = CheckpointCarryRows(self.database)
        self.restart()
        self.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=1),)))
        self.end_attempt(PREEMPTED)
        self.grid.told.clear()

    def restart(self) -> None:
        """Let the runner forget what it has in memory, as a kill does."""
        self.do = self.executor(self.clock, remote_clusters={"gamma"}).execute_plan

    def end_attempt(self, outcome: TaskAttemptOutcome, *, saved: bool = True) -> None:
        made: dict[str, Any] = {"has_progressed": True, "checkpoint_bytes": 100 * MB} if saved else {}
        ended = [replace(attempt, outcome=outcome, wallclock_s=3000, **made) for attempt in self.attempts()]
        self.cycle(arrays=(self.array,), ended=tuple(ended), over=(self.array,))

    def cycle(self, *free: str, **more: Any) -> None:
        """Run a cycle in which these clusters have a free slot."""
        situation = made_situation(
            campaigns=(self.campaign,),
            waiting=self.campaigns.count_unsent_tasks(),
            kept_off=self.campaigns.count_tasks_by_exclusions(),
            room={name: ClusterCapacityForCampaigns(free_slots=1, max_slots=9) for name in free},
            waiting_checkpoints=self.carries.waiting_checkpoints(self.clock.now()),
            carry_rates={"gamma": {1000: 10.0 * MB}},
            **more,
        )
        self.do(plan_campaign_cycle(situation))

    def resume(self) -> None:
        self.do(CampaignCyclePlan(resumed=self.campaigns.query_open_arrays()))

    def states(self) -> list[CheckpointCarryState]:
        return [carry.state for of_attempt in self.carries.carries_of_tasks([(1, 0)]).values() for carry in of_attempt]


_site = site_fixture(SavingSite)


def test_a_task_is_submitted_once_its_checkpoint_is_at_the_cluster(site: SavingSite) -> None:
    """A runner that was killed meanwhile begins the carry again."""
    site.cycle("gamma")
    site.resume()
    assert [SAVE] == site.grid.told
    site.restart()
    site.resume()
    assert [SAVE, SAVE] == site.grid.told
    (task,) = site.tasks.submitted_tasks(1, 0, 0)
    assert TaskCheckpoint(attempt=1, cluster="beta", to="gamma", carry_s=15, lost_s=600) == task.checkpoint

    site.grid.end_carry(stdout=COPIED)
    site.resume()

    assert SUBMIT == site.grid.told[2:]
    assert ArraySubmissionState.RELEASED is site.array.state
    assert [CheckpointCarryState.CARRIED] == site.states()


@pytest.mark.parametrize(
    ("outcome", "saved"), [(PREEMPTED, True), (SUCCESS, False)], ids=["newer checkpoint", "success"]
)
def test_the_first_copy_is_removed_once_the_task_does_not_need_it(
    site: SavingSite, outcome: TaskAttemptOutcome, *, saved: bool
) -> None:
    """After a restart it is removed again; a removal that finds another program of the owner begins after a pause."""
    site.cycle("gamma")
    site.grid.end_carry(stdout=COPIED)
    site.resume()
    site.resume()
    assert DROP not in site.grid.told
    site.end_attempt(outcome, saved=saved)
    assert DROP == site.grid.told[-1]
    site.restart()
    site.cycle()
    assert [DROP, DROP] == site.grid.told[-2:]
    assert [CheckpointCarryState.CARRIED] == site.states()

    site.grid.end_carry(NOT_NOW)
    site.cycle()
    assert 2 == site.grid.told.count(DROP)
    site.passed_s += 600
    site.cycle()
    site.grid.end_carry(stdout=b'{"missing": {}}')
    site.cycle()

    assert [CheckpointCarryState.OVER] == site.states()
    assert [DROP] == site.grid.told[site.grid.told.index(DROP) + 2 :]


def test_both_clusters_with_the_checkpoint_may_get_the_task(site: SavingSite) -> None:
    site.cycle("gamma")
    site.grid.end_carry(stdout=COPIED)
    site.resume()
    site.end_attempt(PREEMPTED, saved=False)

    (waiting,) = site.campaigns.list_unsent_tasks(1)
    assert (3, (), ()) == (waiting.attempt, waiting.avoid, waiting.never)
    site.cycle("gamma")
    assert ["submit 3 gamma 0:3", "release 3 73"] == site.grid.told[-2:]


@pytest.mark.parametrize("status", [0, 2], ids=["no space", "no route"])
def test_a_task_whose_checkpoint_can_not_be_carried_waits_or_begins_anew(site: SavingSite, status: int) -> None:
    """No other carry of this checkpoint to the cluster is tried, and the limit of retries does not count this."""
    site.cycle("gamma")
    for _ in range(MOST_TRIES if status else 1):
        site.grid.end_carry(status, LOST, b"no route")
        site.resume()
    (waiting,) = site.campaigns.list_unsent_tasks(1)
    (event,) = site.events.query_open_events()
    assert ((3, ("gamma",)), SAVE) == ((waiting.attempt, waiting.never), site.grid.told[-1])
    assert (CampaignEventCode.CHECKPOINT_ERROR, "gamma", 1) == (event.code, event.cluster, event.tasks)
    assert ("no route" if status else "no space") in event.why

    site.cycle("gamma")
    assert SAVE == site.grid.told[-1]
    site.passed_s = 3000
    site.do(CampaignCyclePlan())
    site.cycle("gamma")

    assert ["submit 3 gamma 0:3", "release 3 73"] == site.grid.told[-2:]
    assert [CheckpointCarryState.FAILED] == site.states()


def test_a_program_that_can_not_start_is_a_failed_carry(site: SavingSite) -> None:
    site.grid.failing["save"] = ParseError("no helper")

    site.cycle("gamma")

    assert [CheckpointCarryState.FAILED] == site.states()
    assert ["no helper"] == [event.why for event in site.events.query_open_events()]


def test_another_program_of_the_owner_is_no_failure(site: SavingSite) -> None:
    site.cycle("gamma")
    site.grid.end_carry(NOT_NOW)
    site.resume()

    assert [SAVE, SAVE] == site.grid.told
    assert [CheckpointCarryState.ALLOWED] == site.states()


def test_a_purged_campaign_leaves_no_carries(site: SavingSite) -> None:
    site.cycle("gamma")

    site.tasks.purge_campaign(1)

    assert [] == site.states()
