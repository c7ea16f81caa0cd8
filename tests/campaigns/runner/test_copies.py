"""Speculative attempts of tasks are recorded, submitted and ended in repeatable steps."""

from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.runner.array_commands_as_owner import PermanentArrayRefusal, RootCampaignRefusal
from gridbridge.campaigns.runner.cluster_queries_and_capacities import elapsed_seconds_of_running_tasks
from gridbridge.campaigns.runner.missing_and_straggling_attempts import (
    CampaignStragglerFinder,
    earlier_live_attempt_positions,
)
from gridbridge.campaigns.runner.owner_requests import CampaignOwnerRequestHandler
from gridbridge.campaigns.store import published_campaign_files
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.task_attempt_rows import SpeculativeAttemptRows, TaskAttemptRows
from gridbridge.decisions.campaigns import campaign_cycle_planning as cycle
from gridbridge.decisions.campaigns.cluster_closing_and_black_holes import new_campaign_event
from gridbridge.decisions.campaigns.task_retries_and_deciding_attempts import group_attempts_by_task
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import ArraySubmissionState as ArrayState
from gridbridge.model.campaigns.campaign import CampaignArray, CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import LateSpeculationSection
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    ClusterCapacityForCampaigns,
    PlannedCampaignTaskSend,
    TaskCountByExclusions,
)
from gridbridge.model.campaigns.campaign_events import CampaignEventCode, CampaignEventSubject
from gridbridge.model.campaigns.speculative_attempts import (
    PublishedCompetingAttempt,
    RunningTaskAttempt,
    SpeculativeAttemptsAtCluster,
    TasksRunningNearCampaignEnd,
)
from gridbridge.model.cluster_snapshot import ClusterJobListRow
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import (
    NOON,
    POSTGRESQL,
    RUNNING,
    WAITING,
    job_row,
    made_campaign,
    made_situation,
    made_snapshot,
    site_fixture,
)
from tests.campaigns.runner.fake_clusters import GridSite

MINUTE = timedelta(minutes=1)
COPY, SUCCESS, SITE_FAULT = (TaskAttemptOutcome.COPY, TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.SITE_FAULT)
WALLTIME = TaskAttemptOutcome.WALLTIME
OFF_GAMMA = (TaskCountByExclusions(tasks=1, avoid=("gamma",), never=("gamma",)),)
FIRST = SpeculativeAttemptsAtCluster(campaign=1, cluster="gamma", tasks=(1,), beyond_s=60)


class CopySite(GridSite):
    def __init__(self, folder: Path) -> None:
        usual = made_campaign("beta", "gamma", tasks=2)
        super().__init__(folder, replace(usual, jdl=replace(usual.jdl, is_idempotent=True)))
        self.copies = SpeculativeAttemptRows(self.database, self.campaigns)
        self.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=2),)))

    def copy(self) -> CampaignArray:
        self.do(CampaignCyclePlan(copies=(FIRST,)))
        return self.campaigns.query_open_arrays()[-1]

    def cycle(self, *ended: tuple[int, int, TaskAttemptOutcome]) -> CampaignCyclePlan:
        """Run a cycle in which these (task, attempt, outcome) ended; return the cycle's plan."""
        outcomes = {(task, attempt): outcome for task, attempt, outcome in ended}
        attempts = {array: self.attempts(array) for array in self.campaigns.query_open_arrays()}
        ends = tuple(
            replace(attempt, outcome=outcomes[attempt.task, attempt.attempt], wallclock_s=9)
            for attempt in chain(*attempts.values())
            if (attempt.task, attempt.attempt) in outcomes
        )
        rivals = self.copies.competing_attempts([1])
        seen = made_situation(
            campaigns=self.campaigns.unfinished_campaigns(),
            waiting=self.campaigns.count_unsent_tasks(),
            arrays=tuple(attempts),
            room={name: ClusterCapacityForCampaigns(free_slots=0) for name in ("beta", "gamma")},
            ended=ends,
            over=tuple(
                array
                for array, pending in attempts.items()
                if array.state is ArrayState.RELEASED and {(it.task, it.attempt) for it in pending} <= outcomes.keys()
            ),
            earlier=self.tries.earlier_outcomes(ends, group_attempts_by_task(rivals)),
            rivals=rivals,
        )
        plan = cycle.plan_campaign_cycle(seen)
        self.grid.told.clear()
        self.do(plan)
        return plan

    def outcomes(self) -> dict[tuple[int, int], TaskAttemptOutcome]:
        tasks = self.tasks.submitted_tasks(1, 0, 1)
        shown = {(one.number, one.attempt): one.outcome for one in tasks}
        return shown | {(one.number, each.attempt): each.outcome for one in tasks for each in one.copies}


_site = site_fixture(CopySite, "sqlite", POSTGRESQL)


def test_a_speculative_attempt_is_the_next_attempt_of_its_task(site: CopySite) -> None:
    array = site.copy()

    assert site.grid.told[-2:] == ["submit 2 gamma 1:2", "release 2 72"]
    assert (array.copies_beyond_s, array.state) == (60, ArrayState.RELEASED)
    assert site.campaigns.count_unsent_tasks() == {}


def test_an_ended_task_gets_no_speculative_attempt(site: CopySite) -> None:
    site.cycle((1, 1, SUCCESS))

    site.do(CampaignCyclePlan(copies=(FIRST, replace(FIRST, tasks=(7,)))))

    assert len(site.campaigns.query_open_arrays()) == 1


def test_the_first_success_ends_a_task_and_its_other_attempts_are_deleted(site: CopySite) -> None:
    site.copy()

    site.cycle((1, 2, SUCCESS))

    assert (site.campaign.ended, site.campaign.failed) == (1, 0)
    site.grid.failing["delete_places"] = GridbridgeError("no answer")
    site.cycle()
    assert site.grid.told == ["delete_places 1 2"]
    site.cycle((1, 1, TaskAttemptOutcome.CANCELLED))
    assert (site.campaign.ended, site.campaign.failed, site.grid.told) == (1, 0, [])
    assert site.outcomes() == {(0, 1): TaskAttemptOutcome.PENDING, (1, 2): SUCCESS, (1, 1): COPY}


@pytest.mark.parametrize("first", [1, 2])
def test_a_task_is_retried_only_after_both_its_attempts_failed(site: CopySite, first: int) -> None:
    site.copy()

    site.cycle((1, first, SITE_FAULT))
    assert (site.campaign.ended, site.campaigns.count_unsent_tasks()) == (0, {})
    site.cycle((1, 3 - first, SITE_FAULT))

    (waiting,) = site.campaigns.list_unsent_tasks(1)
    assert (waiting.first, waiting.last, waiting.attempt) == (1, 1, 3)
    assert site.outcomes()[1, 3 - first] is SITE_FAULT


@pytest.mark.parametrize(
    ("looks", "never"),
    [
        ([(1, 1, WALLTIME)], "beta"),
        ([(1, 2, WALLTIME)], "gamma"),
        ([(1, 1, WALLTIME), (1, 2, TaskAttemptOutcome.PREEMPTED)], "beta"),
    ],
    ids=["the first overran", "its copy did", "both end in one look"],
)
def test_a_task_never_returns_to_a_cluster_where_an_attempt_overran(
    site: CopySite, looks: list[tuple[int, int, TaskAttemptOutcome]], never: str
) -> None:
    site.copy()
    site.cycle(*looks)
    ((_, overran, _), *_) = looks
    if len(looks) == 1:
        site.cycle((1, 3 - overran, TaskAttemptOutcome.PREEMPTED))

    (waiting,) = site.campaigns.list_unsent_tasks(1)
    assert (waiting.attempt, waiting.never) == (3, (never,))
    assert site.outcomes()[1, overran] is COPY


def test_a_task_gets_no_speculative_attempt_where_it_overran(site: CopySite) -> None:
    site.do(CampaignCyclePlan(copies=(FIRST,)))
    site.cycle((1, 1, TaskAttemptOutcome.PREEMPTED), (1, 2, WALLTIME))
    site.do(
        CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=1, kept_off=OFF_GAMMA),))
    )
    rows = (replace(row(1), job_id=73),)

    (tail,) = late_tasks(site, {71: (row(1),), 73: rows})

    assert {one.task for one in tail.live} == {0, 1}
    assert tail.failed_at == {1: ("gamma",)}


@pytest.mark.parametrize("error", [PermanentArrayRefusal("no queue"), RootCampaignRefusal("not declared")])
def test_a_refused_speculative_attempt_opens_no_event(site: CopySite, error: GridbridgeError) -> None:
    site.grid.failing["submit"] = error

    site.copy()

    assert [one.number for one in site.campaigns.query_open_arrays()] == [1]
    assert (site.campaign.ended, site.campaigns.count_unsent_tasks()) == (0, {})
    assert site.events.query_open_events() == ()
    assert site.outcomes()[1, 2] is COPY


def test_a_failed_task_is_retried_after_its_speculative_attempt_is_refused(site: CopySite) -> None:
    site.grid.failing["submit"] = GridbridgeError("no answer")
    begun = site.copy()
    site.cycle((1, 1, SITE_FAULT))
    site.grid.failing["submit"] = PermanentArrayRefusal("no queue")

    site.do(CampaignCyclePlan(resumed=(begun,)))

    (waiting,) = site.campaigns.list_unsent_tasks(1)
    assert (waiting.first, waiting.attempt) == (1, 3)


@pytest.mark.parametrize("step", ["submit", "release"])
def test_an_unreleased_speculative_attempt_is_deleted_after_the_tasks_success(site: CopySite, step: str) -> None:
    site.grid.failing[step] = GridbridgeError("no answer")
    site.copy()

    plan = site.cycle((1, 1, SUCCESS))

    assert plan.resumed == ()
    assert site.grid.told[-1].startswith("delete 2")
    assert [one.number for one in site.campaigns.query_open_arrays()] == [1]
    assert (site.campaign.ended, site.campaign.failed) == (1, 0)
    assert site.outcomes()[1, 2] is COPY


def test_a_task_with_two_attempts_counts_once_in_a_cancelled_campaign(site: CopySite) -> None:
    site.grid.failing["release"] = GridbridgeError("no answer")
    site.copy()
    site.campaigns.set_campaign_state(1, CampaignState.CANCELLED)

    site.cycle()
    site.cycle((0, 1, TaskAttemptOutcome.CANCELLED), (1, 1, TaskAttemptOutcome.CANCELLED))

    assert (site.campaign.ended, site.campaign.failed, site.campaign.cancelled) == (2, 0, 2)
    assert site.campaigns.unfinished_campaigns() == ()


def test_a_task_is_published_with_its_competing_attempts(site: CopySite, tmp_path: Path) -> None:
    site.copy()
    (_, both) = site.tasks.submitted_tasks(1, 0, 1)
    site.cycle((1, 2, SUCCESS))
    (_, won) = found = site.tasks.submitted_tasks(1, 0, 1)

    first = PublishedCompetingAttempt(attempt=1, cluster="beta", outcome=TaskAttemptOutcome.PENDING, beyond_s=None)
    assert (both.attempt, both.copies) == (1, (replace(first, attempt=2, cluster="gamma", beyond_s=60),))
    assert (won.attempt, won.cluster, won.beyond_s, won.copies) == (2, "gamma", 60, (first,))
    published_campaign_files.publish_campaign_task_file(1, 0, found, str(tmp_path))
    assert published_campaign_files.read_published_task_file(1, 0, str(tmp_path)) == {one.number: one for one in found}


def test_a_retry_gets_an_attempt_number_above_all_speculative_attempts(site: CopySite, tmp_path: Path) -> None:
    site.copy()
    site.cycle((1, 2, SITE_FAULT))
    site.cycle((1, 1, TaskAttemptOutcome.PROGRAM_ERROR))
    event = new_campaign_event(CampaignEventSubject.TASK, CampaignEventCode.EXIT_ERROR, 1, "beta", NOON)

    CampaignOwnerRequestHandler(site.database, Clock(), str(tmp_path))._queue_failed_tasks_of_event(event)

    assert [one.attempt for one in site.campaigns.list_unsent_tasks(1)] == [3]


def late_attempts(site: CopySite, *rows: ClusterJobListRow, waiting: bool = False) -> tuple[RunningTaskAttempt, ...]:
    """Return the late attempts after two minutes, if beta lists these rows."""
    found = late_tasks(site, {71: rows}, waiting=waiting)
    return found[0].live if found else ()


def late_tasks(
    site: CopySite, jobs: dict[int, tuple[ClusterJobListRow, ...]], *, waiting: bool = False
) -> tuple[TasksRunningNearCampaignEnd, ...]:
    answers = {
        name: made_snapshot(cluster=name, taken_at=NOON + 2 * MINUTE, jobs=jobs if name == "beta" else {}, free_slots=9)
        for name in ("beta", "gamma")
    }
    if waiting:
        del answers["beta"]
    arrays = tuple(replace(one, intended_at=NOON) for one in site.campaigns.query_open_arrays())
    return CampaignStragglerFinder(site.campaigns, LateSpeculationSection()).find_long_running_attempts(
        [site.campaign],
        site.campaigns.count_unsent_tasks(),
        arrays,
        answers,
        group_attempts_by_task(site.copies.competing_attempts([1])),
        NOON + 2 * MINUTE,
    )


def row(place: int, state: JobState = RUNNING, minutes: int = 0) -> ClusterJobListRow:
    """Return a row of beta's job list for a task that started `minutes` after noon."""
    return job_row(range(place, place + 1), state, job_id=71, since=NOON + minutes * MINUTE)


def test_only_listed_long_running_tasks_count_as_late(site: CopySite) -> None:
    late = RunningTaskAttempt(task=0, attempt=1, cluster="beta", elapsed_s=120.0)

    assert late_attempts(site, row(1), row(2, minutes=2)) == (late,)
    assert late_attempts(site, row(1), row(2, WAITING)) == (late,)
    assert late_attempts(site, row(1)) == (late,)
    assert late_attempts(site, row(1), row(2)) == (late, replace(late, task=1))


def test_competing_attempts_are_late_only_if_both_run_long(site: CopySite) -> None:
    site.copy()

    assert [one.task for one in late_attempts(site, row(1), row(2))] == [0]


def test_only_late_attempts_are_read_from_the_state_file(site: CopySite, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=site.tries.unfinished_attempts_at)
    monkeypatch.setattr(TaskAttemptRows, "unfinished_attempts_at", read)
    monkeypatch.setattr(CampaignRows, "unfinished_attempts", None)

    assert [attempt.task for attempt in late_attempts(site, row(1), row(2, minutes=2))] == [0]
    assert [indices for _, indices in (call.args for call in read.mock_calls)] == [{1}]


def test_tasks_at_a_silent_cluster_count_as_running(site: CopySite) -> None:
    assert [one.elapsed_s for one in late_attempts(site, waiting=True)] == [120.0, 120.0]


def test_paused_or_not_idempotent_campaigns_have_no_late_tasks(site: CopySite) -> None:
    look = CampaignStragglerFinder(site.campaigns, LateSpeculationSection()).find_long_running_attempts
    plain = replace(site.campaign, jdl=replace(site.campaign.jdl, is_idempotent=False))
    paused = replace(site.campaign, state=CampaignState.PAUSED)

    assert look([plain, paused], {}, site.campaigns.query_open_arrays(), {}, {}, NOON) == ()


def test_a_task_with_two_running_attempts_counts_once_in_a_forecast(site: CopySite) -> None:
    site.copy()
    arrays = site.campaigns.query_open_arrays()
    other = replace(row(1), job_id=72, since=NOON + MINUTE)
    jobs = {"beta": {71: (row(1), row(2))}, "gamma": {72: (other,)}}
    answers = {
        name: made_snapshot(cluster=name, taken_at=NOON + 2 * MINUTE, jobs=listed) for name, listed in jobs.items()
    }

    found = elapsed_seconds_of_running_tasks(
        arrays, answers, earlier_live_attempt_positions(site.copies.competing_attempts([1]))
    )

    assert found == {(1, "beta"): (120.0,), (1, "gamma"): (60.0,)}


def test_a_superseded_attempt_adds_no_run_time_and_no_task_end(site: CopySite) -> None:
    site.copy()
    site.cycle((1, 2, SUCCESS))
    site.cycle((1, 1, SUCCESS))

    assert site.campaigns.run_times_by_cluster(1) == {"gamma": (9.0,)}
    assert site.statistics.count_tasks_ended_since(1, NOON).keys() == {"gamma"}
