"""Changes of many tasks take few statements, between which other programs can write the state file."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, CursorResult, Executable

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.campaigns.store.campaign_task_rows import TaskDeletionMarkRows, TaskMissingAtClusterRows
from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import CampaignRunnerSection, JobRatioRule
from gridbridge.model.campaigns.campaign_cycle_plan import JobRatioInputs, JobRatioUpdate
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    NikitaDeletionReason,
    TaskMissingSince,
)
from gridbridge.model.config_key_descriptions import ConfigKeyDescription
from gridbridge.state.state_file import PORTION, StateFile
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, site_fixture

TASKS = 2 * PORTION + 1
ARRAY: ConfigKeyDescription = CampaignRunnerSection.__dataclass_fields__["max_tasks"].metadata["setting"]
SUCCESS = TaskAttemptOutcome.SUCCESS
IN_PORTIONS = 3  # statements, each in a separate transaction
TERMS = JobRatioInputs(old=1.0, slots=1.0, max_slots=9, free=9, submitted=1, running=1, waiting=0, allowed=1)


class CountingStateFile(StateFile):
    """A state file that counts changes, and the changes that share a transaction."""

    changes = 0
    joined = 0  # most further changes in one transaction

    def execute(self, change: Executable, values: Any = None) -> CursorResult[Any]:
        self.changes += 1
        return super().execute(change, values)

    @contextmanager
    def _begin_transaction(self) -> Iterator[Connection]:
        before = self.changes
        with super()._begin_transaction() as connection:
            yield connection
        self.joined = max(self.joined, self.changes - before)


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Iterator[CountingStateFile]:
    database = CountingStateFile.open(f"sqlite:///{tmp_path}/state.db")
    assert isinstance(database, CountingStateFile)
    campaigns = CampaignRows(database)
    campaigns.insert_campaign(made_campaign(uid=41000, tasks=TASKS), "token")
    campaigns.create_array(1, "beta", TASKS, NOON)
    database.changes = database.joined = 0
    yield database
    database.close()


def end_all_tasks(database: StateFile, but: int) -> None:
    """End all tasks except the first `but` tasks."""
    campaigns = CampaignRows(database)
    (array,) = campaigns.query_open_arrays()
    campaigns.record_attempt_ends(
        TaskAttempt(campaign=1, task=one.task, attempt=1, array=1, place=one.place, outcome=SUCCESS)
        for one in campaigns.unfinished_attempts(array)[but:]
    )


def test_missing_tasks_are_stored_and_deleted_in_portions(database: CountingStateFile) -> None:
    kept = TaskMissingAtClusterRows(database)

    def missed(since: datetime | None, places: range) -> list[TaskMissingSince]:
        return [TaskMissingSince(campaign=1, array=1, place=place, since=since) for place in places]

    kept.store_missing_tasks(missed(NOON, range(1, TASKS + 1)))
    assert (len(kept.missing_tasks()), database.changes, database.joined) == (TASKS, IN_PORTIONS, 0)

    kept.store_missing_tasks(missed(None, range(2, TASKS + 1)))
    assert kept.missing_tasks() == {(1, 1, 1): NOON}
    assert database.changes == 2 * IN_PORTIONS - 1

    kept.store_missing_tasks(missed(NOON, range(1, TASKS + 1)))
    end_all_tasks(database, but=1)
    database.changes = 0
    kept.store_missing_tasks([])
    assert kept.missing_tasks() == {(1, 1, 1): NOON}
    assert (database.changes, database.joined) == (IN_PORTIONS - 1, 0)


def test_deletion_marks_are_stored_and_removed_in_portions(database: CountingStateFile) -> None:
    marks = TaskDeletionMarkRows(database)
    whole = {"campaign": 1, "array": 1, "cluster": "beta", "wiped_for": NikitaDeletionReason.OVERFLOW}
    wipe = ArrayTaskDeletion(places=(range(1, 3), range(3, TASKS + 1)), **whole)  # type: ignore[arg-type]

    marks.mark_tasks_for_deletion(wipe)
    assert len(marks.deletion_marks()[1, 1]) == TASKS
    assert (database.changes, database.joined) == (IN_PORTIONS, 0)

    end_all_tasks(database, but=PORTION + 1)
    database.changes = 0
    marks.remove_marks_of_ended_attempts()
    assert len(marks.deletion_marks()[1, 1]) == PORTION + 1
    assert (database.changes, database.joined) == (1, 0)

    marks.remove_deletion_marks(wipe)
    assert marks.deletion_marks() == {}
    assert (database.changes, database.joined) == (1 + IN_PORTIONS, 0)


def test_job_ratios_are_stored_in_portions(database: CountingStateFile) -> None:
    predicted = [
        JobRatioUpdate(campaign=n, cluster="beta", law=JobRatioRule.MEASURED, terms=TERMS, ratio=1.0, submitted=1)
        for n in range(TASKS)
    ]

    CampaignStatisticsRows(database).store_job_ratios(predicted)

    assert len(CampaignStatisticsRows(database).read_job_ratios([0, 1, TASKS - 1])) == IN_PORTIONS
    assert (database.changes, database.joined) == (IN_PORTIONS, 0)


def test_the_largest_array_fits_into_one_transaction() -> None:
    assert ARRAY.high <= PORTION


SWEEP = made_campaign(
    tasks=10,
    digest="abc",
    jdl=Jdl(name="sweep é'", type=CampaignType.TEST, clusters={"beta": JdlSettingsAtCluster(exec_file="run")}),
)

_site = site_fixture(CampaignSite)


def test_a_stored_campaign_is_read_back_unchanged(site: CampaignSite) -> None:
    stored = replace(SWEEP, number=site.campaigns.insert_campaign(SWEEP, "token"))

    assert site.campaign == stored
    assert site.campaigns.find_campaign_by_file_token("token") == stored
    assert site.campaigns.unfinished_campaigns() == (stored,)
    assert site.campaigns.find_campaign_by_file_token("other") is None


def test_unsent_tasks_are_taken_once_and_in_order(site: CampaignSite) -> None:
    site.insert(SWEEP)

    first, second = (site.attempts(site.send(tasks)) for tasks in (3, 99))

    assert [(attempt.task, attempt.attempt, attempt.place) for attempt in first] == [(0, 1, 1), (1, 1, 2), (2, 1, 3)]
    assert [attempt.task for attempt in second] == [3, 4, 5, 6, 7, 8, 9]
    assert site.campaigns.count_unsent_tasks() == {}
    assert site.campaigns.create_array(1, "beta", 1, NOON) is None
