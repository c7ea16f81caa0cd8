"""A site keeps its name while arrays with this name are at clusters."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gridbridge.campaigns.runner import campaign_runner
from gridbridge.errors import ConfigError
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import made_campaign, site_fixture


class NamedSite(CampaignSite):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=2))
        self.name = folder / "runner.site"

    def require(self, name: str, *, is_dry: bool = False) -> None:
        campaign_runner.require_unchanged_site_name(name, self.campaigns, str(self.name), is_dry=is_dry)


_site = site_fixture(NamedSite)


@pytest.mark.parametrize("first", [NamedSite.send, lambda site: site.require("alpha")], ids=["array", "name"])
def test_a_new_site_name_is_refused_while_arrays_are_open(site: NamedSite, first: Callable[..., object]) -> None:
    """A site's first name is accepted, even with open arrays."""
    first(site)
    site.require("alpha")
    site.send()
    for _ in range(2):
        with pytest.raises(ConfigError):
            site.require("omega")
    site.require("alpha")


def test_a_new_site_name_is_accepted_without_open_arrays(site: NamedSite) -> None:
    site.require("alpha")
    site.require("omega")

    assert site.name.read_text() == "omega"


def test_a_dry_run_stores_no_site_name(site: NamedSite) -> None:
    site.require("alpha", is_dry=True)

    assert not site.name.exists()
