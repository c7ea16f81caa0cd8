"""At clusters whose accounting lacks memory, usage is read after the ends, and a failed reading delays no end."""

from pathlib import Path

import pytest

from gridbridge.campaigns.runner.array_submitter import CampaignOwnerUids
from gridbridge.campaigns.runner.background_readings import (
    LONGEST_USAGE_WAIT_S,
    MOST_ATTEMPTS,
    USAGE_PAUSE_S,
    BackgroundPrograms,
    UsageOfEndedAttempts,
)
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan
from gridbridge.model.campaigns.campaign_events import FailureEventsChangedInCycle
from gridbridge.model.campaigns.task_resource_usage import MeasuredTaskAttempt, TaskUsageAtCluster
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from tests.builders.campaigns import NOON, made_campaign, site_fixture
from tests.campaigns.runner.fake_clusters import GridSite, StartedReadings
from tests.decisions.campaigns.campaign_builder import make_attempt

GOOD, FAILED, OVERRUN = TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.SIGNAL, TaskAttemptOutcome.WALLTIME
BOTH = b'{"usage": [[0, 1, 2048, 7], [1, 1, 1024, 0]], "checkpoints": []}'


class MeasuringSite(GridSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=9), made_campaign(tasks=9, uid=1001))
        self.passed_s = 0.0
        self.reading = StartedReadings()
        self.programs = BackgroundPrograms()
        self.restart()

    def restart(self) -> None:
        clock = Clock(NOON.timestamp, lambda: self.passed_s)
        owners = CampaignOwnerUids(self.campaigns)
        self.usages = UsageOfEndedAttempts(owners, {"gamma"}, clock, self.programs, self.reading.start)

    def ended_at(self, cluster: str, *outcomes: TaskAttemptOutcome, campaign: int = 1, **values: int) -> None:
        self.usages.start_readings(
            (make_attempt(place, outcome=outcome, campaign=campaign, **values), cluster)
            for place, outcome in enumerate(outcomes, 1)
        )


_site = site_fixture(MeasuringSite)


def test_the_usage_of_ended_attempts_is_read_by_a_program_that_outlives_a_failed_cycle(site: MeasuringSite) -> None:
    site.ended_at("gamma", GOOD, FAILED, OVERRUN)
    site.restart()
    assert () == site.usages.take_measured_attempts()
    site.reading.end(BOTH)

    usual = {"campaign": 1, "attempt": 1, "cluster": "gamma"}
    assert [(1, "gamma", ((0, 1), (1, 1), (2, 1)))] == site.reading.told
    assert site.usages.take_measured_attempts() == (
        MeasuredTaskAttempt(task=0, has_failed=False, max_rss_kb=2048, written_kb=7, **usual),
        MeasuredTaskAttempt(task=1, has_failed=True, max_rss_kb=1024, written_kb=0, **usual),
    )
    assert () == site.usages.take_measured_attempts()


@pytest.mark.parametrize(
    ("cluster", "outcome", "values"),
    [
        ("beta", GOOD, {}),
        ("gamma", GOOD, {"max_rss_kb": 9}),
        ("gamma", TaskAttemptOutcome.PREEMPTED, {}),
        ("gamma", TaskAttemptOutcome.SETUP_ERROR, {}),
    ],
    ids=["accounting with memory", "measured", "preempted", "not started"],
)
def test_no_program_reads_what_is_known_or_does_not_count(
    site: MeasuringSite, cluster: str, outcome: TaskAttemptOutcome, values: dict[str, int]
) -> None:
    site.ended_at(cluster, outcome, **values)

    assert [] == site.reading.told


def test_a_program_of_each_owner_reads_many_attempts_at_once(site: MeasuringSite) -> None:
    site.ended_at("gamma", *[GOOD] * (MOST_ATTEMPTS + 5))
    site.ended_at("gamma", GOOD, campaign=2)
    site.reading.programs[0].result = CompletedProgram((), 0, BOTH, b"")
    site.usages.take_measured_attempts()
    site.ended_at("gamma")
    assert [(1, MOST_ATTEMPTS), (2, 1)] == [(campaign, len(attempts)) for campaign, _, attempts in site.reading.told]

    site.passed_s = USAGE_PAUSE_S
    site.ended_at("gamma", GOOD)

    assert 6 == len(site.reading.told[2][2])


@pytest.mark.parametrize(
    ("stdout", "status"),
    [(b"", 2), (b"[]", 0), (b'{"usage": [[0]]}', 0), (b'{"usage": [["x", 1, 2, 3]]}', 0)],
)
def test_attempts_that_can_not_be_read_are_read_again_and_at_last_stay_unknown(
    site: MeasuringSite, stdout: bytes, status: int
) -> None:
    site.ended_at("gamma", GOOD)
    site.reading.end(stdout, status)

    assert () == site.usages.take_measured_attempts()
    site.reading.trouble = GridbridgeError("no helper")
    site.passed_s = USAGE_PAUSE_S
    site.ended_at("gamma")
    assert [(1, "gamma", ((0, 1),))] * 2 == site.reading.told
    site.passed_s = LONGEST_USAGE_WAIT_S
    assert () == site.usages.take_measured_attempts()
    assert ({}, False) == (site.programs.unmeasured, site.programs.are_in_use)


def test_measured_usage_is_stored_with_the_attempt_and_its_campaign(site: MeasuringSite) -> None:
    (attempt,) = site.attempts(site.send(1, cluster="gamma"))
    measured = MeasuredTaskAttempt(
        campaign=1, task=0, attempt=1, cluster="gamma", has_failed=False, max_rss_kb=2048, written_kb=7
    )
    usage = TaskUsageAtCluster(campaign=1, cluster="gamma", ended=1, measured=1, max_rss_kb=2048, written_kb=7)
    site.do(CampaignCyclePlan(measured=(measured,), changes=FailureEventsChangedInCycle(usages=(usage,))))

    (stored,) = site.tasks.submitted_tasks(1, 0, 0)
    assert (attempt.task, 2048, 7) == (stored.number, stored.max_rss_kb, stored.written_kb)
    assert (usage,) == site.statistics.read_task_usages([1])
    site.tasks.purge_campaign(1)
    assert {} == site.statistics.task_usages_by_campaign()
