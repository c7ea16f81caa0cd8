"""A site keeps its name while arrays with this name are at clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.campaigns.runner import campaign_runner
from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.errors import ConfigError
from gridbridge.state.state_file import StateFile
from tests.builders.campaigns import NOON, made_campaign


@pytest.fixture
def campaigns(tmp_path: Path) -> Iterator[CampaignRows]:
    database = StateFile.open(f"sqlite:///{tmp_path}/state.db")
    made = CampaignRows(database)
    made.insert_campaign(made_campaign(number=1, tasks=2), "a" * 32)
    yield made
    database.close()


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "runner.site"


def test_a_new_site_name_is_refused_while_arrays_are_open(campaigns: CampaignRows, kept: Path) -> None:
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)
    campaigns.create_array(1, "beta", 2, NOON)
    for _ in range(2):
        with pytest.raises(ConfigError):
            campaign_runner.require_unchanged_site_name("omega", campaigns, str(kept), is_dry=False)
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)


def test_a_new_site_name_is_accepted_without_open_arrays(campaigns: CampaignRows, kept: Path) -> None:
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)
    campaign_runner.require_unchanged_site_name("omega", campaigns, str(kept), is_dry=False)
    assert kept.read_text() == "omega"


def test_a_first_site_name_is_accepted_with_open_arrays(campaigns: CampaignRows, kept: Path) -> None:
    campaigns.create_array(1, "beta", 2, NOON)
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)
    with pytest.raises(ConfigError):
        campaign_runner.require_unchanged_site_name("omega", campaigns, str(kept), is_dry=False)


def test_a_dry_run_stores_no_site_name(campaigns: CampaignRows, kept: Path) -> None:
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=True)
    assert not kept.exists()
