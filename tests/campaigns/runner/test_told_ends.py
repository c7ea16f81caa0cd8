"""Root is told of each campaign that has ended."""

from datetime import datetime
from itertools import count
from pathlib import Path

from gridbridge.campaigns.runner.plan_execution_and_root_ledger import AT_ONCE, RootLedgerCampaignCloser
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.errors import CampaignFileUnreadable, GridbridgeError, RootLedgerUnreadable
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign, site_fixture
from tests.campaigns.runner.test_cycle_actions import Grid

TOKENS = count()


class Site:
    """A state file, and root."""

    def __init__(self, path: Path) -> None:
        self.database = StateFile.open(f"sqlite:///{path}/state.db")
        self.campaigns = CampaignRows(self.database)
        self.grid = Grid()
        self._ends = RootLedgerCampaignCloser(self.campaigns, self.grid)

    def add(self, state: CampaignState, ended_at: datetime | None = NOON) -> int:
        """Add a campaign in a state; return its number."""
        one = made_campaign()
        number = self.campaigns.insert_campaign(one, f"token{next(TOKENS)}")
        self.campaigns.set_campaign_state(number, state, ended_at)
        return number

    def tell(self) -> list[str]:
        """Tell root; return what it was told."""
        self.grid.told.clear()
        self._ends.close_ended_campaigns()
        return list(self.grid.told)


_site = site_fixture(Site)


def test_each_end_is_told_once(site: Site) -> None:
    """Not that of a campaign which goes on, or whose epilogues are still to run."""
    site.add(CampaignState.IN_TREATMENT, None)
    site.add(CampaignState.CANCELLED, None)
    ended = [site.add(CampaignState.TERMINATED), site.add(CampaignState.CANCELLED)]

    assert site.tell() == [f"end {number}" for number in ended]
    assert site.tell() == []


def test_the_end_of_a_campaign_that_went_on_is_told_again(site: Site) -> None:
    number = site.add(CampaignState.TERMINATED)
    site.tell()
    site.campaigns.set_campaign_state(number, CampaignState.IN_TREATMENT)
    going = site.tell()
    site.campaigns.set_campaign_state(number, CampaignState.TERMINATED, NOON)

    assert (going, site.tell()) == ([], [f"end {number}"])


def test_what_could_not_be_told_is_told_later(site: Site) -> None:
    """A ledger that is lost lets nothing be sent either."""
    for _ in range(2):
        site.add(CampaignState.TERMINATED)
    site.grid.failing["end"] = GridbridgeError("sudo: no")
    failed = site.tell()
    site.grid.failing["end"] = RootLedgerUnreadable("gone")

    assert (len(failed), len(site.tell()), site.tell()) == (1, 2, [])


def test_a_file_that_can_not_be_read_keeps_no_other_end_from_being_told(site: Site) -> None:
    """It is a person's own, who may remove it; the others are other people's campaigns."""
    for _ in range(3):
        site.add(CampaignState.TERMINATED)
    site.grid.failing["end"] = CampaignFileUnreadable("c.1: input/output error")

    assert (len(site.tell()), len(site.tell())) == (3, 3)


def test_many_files_that_can_not_be_read_keep_no_other_end_from_being_told(site: Site) -> None:
    """The next cycle begins where this one ended, and then anew."""
    for _ in range(AT_ONCE + 1):
        site.add(CampaignState.TERMINATED)
    site.grid.failing["end"] = CampaignFileUnreadable("c.1: input/output error")
    site.tell()

    assert [site.tell(), site.tell()[0]] == [[f"end {AT_ONCE + 1}"], "end 1"]


def test_a_cycle_tells_of_some(site: Site) -> None:
    for _ in range(AT_ONCE + 2):
        site.add(CampaignState.TERMINATED)

    assert (len(site.tell()), len(site.tell())) == (AT_ONCE, 2)
