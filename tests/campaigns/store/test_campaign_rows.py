"""The state file stores campaigns, unsent tasks in ranges, and submitted tasks one by one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.task_attempt_rows import TaskAttemptRows
from gridbridge.model.campaigns.campaign import (
    PRIORITY_AT_ONCE,
    PRIORITY_LAST,
    ArraySubmissionState,
    CampaignState,
    TaskAttemptOutcome,
    WaitingTaskRange,
)
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from gridbridge.state.campaign_tables import live_campaign_jobs_at
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign

SWEEP = made_campaign(
    tasks=10,
    digest="abc",
    jdl=Jdl(name="sweep é'", type=CampaignType.TEST, clusters={"beta": JdlSettingsAtCluster(exec_file="run")}),
)


@pytest.fixture(name="campaigns")
def _campaigns(tmp_path: Path) -> Iterator[CampaignRows]:
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    yield CampaignRows(database)
    database.close()


def attempts(campaigns: CampaignRows, tasks: int) -> list[tuple[int, int, int]]:
    """Create an array of campaign 1; return task, attempt and index of each of its tasks."""
    array = campaigns.create_array(1, "beta", tasks, NOON)
    return [(one.task, one.attempt, one.place) for one in campaigns.unfinished_attempts(array)]


def test_a_stored_campaign_is_read_back_unchanged(campaigns: CampaignRows) -> None:
    number = campaigns.insert_campaign(SWEEP, "token")

    kept = replace(SWEEP, number=number)
    assert campaigns.find_campaign(number) == kept
    assert campaigns.find_campaign_by_file_token("token") == kept
    assert campaigns.unfinished_campaigns() == (kept,)
    assert campaigns.find_campaign_by_file_token("other") is None


def test_unsent_tasks_are_taken_once_and_in_order(campaigns: CampaignRows) -> None:
    campaigns.insert_campaign(SWEEP, "token")

    assert attempts(campaigns, 3) == [(0, 1, 1), (1, 1, 2), (2, 1, 3)]
    assert campaigns.count_unsent_tasks() == {1: 7}
    assert attempts(campaigns, 99)[0] == (3, 1, 1)
    assert campaigns.count_unsent_tasks() == {}
    assert campaigns.create_array(1, "beta", 1, NOON) is None


def test_a_retried_task_comes_first_or_last_by_its_priority(campaigns: CampaignRows) -> None:
    campaigns.insert_campaign(SWEEP, "token")
    attempts(campaigns, 3)

    campaigns.add_unsent_tasks(1, WaitingTaskRange(first=1, last=1, attempt=2, priority=PRIORITY_LAST))
    campaigns.add_unsent_tasks(1, WaitingTaskRange(first=2, last=2, attempt=2, priority=PRIORITY_AT_ONCE))

    assert attempts(campaigns, 2) == [(2, 2, 1), (3, 1, 2)]
    assert attempts(campaigns, 99)[-1] == (1, 2, 7)


def test_an_ended_attempt_is_no_longer_unfinished(campaigns: CampaignRows) -> None:
    campaigns.insert_campaign(SWEEP, "token")
    array = campaigns.create_array(1, "beta", 2, NOON)
    campaigns.set_array_state(array, ArraySubmissionState.SUBMITTED, 77)
    first, second = campaigns.unfinished_attempts(array)

    campaigns.record_attempt_ends(
        (replace(first, outcome=TaskAttemptOutcome.PROGRAM_ERROR, exit_status=3, wallclock_s=5),)
    )
    campaigns.add_to_task_counts(1, ended=1, failed=1)

    kept = replace(array, state=ArraySubmissionState.SUBMITTED, job_id=77)
    assert campaigns.unfinished_attempts(array) == (second,)
    assert campaigns.query_open_arrays() == (kept,)
    assert live_campaign_jobs_at(campaigns.database, "beta").jobs == {77}
    assert live_campaign_jobs_at(campaigns.database, "gamma").jobs == frozenset()
    campaigns.set_array_state(array, ArraySubmissionState.OVER)
    assert live_campaign_jobs_at(campaigns.database, "beta").jobs == frozenset()
    assert campaigns.query_open_arrays() == ()
    assert TaskAttemptRows(campaigns.database, campaigns).query_clusters_with_task_attempts(1) == {"beta"}
    found = campaigns.find_campaign(1)
    assert (found.ended, found.failed) == (1, 1)


def test_an_ended_campaign_is_stored_but_not_unfinished(campaigns: CampaignRows) -> None:
    campaigns.insert_campaign(SWEEP, "token")

    campaigns.set_campaign_state(1, CampaignState.TERMINATED)

    assert campaigns.unfinished_campaigns() == ()
    assert [one.state for one in campaigns.all_campaigns()] == [CampaignState.TERMINATED]
