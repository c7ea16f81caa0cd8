"""The ends of tasks that ran in one job are recorded once the job's record has been read."""

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from gridbridge.campaigns.runner import array_commands_as_owner
from gridbridge.campaigns.runner.background_readings import LONGEST_WAIT_S, PAUSE_S, OwnerPrograms, RecordsOfEndedJobs
from gridbridge.campaigns.runner.campaign_situation_gatherer import CampaignSituationGatherer
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows
from gridbridge.errors import ParseError
from gridbridge.model.campaigns.campaign import CampaignArray, TaskGroupSize
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome as Outcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, PlannedCampaignTaskSend
from gridbridge.model.campaigns.grouped_tasks import JobRecord
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from gridbridge.state.campaign_tables import ATTEMPTS
from tests.builders.campaigns import NOON, RUNNING, job_row, made_campaign, made_policy, made_snapshot, site_fixture
from tests.campaigns.runner.fake_clusters import GridSite, StartedReadings

NO_RECORD = b'{"jobs": []}'
FIRST_RECORD = (
    b"""{"jobs": [[1, 1, "begin 0.1 0 \\nexit 0.1 150 0\\nbegin 1.1 150 \\nexit 1.1 390 3\\nbegin 2.1 390 \\n"]]}"""
)
JOB = JobEnd(signal=9, wallclock_s=6.0, host="n1")
DONE = JobEnd(exit_status=0, wallclock_s=6.0, host="n1")


class GroupingSite(GridSite):
    """A campaign of seven tasks, of which beta's array 1 runs four in its first job and three in its second."""

    def __init__(self, folder: Path) -> None:
        self.passed_s = 0.0
        self.clock = Clock(lambda: NOON.timestamp() + self.passed_s, lambda: self.passed_s)
        super().__init__(folder, made_campaign("beta", tasks=7), clock=self.clock)
        self.reading = StartedReadings()
        self.records = RecordsOfEndedJobs(self.clock, OwnerPrograms(), self.reading.start)
        self.gatherer = CampaignSituationGatherer(
            made_policy(), self.database, self.clock, ran=f"{folder}/ran", records=self.records
        )
        group = TaskGroupSize(tasks=4, begin_s=300)
        self.do(CampaignCyclePlan(sends=(PlannedCampaignTaskSend(campaign=1, cluster="beta", tasks=7, group=group),)))

    def look(self, monkeypatch: pytest.MonkeyPatch, *listed: range, end: JobEnd = JOB) -> list[tuple[int, Outcome]]:
        """Return the ended tasks, if beta lists these jobs and all other jobs have ended so."""
        snapshot = made_snapshot(jobs={71: tuple(job_row(jobs, RUNNING, job_id=71) for jobs in listed)})
        ends = {index: end for index in (1, 2) if not any(index in jobs for jobs in listed)}
        monkeypatch.setattr(
            self.gatherer.end_finder, "_query_task_ends", lambda indices, _: dict.fromkeys(indices, ends)
        )
        monkeypatch.setattr(
            self.gatherer.end_finder, "_accounting_delays_by_cluster", lambda names: dict.fromkeys(names, 0.0)
        )
        monkeypatch.setattr(self.gatherer.end_finder, "_query_live_tasks", lambda _: {})
        monkeypatch.setattr(self.gatherer.end_finder.restored, "may_record_task_ends", lambda _: True)
        monkeypatch.setattr(self.gatherer._asking, "fetch_snapshots", lambda *_: {"beta": snapshot})
        situation = self.gatherer.gather_situation()
        self.do(CampaignCyclePlan(ended=situation.ended, over=situation.over))
        self.over, self.forgotten_jobs = situation.over, {attempt.forgotten_job for attempt in situation.ended}
        return sorted((attempt.task, attempt.outcome) for attempt in situation.ended)


_site = site_fixture(GroupingSite)
FIRST_ENDS = [(0, Outcome.SUCCESS), (1, Outcome.PROGRAM_ERROR), (2, Outcome.SIGNAL), (3, Outcome.UNBEGUN)]


def test_a_job_with_several_tasks_has_one_array_index(site: GroupingSite) -> None:
    assert [1, 1, 1, 1, 2, 2, 2] == [attempt.place for attempt in site.attempts()]
    assert (2, 4, 300) == (site.array.size, site.array.group_tasks, site.array.group_s)
    assert site.grid.submissions() == ["submit 1 beta 0:1,1:1,2:1,3:1,4:1,5:1,6:1"]


def test_each_task_of_an_ended_job_gets_its_own_end(site: GroupingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's run time of 6 s is split in proportion to the times in the record."""
    before = site.look(monkeypatch, range(2, 3))
    site.reading.end(FIRST_RECORD)
    first = site.look(monkeypatch, range(2, 3))
    attempts = site.database.rows(select(ATTEMPTS).order_by(ATTEMPTS.c.task))
    is_first_over = bool(site.over)
    site.look(monkeypatch)
    site.reading.end(NO_RECORD)
    second = site.look(monkeypatch, end=JobEnd(signal=57))

    assert (before, first, is_first_over) == ([], FIRST_ENDS, False)
    assert [(row["task"], row["wallclock_s"]) for row in attempts[:4]] == [(0, 2), (1, 2), (2, 2), (3, None)]
    assert second == [(4, Outcome.SETUP_ERROR), (5, Outcome.UNBEGUN), (6, Outcome.UNBEGUN)]
    assert bool(site.over)
    assert site.reading.told == [(1, "beta", ((1, 1),)), (1, "beta", ((2, 1),))]


@pytest.mark.parametrize(
    ("end", "status", "why"),
    [(JOB, 2, "'no route'"), (DONE, 0, "\"no file group.1.1 in the campaign's folder; expected")],
    ids=["no route", "no file of a job that ended with 0"],
)
def test_unreadable_records_are_read_again_and_at_last_the_tasks_are_lost(
    site: GroupingSite,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    end: JobEnd,
    status: int,
    why: str,
) -> None:
    """The lost tasks may have succeeded, so that only tasks that may run twice are resent."""
    site.look(monkeypatch, range(2, 3), end=end)
    site.reading.end(NO_RECORD, status)
    failed = site.look(monkeypatch, range(2, 3), end=end)
    site.passed_s += PAUSE_S
    site.look(monkeypatch, range(2, 3), end=end)
    site.reading.end(b'{"jobs": ["no record"]}')
    site.passed_s += LONGEST_WAIT_S

    assert failed == []
    assert [(task, Outcome.SITE_FAULT) for task in range(4)] == site.look(monkeypatch, range(2, 3), end=end)
    assert {71} == site.forgotten_jobs
    assert f"event=records_unread campaign=1 at=beta why={why}" in caplog.text
    assert len(site.reading.told) == 2


def test_a_record_that_waits_for_its_turn_is_not_late(site: GroupingSite, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage a person may have more ended jobs than the programs of 15 minutes read."""
    monkeypatch.setattr(site.records._readings, "_most", 1)
    site.look(monkeypatch)
    site.passed_s += LONGEST_WAIT_S - 1
    site.reading.end(FIRST_RECORD)
    first = site.look(monkeypatch)
    site.passed_s += LONGEST_WAIT_S - 1

    assert (FIRST_ENDS, []) == (first, site.look(monkeypatch))


def test_a_campaign_whose_records_are_unreadable_waits_for_no_other_campaign(site: GroupingSite) -> None:
    """Readings of the owner's other campaign succeed all the time; the campaigns take turns."""
    other = replace(site.array, campaign=2)
    records: dict[CampaignArray, dict[int, JobRecord | None]] = {other: {}}
    while not records[other] and site.passed_s < 2 * LONGEST_WAIT_S:
        ended = {other: {1: False}, site.array: {round(site.passed_s): False}}
        records = site.records.take_job_records(ended, {1: 0, 2: 0})
        site.reading.end(NO_RECORD, status=2 if site.reading.told[-1][0] == 2 else 0)
        site.passed_s += PAUSE_S

    assert ({1: None}, LONGEST_WAIT_S + PAUSE_S) == (records[other], site.passed_s)
    assert {1, 2} == {campaign for campaign, _, _ in site.reading.told[-3:]}


def test_a_cancelled_task_ends_its_job_and_the_others_are_resent(
    site: GroupingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 1 == TaskDeletionMarkRows(site.database).mark_task_cancelled(1, 3)
    site.look(monkeypatch, range(2, 3))
    site.reading.end(FIRST_RECORD)

    assert site.look(monkeypatch, range(2, 3)) == [
        *FIRST_ENDS[:2],
        (2, Outcome.UNBEGUN),
        (3, Outcome.UNWANTED),
    ]


@pytest.mark.parametrize("stdout", [b"", b"{}", b"[]", b'{"jobs": [1]}', b'{"jobs": [["x", 1, ""]]}'])
def test_a_wrong_answer_of_an_owners_program_is_an_error(stdout: bytes) -> None:
    with pytest.raises(ParseError, match="read-jobs"):
        array_commands_as_owner.records_of_jobs(CompletedProgram((), 0, stdout, b""))
