"""Campaigns of tests."""

from datetime import UTC, datetime
from typing import Any

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import Jdl, JdlClusterSettings

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def made_campaign(*clusters: str, **other: Any) -> Campaign:
    """Return a campaign of alice's that goes on: of a task, which may run at `clusters`, or beta."""
    jdl = Jdl(name="sweep", clusters={name: JdlClusterSettings(exec_file="run") for name in clusters or ("beta",)})
    known = {"number": 0, "uid": 1000, "owner": "alice", "state": CampaignState.IN_TREATMENT, "submitted_at": NOON}
    return Campaign(**known | {"tasks": 1, "digest": "", "jdl": jdl} | other)
