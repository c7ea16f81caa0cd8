"""Root's ledger gets the end of each ended campaign."""

from datetime import datetime
from pathlib import Path

from gridbridge.campaigns.runner.plan_execution_and_root_ledger import AT_ONCE, RootLedgerCampaignCloser
from gridbridge.errors import CampaignFileUnreadable, GridbridgeError, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign import CampaignState
from tests.builders.campaigns import NOON, made_campaign, site_fixture
from tests.campaigns.runner.fake_clusters import GridSite


class ClosingSite(GridSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._ends = RootLedgerCampaignCloser(self.campaigns, self.grid)

    def add(self, state: CampaignState = CampaignState.TERMINATED, ended_at: datetime | None = NOON) -> int:
        number = self.insert(made_campaign())
        self.campaigns.set_campaign_state(number, state, ended_at)
        return number

    def close_ended_campaigns(self) -> list[str]:
        self.grid.told.clear()
        self._ends.close_ended_campaigns()
        return list(self.grid.told)


_site = site_fixture(ClosingSite)


def test_each_ended_campaign_is_closed_once_in_roots_ledger(site: ClosingSite) -> None:
    site.add(CampaignState.IN_TREATMENT, None)
    site.add(CampaignState.CANCELLED, None)
    ended = [site.add(), site.add(CampaignState.CANCELLED)]

    assert site.close_ended_campaigns() == [f"end {number}" for number in ended]
    assert site.close_ended_campaigns() == []


def test_the_next_end_of_a_reopened_campaign_is_recorded_again(site: ClosingSite) -> None:
    number = site.add()
    site.close_ended_campaigns()
    site.campaigns.set_campaign_state(number, CampaignState.IN_TREATMENT)
    going = site.close_ended_campaigns()
    site.campaigns.set_campaign_state(number, CampaignState.TERMINATED, NOON)

    assert (going, site.close_ended_campaigns()) == ([], [f"end {number}"])


def test_a_failed_closing_in_roots_ledger_is_repeated(site: ClosingSite) -> None:
    for _ in range(2):
        site.add()
    site.grid.failing["end"] = GridbridgeError("sudo: no")
    failed = site.close_ended_campaigns()
    site.grid.failing["end"] = RootLedgerUnreadable("gone")

    assert (len(failed), len(site.close_ended_campaigns()), site.close_ended_campaigns()) == (1, 2, [])


def test_an_unreadable_campaign_file_does_not_delay_other_closings(site: ClosingSite) -> None:
    for _ in range(3):
        site.add()
    site.grid.failing["end"] = CampaignFileUnreadable("c.1: input/output error")

    assert (len(site.close_ended_campaigns()), len(site.close_ended_campaigns())) == (3, 3)


def test_many_unreadable_campaign_files_do_not_delay_other_closings(site: ClosingSite) -> None:
    for _ in range(AT_ONCE + 1):
        site.add()
    site.grid.failing["end"] = CampaignFileUnreadable("c.1: input/output error")
    site.close_ended_campaigns()

    assert [site.close_ended_campaigns(), site.close_ended_campaigns()[0]] == [[f"end {AT_ONCE + 1}"], "end 1"]


def test_one_cycle_closes_at_most_20_campaigns(site: ClosingSite) -> None:
    for _ in range(AT_ONCE + 2):
        site.add()

    assert (len(site.close_ended_campaigns()), len(site.close_ended_campaigns())) == (AT_ONCE, 2)
