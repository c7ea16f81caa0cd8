"""The end of a lost attempt is recorded with the checkpoints that the attempt left, or late without them."""

from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.background_readings import PAUSE_S, ProgramsForAttempts
from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.runner.checkpoints_of_lost_attempts import LONGEST_WAIT_S, CheckpointsOfLostAttempts
from gridbridge.campaigns.store.checkpoint_statistics_rows import CheckpointStatisticsRows
from gridbridge.decisions.campaigns.campaign_cycle_planning import plan_campaign_cycle
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign import CampaignState, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, PlannedCampaignTaskSend
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointTimes
from gridbridge.model.campaigns.published_campaigns_and_tasks import TaskCheckpoint
from gridbridge.model.campaigns.task_index_and_attempt_texts import FIRST_PROLOGUE_TASK
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import NOON, made_campaign, made_policy, made_situation, site_fixture
from tests.campaigns.runner.fake_clusters import GridSite, StartedReadings

PREEMPTED, LOST, FAILED = (
    TaskAttemptOutcome.PREEMPTED,
    TaskAttemptOutcome.SITE_FAULT,
    TaskAttemptOutcome.PROGRAM_ERROR,
)
TWO = CheckpointTimes(timed=2, total_s=3.5)
FIRST = (1, "beta", ((0, 1),))


class SavingSite(GridSite):
    """A campaign of two tasks at beta that make checkpoints."""

    def __init__(self, folder: Path) -> None:
        self.passed_s = 0.0
        campaign = made_campaign("beta", "gamma", tasks=2)
        self.clock = Clock(lambda: NOON.timestamp() + self.passed_s, lambda: self.passed_s)
        saving = replace(campaign.jdl, checkpoint_files=("state",), may_move=False)
        super().__init__(folder, replace(campaign, jdl=saving), clock=self.clock)
        self.statistics_of_checkpoints = CheckpointStatisticsRows(self.database)
        self.reading = StartedReadings()
        self.programs = ProgramsForAttempts()
        self.restart()
        self.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),)))

    def restart(self) -> None:
        self.checkpoints = CheckpointsOfLostAttempts(self.clock, self.programs, self.reading.start)

    def ends(self, *outcomes: TaskAttemptOutcome) -> list[TaskAttempt]:
        """Return the ends that may be recorded, if the cluster reports these outcomes."""
        pairs = zip(self.attempts(), outcomes, strict=False)
        ended = {self.array: [replace(attempt, outcome=outcome, wallclock_s=60) for attempt, outcome in pairs]}
        return [*self.checkpoints.select_recordable_ends(ended, [self.campaign])[self.array]]


_site = site_fixture(SavingSite)


def test_a_lost_attempt_waits_for_its_checkpoints_and_a_failed_attempt_does_not(site: SavingSite) -> None:
    assert [1] == [attempt.task for attempt in site.ends(PREEMPTED, FAILED)]

    site.reading.end(b'{"checkpoints": [[0, 1, 3, 2, 3.5, 7000]]}')
    assert site.programs.has_new_end()
    saved, failed = site.ends(PREEMPTED, FAILED)

    assert [FIRST] == site.reading.told
    assert (True, TWO, 7000) == (saved.has_progressed, saved.checkpoint_times, saved.checkpoint_bytes)
    assert (False, None, None) == (failed.has_progressed, failed.checkpoint_times, failed.checkpoint_bytes)


@pytest.mark.parametrize(
    ("stdout", "status"),
    [
        (b"", 2),
        (b"[]", 0),
        (b'{"checkpoints": [[0]]}', 0),
        (b'{"checkpoints": [[0, 1, 1, 2, 3, 7]]}', 0),
        (b'{"checkpoints": [[0, 1, 2, 2, NaN, 7]]}', 0),
        (b'{"checkpoints": [[0, 1, -1, 0, 0, 7]]}', 0),
        (b'{"checkpoints": [[0, 1, 1, 1, 3, -7]]}', 0),
    ],
)
def test_checkpoints_that_can_not_be_read_are_read_again_for_two_minutes(
    site: SavingSite, stdout: bytes, status: int
) -> None:
    """Then the attempt counts as one without progress."""
    assert [] == site.ends(LOST)
    site.reading.end(stdout, status)
    for passed_s in (0.0, PAUSE_S - 1, PAUSE_S):
        site.passed_s = passed_s
        assert [] == site.ends(LOST)
        assert (2 if passed_s == PAUSE_S else 1) == len(site.reading.told)

    site.passed_s = LONGEST_WAIT_S
    (attempt,) = site.ends(LOST)

    assert not attempt.has_progressed


def test_an_attempt_that_waits_for_its_turn_is_not_late(site: SavingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site.checkpoints._readings, "_most", 1)
    site.ends(LOST, LOST)
    site.passed_s += LONGEST_WAIT_S - 1
    site.reading.end(b'{"checkpoints": []}')
    first = [attempt.task for attempt in site.ends(LOST, LOST)]
    site.passed_s += LONGEST_WAIT_S - 1

    assert ([0], [0]) == (first, [attempt.task for attempt in site.ends(FAILED, LOST)])


def test_campaigns_of_an_owner_take_turns(site: SavingSite) -> None:
    """Both campaigns lose another attempt in each cycle."""
    first = site.attempts()[0]
    for number in (1, 2):
        ended = {
            replace(site.array, campaign=campaign): [replace(first, campaign=campaign, attempt=number, outcome=LOST)]
            for campaign in (1, 2)
        }
        site.checkpoints.select_recordable_ends(ended, [site.campaign, replace(site.campaign, number=2)])
        site.reading.end(b'{"checkpoints": []}')

    assert [FIRST, (2, "beta", ((0, 2),))] == site.reading.told


def test_attempts_whose_end_is_not_reported_any_more_are_forgotten(site: SavingSite) -> None:
    """Root may have given up the campaign, which records other ends."""
    site.ends(LOST, LOST)
    site.reading.end(b'{"checkpoints": [[0, 1, 3, 2, 3.5, 7000]]}')
    site.ends()
    site.passed_s = LONGEST_WAIT_S

    assert [] == site.ends(LOST, LOST)
    assert [(1, "beta", ((0, 1), (1, 1)))] * 2 == site.reading.told


def test_a_program_that_can_not_start_delays_an_end_only(site: SavingSite) -> None:
    site.reading.trouble = ParseError("no helper")

    assert [] == site.ends(LOST)
    site.passed_s = LONGEST_WAIT_S
    assert 1 == len(site.ends(LOST))


def test_one_program_reads_for_an_owner_at_a_cluster_and_outlives_a_failed_cycle(site: SavingSite) -> None:
    site.ends(LOST)
    site.restart()

    site.ends(LOST, PREEMPTED)
    site.reading.end(b'{"checkpoints": []}')
    assert [0] == [attempt.task for attempt in site.ends(LOST, PREEMPTED)]

    assert [FIRST, (1, "beta", ((1, 1),))] == site.reading.told


@pytest.mark.parametrize(
    ("files", "state", "task"),
    [
        ((), CampaignState.IN_TREATMENT, 0),
        (("state",), CampaignState.CANCELLED, 0),
        (("state",), CampaignState.IN_TREATMENT, FIRST_PROLOGUE_TASK),
    ],
    ids=["no checkpoints", "a cancelled campaign", "a prologue"],
)
def test_an_end_without_checkpoints_waits_for_nothing(
    site: SavingSite, files: tuple[str, ...], state: CampaignState, task: int
) -> None:
    campaign = replace(site.campaign, state=state, jdl=replace(site.campaign.jdl, checkpoint_files=files))
    ended = {site.array: [replace(attempt, outcome=LOST, task=task) for attempt in site.attempts()]}

    assert {site.array: tuple(ended[site.array])} == site.checkpoints.select_recordable_ends(ended, [campaign])
    assert [] == site.reading.told


def test_a_task_with_a_checkpoint_runs_again_first_there_and_its_costs_are_stored(site: SavingSite) -> None:
    site.insert(replace(site.campaign, number=2))
    site.ends(PREEMPTED, PREEMPTED)
    site.reading.end(b'{"checkpoints": [[1, 1, 3, 2, 3.5, 7000]]}')
    ended = tuple(site.ends(PREEMPTED, PREEMPTED))

    situation = made_situation(campaigns=(site.campaign,), arrays=(site.array,), ended=ended, over=(site.array,))
    site.do(plan_campaign_cycle(situation))

    first, second = site.campaigns.list_unsent_tasks(1)
    assert (1, 20, ("gamma",), ("gamma",)) == (first.first, first.priority, first.avoid, first.never)
    assert (0, 10, ()) == (second.first, second.priority, second.avoid)
    assert [TWO] == [row.times for row in site.statistics_of_checkpoints.checkpoint_times([1])]
    (rate,) = site.statistics_of_checkpoints.loss_rates()
    assert (1000, "beta", 120.0, 2.0) == (rate.uid, rate.cluster, rate.run_s, rate.losses)
    (task,) = site.tasks.submitted_tasks(1, 1, 1)
    assert TaskCheckpoint(attempt=1, cluster="beta") == task.checkpoint
    assert [True, False] == [
        row.has_progressed
        for row in site.tries.earlier_outcomes([replace(ended[1], attempt=2), replace(ended[0], attempt=2)])
    ][::-1]


@pytest.mark.parametrize(("waited_s", "never"), [(599, ("gamma",)), (600, ())])
def test_a_task_begins_anew_elsewhere_after_it_has_waited_as_long_as_it_worked(
    site: SavingSite, waited_s: float, never: tuple[str, ...]
) -> None:
    site.ends(PREEMPTED)
    site.reading.end(b'{"checkpoints": [[0, 1, 3, 2, 3.5, 7000]]}')
    ended = tuple(site.ends(PREEMPTED))
    site.do(plan_campaign_cycle(made_situation(campaigns=(site.campaign,), arrays=(site.array,), ended=ended)))

    site.passed_s += waited_s
    site.do(CampaignCyclePlan())

    (task,) = site.campaigns.list_unsent_tasks(1)
    assert (never, ("gamma",)) == (task.never, task.avoid)


def test_the_chosen_interval_goes_with_an_array(site: SavingSite) -> None:
    send = PlannedCampaignTaskSend(campaign=2, cluster="beta", tasks=1, checkpoint_s=77)
    site.insert(replace(site.campaign, number=2))

    site.do(CampaignCyclePlan(sends=(send,)))

    assert [0, 77] == [array.checkpoint_s for array in site.campaigns.query_open_arrays()]


def test_a_situation_has_the_measured_costs_and_losses(site: SavingSite) -> None:
    attempts = [replace(attempt, outcome=LOST, checkpoint_times=TWO) for attempt in site.attempts()]
    for _ in range(2):
        site.statistics_of_checkpoints.add_ended_attempts(
            [(attempt, "beta") for attempt in attempts], [site.campaign], NOON
        )
    gatherer = CampaignSituationGatherer(
        made_policy(), site.database, site.clock, ledger_arrays=lambda _: (), ran=str(site.folder / "ran")
    )

    situation = gatherer.gather_situation()

    assert [8] == [row.times.timed for row in situation.checkpoint_times]
    assert [4.0] == [rate.losses for rate in situation.loss_rates]


def test_purged_campaigns_leave_no_times_of_checkpoints(site: SavingSite) -> None:
    attempts = [(replace(attempt, outcome=LOST, checkpoint_times=TWO), "beta") for attempt in site.attempts()]
    site.statistics_of_checkpoints.add_ended_attempts(attempts, [site.campaign], NOON)

    site.tasks.purge_campaign(1)

    assert () == site.statistics_of_checkpoints.checkpoint_times([1])
