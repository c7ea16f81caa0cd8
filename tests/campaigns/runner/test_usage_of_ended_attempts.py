"""At clusters whose accounting lacks memory, usage is read after the ends, and a failed reading delays no end."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.array_submitter import CampaignOwnerUids
from gridbridge.campaigns.runner.usage_of_ended_attempts import (
    MOST_AT_ONCE,
    PAUSE_S,
    RunningUsageReading,
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
from tests.campaigns.runner.fake_clusters import GridSite, StartedProgram
from tests.decisions.campaigns.campaign_builder import make_attempt

GOOD, FAILED, OVERRUN = TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.SIGNAL, TaskAttemptOutcome.WALLTIME
BOTH = b'{"usage": [[0, 1, 2048, 7], [1, 1, 1024, 0]], "checkpoints": []}'


class UsageReading:
    usage_of_attempts = staticmethod(array_commands_as_owner.usage_of_attempts)

    def __init__(self) -> None:
        self.told: list[tuple[int, str, int]] = []
        self.programs: list[StartedProgram] = []
        self.trouble: GridbridgeError | None = None

    def start_record_reading(self, campaign: int, cluster: str, attempts: Iterable[tuple[int, int]]) -> StartedProgram:
        self.told.append((campaign, cluster, len([*attempts])))
        if self.trouble:
            raise self.trouble
        self.programs.append(StartedProgram())
        return self.programs[-1]

    def end(self, stdout: bytes = BOTH, status: int = 0) -> None:
        self.programs[-1].result = CompletedProgram((), status, stdout, b"no route")


class MeasuringSite(GridSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=9), made_campaign(tasks=9, uid=1001))
        self.passed_s = 0.0
        self.reading = UsageReading()
        self.running: dict[tuple[int, str], RunningUsageReading] = {}
        self.restart()

    def restart(self) -> None:
        clock = Clock(NOON.timestamp, lambda: self.passed_s)
        owners = CampaignOwnerUids(self.campaigns)
        self.usages = UsageOfEndedAttempts(owners, {"gamma"}, clock, self.running, self.reading)

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
    site.reading.end()

    usual = {"campaign": 1, "attempt": 1, "cluster": "gamma"}
    assert [(1, "gamma", 3)] == site.reading.told
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
    site.ended_at("gamma", *[GOOD] * (MOST_AT_ONCE + 5))
    site.ended_at("gamma", GOOD, campaign=2)
    site.reading.programs[0].result = CompletedProgram((), 0, BOTH, b"")
    site.usages.take_measured_attempts()
    site.ended_at("gamma")
    assert [(1, "gamma", MOST_AT_ONCE), (2, "gamma", 1)] == site.reading.told

    site.passed_s = PAUSE_S
    site.ended_at("gamma", GOOD)

    assert (1, "gamma", 6) == site.reading.told[2]


@pytest.mark.parametrize(
    ("stdout", "status"),
    [(b"", 2), (b"[]", 0), (b'{"usage": [[0]]}', 0), (b'{"usage": [["x", 1, 2, 3]]}', 0)],
)
def test_attempts_that_can_not_be_read_stay_unknown(site: MeasuringSite, stdout: bytes, status: int) -> None:
    site.ended_at("gamma", GOOD)
    site.reading.end(stdout, status)

    assert () == site.usages.take_measured_attempts()
    site.reading.trouble = GridbridgeError("no helper")
    site.passed_s = PAUSE_S
    site.ended_at("gamma", GOOD)
    assert {} == site.running


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
