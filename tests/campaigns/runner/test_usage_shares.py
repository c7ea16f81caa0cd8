"""Past slot usage of campaigns is stored, decays, and ranks the campaigns."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.campaigns.runner.campaign_runner import NEVER_S, FairShareUsageAccounting
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignSlotUsageRows
from gridbridge.model.campaigns import campaign as campaign_model
from gridbridge.model.campaigns.campaign_configuration_sections import (
    ClusterCampaignsSection,
    FairShareUnit,
    MetaschedulerSection,
)
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCyclePlan, CampaignCycleSituation
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.shell.clock import Clock
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, made_policy, made_situation, released_array, site_fixture

ARRAY = released_array(size=9)


class SharingSite(CampaignSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, campaign("alice"), campaign("bob"))
        self.at = NOON

    def shares(
        self,
        by: FairShareUnit = FairShareUnit.NONE,
        section: MetaschedulerSection | None = None,
        usage: CampaignSlotUsageRows | None = None,
        **campaigns: ClusterCampaignsSection,
    ) -> FairShareUsageAccounting:
        section = section or MetaschedulerSection(share_by=by, half_life_h=1.0, priorities="alice=1")
        policy = made_policy(metascheduler=section, campaigns=campaigns)
        clock = Clock(lambda: self.at.timestamp(), lambda: self.at.timestamp())
        usage = usage or CampaignSlotUsageRows(self.database)
        return FairShareUsageAccounting(policy, self.campaigns, usage, clock)


_site = site_fixture(SharingSite)


def campaign(owner: str, number: int = 0) -> campaign_model.Campaign:
    return made_campaign(
        number=number,
        owner=owner,
        tasks=9,
        jdl=Jdl(name="sweep", clusters={"beta": JdlSettingsAtCluster(exec_file="run", slots=2)}),
    )


def ended(
    *wallclocks_s: int, outcome: campaign_model.TaskAttemptOutcome = campaign_model.TaskAttemptOutcome.SUCCESS
) -> tuple[CampaignCycleSituation, CampaignCyclePlan]:
    known = campaign_model.TaskAttempt(campaign=1, task=0, attempt=1, array=1, place=1, outcome=outcome)
    seen = made_situation(campaigns=(campaign("alice", 1), campaign("bob", 2)), arrays=(ARRAY,))
    return seen, CampaignCyclePlan(ended=tuple(replace(known, wallclock_s=one) for one in wallclocks_s))


def test_past_usage_counts_half_after_the_half_life(site: SharingSite) -> None:
    by_user = site.shares(FairShareUnit.USER)
    by_user.add_usage_of_ended_tasks(*ended(100, 300))
    before = by_user.read_fair_share_inputs(())
    site.at += timedelta(hours=1)
    by_user.add_usage_of_ended_tasks(*ended(50))

    assert before.used_s == {"alice": 800.0}  # usage of ended campaigns counts, too
    assert by_user.read_fair_share_inputs(()).used_s == {"alice": 500.0}


def test_a_cluster_without_success_has_the_longest_mean_run_time(site: SharingSite) -> None:
    first_come = site.shares(FairShareUnit.NONE)
    first_come.add_usage_of_ended_tasks(*ended(100, outcome=campaign_model.TaskAttemptOutcome.PROGRAM_ERROR))

    assert first_come.read_fair_share_inputs((campaign("alice", 1),)).mean_s == {1: {"beta": NEVER_S}}


def test_decayed_usage_is_deleted(site: SharingSite) -> None:
    by_user = site.shares(FairShareUnit.USER)
    by_user.add_usage_of_ended_tasks(*ended(100))
    site.at += timedelta(days=1)
    by_user.add_usage_of_ended_tasks(*ended())

    assert CampaignSlotUsageRows(site.database).read_slot_usage() == ()


def test_small_past_usage_does_not_hide_new_usage(site: SharingSite) -> None:
    by_user = site.shares(FairShareUnit.USER)
    by_user.add_usage_of_ended_tasks(*ended(1))
    site.at += timedelta(hours=3)
    by_user.add_usage_of_ended_tasks(*ended(100))

    assert by_user.read_fair_share_inputs(()).used_s == {"alice": 200.25}


def test_past_usage_is_read_once_in_each_cycle(site: SharingSite) -> None:
    usage = Mock(wraps=CampaignSlotUsageRows(site.database))
    shares = site.shares(FairShareUnit.USER, usage=usage)

    for _ in range(2):
        shares.read_fair_share_inputs(())
        shares.add_usage_of_ended_tasks(*ended(100))

    assert usage.read_slot_usage.call_count == 2
    assert shares.read_fair_share_inputs(()).used_s == {"alice": 400.0}


@pytest.mark.parametrize(
    ("section", "affinity", "is_asked"),
    [
        (MetaschedulerSection(), "", False),
        (MetaschedulerSection(share_by=FairShareUnit.USER, priorities="alice=1"), "bob", False),
        (MetaschedulerSection(priorities="@physics=1"), "", True),
        (MetaschedulerSection(), "bob @lyon", True),
        (MetaschedulerSection(share_by=FairShareUnit.GROUP), "", True),
    ],
    ids=["nothing", "people", "priority", "affinity", "share"],
)
def test_groups_of_owners_are_read_only_if_needed(
    site: SharingSite, section: MetaschedulerSection, affinity: str, is_asked: bool
) -> None:
    shares = site.shares(section=section, beta=ClusterCampaignsSection(affinity=affinity))

    assert ("root" in shares.read_fair_share_inputs((campaign("root", 1),)).groups) == is_asked


def test_fair_share_inputs_have_the_configured_values(site: SharingSite) -> None:
    known = site.shares(FairShareUnit.GROUP).read_fair_share_inputs((campaign("root", 1),))

    assert (known.by, known.priorities, known.first_tasks) == (FairShareUnit.GROUP, "alice=1", 5)
    assert known.groups["root"][0] == "root"
