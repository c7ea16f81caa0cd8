"""A campaign for benchmarks of its tasks."""

from collections.abc import Iterable
from datetime import UTC, datetime

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import Jdl, JdlSettingsAtCluster

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def campaign(
    tasks: int,
    clusters: Iterable[str] = ("beta",),
    *,
    number: int = 0,
    ended: int = 0,
    is_idempotent: bool = False,
    inputs: tuple[str, ...] = (),
) -> Campaign:
    """Return an unfinished campaign, by default without a number."""
    wishes = {name: JdlSettingsAtCluster(exec_file="run") for name in clusters}
    return Campaign(
        number=number,
        uid=1000,
        owner="alice",
        state=CampaignState.IN_TREATMENT,
        submitted_at=NOON,
        tasks=tasks,
        ended=ended,
        digest="",
        jdl=Jdl(name="bench", clusters=wishes, is_idempotent=is_idempotent, inputs=inputs),
    )
