"""Builders of campaigns, arrays and snapshots."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gridbridge.model.campaigns.campaign import ArraySubmissionState, Campaign, CampaignArray, CampaignState
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster
from gridbridge.model.cluster_snapshot import ClusterSnapshot

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def made_campaign(*clusters: str, **other: Any) -> Campaign:
    """Return an unfinished campaign of alice with one task, for `clusters` or beta."""
    jdl = Jdl(name="sweep", clusters={name: JdlSettingsAtCluster(exec_file="run") for name in clusters or ("beta",)})
    known = {"number": 0, "uid": 1000, "owner": "alice", "state": CampaignState.IN_TREATMENT, "submitted_at": NOON}
    return Campaign(**known | {"tasks": 1, "digest": "", "jdl": jdl} | other)


def released_array(**other: Any) -> CampaignArray:
    """Return the first array of campaign 1, which runs at beta."""
    known = {"campaign": 1, "number": 1, "cluster": "beta", "state": ArraySubmissionState.RELEASED, "intended_at": NOON}
    return CampaignArray(**known | other)


def made_snapshot(**other: Any) -> ClusterSnapshot:
    """Return an empty snapshot of beta at noon, with the given changes."""
    known = {"cluster": "beta", "taken_at": NOON, "queues": (), "jobs": {}, "pending": 0, "free_slots": 0}
    return ClusterSnapshot(**known | other)


def site_fixture(kind: Callable[[Path], Any]) -> object:
    """Return a fixture `site`: an object of this kind in its own folder, closed after the test."""

    @pytest.fixture(name="site")
    def _site(tmp_path: Path) -> Iterator[Any]:
        site = kind(tmp_path)
        yield site
        site.database.close()

    return _site
