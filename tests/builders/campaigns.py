"""Campaigns of tests."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import Jdl, JdlClusterSettings

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def made_campaign(*clusters: str, **other: Any) -> Campaign:
    """Return a campaign of alice's that goes on: of a task, which may run at `clusters`, or beta."""
    jdl = Jdl(name="sweep", clusters={name: JdlClusterSettings(exec_file="run") for name in clusters or ("beta",)})
    known = {"number": 0, "uid": 1000, "owner": "alice", "state": CampaignState.IN_TREATMENT, "submitted_at": NOON}
    return Campaign(**known | {"tasks": 1, "digest": "", "jdl": jdl} | other)


def site_fixture(kind: Callable[[Path], Any]) -> object:
    """Return the fixture `site`: an object of this kind in a folder of its own, whose state file is closed."""

    @pytest.fixture(name="site")
    def _site(tmp_path: Path) -> Iterator[Any]:
        site = kind(tmp_path)
        yield site
        site.database.close()

    return _site
