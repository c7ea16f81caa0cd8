"""The state file stores campaigns, unsent tasks in ranges, and submitted tasks one by one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
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
