"""The state file stores campaigns, and unsent tasks in ranges."""

from dataclasses import replace

from gridbridge.model.campaigns.jdl import CampaignType, Jdl, JdlSettingsAtCluster
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, site_fixture

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
