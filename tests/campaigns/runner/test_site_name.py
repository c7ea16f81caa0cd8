"""A site keeps its name while arrays are away that bear it."""

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


def test_another_name_is_refused_while_arrays_are_away(campaigns: CampaignRows, kept: Path) -> None:
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)
    campaigns.create_array(1, "beta", 2, NOON)
    for _ in range(2):
        with pytest.raises(ConfigError):
            campaign_runner.require_unchanged_site_name("omega", campaigns, str(kept), is_dry=False)
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)


def test_another_name_is_taken_when_none_is_away(campaigns: CampaignRows, kept: Path) -> None:
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)
    campaign_runner.require_unchanged_site_name("omega", campaigns, str(kept), is_dry=False)
    assert kept.read_text() == "omega"


def test_a_name_is_taken_that_was_never_kept(campaigns: CampaignRows, kept: Path) -> None:
    """As by a service of before, whose arrays are away."""
    campaigns.create_array(1, "beta", 2, NOON)
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=False)
    with pytest.raises(ConfigError):
        campaign_runner.require_unchanged_site_name("omega", campaigns, str(kept), is_dry=False)


def test_a_dry_run_keeps_nothing(campaigns: CampaignRows, kept: Path) -> None:
    campaign_runner.require_unchanged_site_name("alpha", campaigns, str(kept), is_dry=True)
    assert not kept.exists()
