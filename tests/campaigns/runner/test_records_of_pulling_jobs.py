"""A running job whose record shows that its tasks run out gets further tasks, each of them once."""

from pathlib import Path

import pytest

from gridbridge.campaigns.runner import records_of_pulling_jobs
from gridbridge.campaigns.runner.background_readings import OwnerPrograms
from gridbridge.campaigns.runner.records_of_pulling_jobs import RecordsOfPullingJobs
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import TaskGroupSize
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, PlannedCampaignTaskSend
from gridbridge.model.campaigns.grouped_tasks import PullingJob, TasksForRunningJob
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import NOON, made_campaign, site_fixture
from tests.campaigns.runner.fake_clusters import GridSite, StartedReadings
from tests.campaigns.runner.test_records_of_ended_jobs import FIRST_RECORD, NO_RECORD

OWNER = 1000


class PullingSite(GridSite):
    """A campaign of twelve tasks, of which beta's array 1 has four in its first job and three in its second."""

    def __init__(self, folder: Path) -> None:
        self.passed_s = 0.0
        self.clock = Clock(lambda: NOON.timestamp(), lambda: self.passed_s)
        super().__init__(folder, made_campaign("beta", tasks=12), clock=self.clock)
        self.reading = StartedReadings()
        self.records = RecordsOfPullingJobs(
            self.clock, TaskAttemptRows(self.database, self.campaigns), OwnerPrograms(), self.reading.start
        )
        group = TaskGroupSize(tasks=4, begin_s=300, wait_s=60)
        self.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=7, group=group),)))

    def look(self, *running: int) -> tuple[PullingJob, ...]:
        return self.records.describe_pulling_jobs({self.array: running}, {1: OWNER})

    def add(self, **tasks_of_jobs: int) -> None:
        added = (
            TasksForRunningJob(campaign=1, cluster="beta", array=1, index=int(job[1:]), tasks=tasks)
            for job, tasks in tasks_of_jobs.items()
        )
        self.do(CampaignCyclePlan(added=tuple(added)))

    def places(self) -> list[tuple[int, int]]:
        return sorted((attempt.task, attempt.place) for attempt in self.attempts())


_site = site_fixture(PullingSite)
SENT = [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (6, 2)]


def test_records_of_running_jobs_are_read_between_two_cycles(site: PullingSite) -> None:
    """Job 2 has ended since its record was read."""
    before = site.look(1, 2)
    site.passed_s += 7
    unread = site.look(1, 2)
    site.reading.end(FIRST_RECORD[:-2] + b', [2, 1, "begin 4.1 0 \\n"]]}')
    found = site.look(1)

    job = PullingJob(
        campaign=1, cluster="beta", array=1, index=1, begin_s=300, wait_s=60,
        tasks=4, begun=3, ended=2, failed=1, last_end_s=3.9, age_s=7.0,
    )  # fmt: skip
    assert (before, unread, found) == ((), (), (job,))
    assert site.reading.told == [(1, "beta", ((1, 1), (2, 1))), (1, "beta", ((1, 1),))]


def test_of_many_jobs_each_is_read_in_its_turn(site: PullingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_of_pulling_jobs, "MOST_JOBS", 2)
    for _ in range(3):
        site.look(3, 1, 2)
        site.reading.end(NO_RECORD)

    told = [((1, 1), (2, 1)), ((3, 1), (1, 1)), ((2, 1), (3, 1))]
    assert site.reading.told == [(1, "beta", jobs) for jobs in told]


def test_a_failed_reading_is_repeated(site: PullingSite, caplog: pytest.LogCaptureFixture) -> None:
    site.look(1)
    site.reading.end(NO_RECORD, 2)

    assert site.look(1) == ()
    assert "event=records_unread campaign=1 at=beta why='no route'" in caplog.text
    assert len(site.reading.told) == 2


def test_running_jobs_get_further_tasks_which_root_is_asked_for_once(site: PullingSite) -> None:
    """Only four of seven tasks are left for the second job."""
    site.add(n2=1)
    site.add(n1=1, n2=7)
    site.add(n1=1)

    assert site.grid.told[-2:] == ["add 1 2=7", "add 1 1=8 2=9 2=10 2=11"]
    assert site.places() == [*SENT, (7, 2), (8, 1), (9, 2), (10, 2), (11, 2)]
    assert (site.array.added_tasks, site.campaigns.list_unsent_tasks(1)) == (5, ())


def test_tasks_that_do_not_reach_a_job_stay_its_tasks_until_it_ends(
    site: PullingSite, caplog: pytest.LogCaptureFixture
) -> None:
    """Root may have given the tasks to the job, so only the job's record shows whether they ran."""
    site.grid.failing["add"] = GridbridgeError("no answer")
    site.add(n2=2)
    site.add()

    assert site.places() == [*SENT, (7, 2), (8, 2)]
    assert site.grid.told[-1] == "add 1 2=7 2=8"
    assert "event=tasks_not_added array=1.1 at=beta why='no answer'" in caplog.text
