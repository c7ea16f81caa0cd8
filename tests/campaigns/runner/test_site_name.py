"""A site keeps its name while arrays with this name are at clusters."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gridbridge.campaigns.runner import campaign_runner
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.errors import ConfigError
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign, site_fixture


class Site:
    def __init__(self, folder: Path) -> None:
        self.database = StateFile.open(f"sqlite:///{folder}/state.db")
        self.campaigns = CampaignRows(self.database)
        self.campaigns.insert_campaign(made_campaign(tasks=2), "a" * 32)
        self.name = folder / "runner.site"

    def require(self, name: str, *, is_dry: bool = False) -> None:
        campaign_runner.require_unchanged_site_name(name, self.campaigns, str(self.name), is_dry=is_dry)

    def open_array(self) -> None:
        self.campaigns.create_array(1, "beta", 1, NOON)


_site = site_fixture(Site)


@pytest.mark.parametrize("first", [Site.open_array, lambda site: site.require("alpha")], ids=["array", "name"])
def test_a_new_site_name_is_refused_while_arrays_are_open(site: Site, first: Callable[[Site], None]) -> None:
    """A site's first name is accepted, even with open arrays."""
    first(site)
    site.require("alpha")
    site.open_array()
    for _ in range(2):
        with pytest.raises(ConfigError):
            site.require("omega")
    site.require("alpha")


def test_a_new_site_name_is_accepted_without_open_arrays(site: Site) -> None:
    site.require("alpha")
    site.require("omega")

    assert site.name.read_text() == "omega"


def test_a_dry_run_stores_no_site_name(site: Site) -> None:
    site.require("alpha", is_dry=True)

    assert not site.name.exists()
