"""Which clusters a cycle has to know more of than whether they answer."""

from dataclasses import replace
from datetime import UTC, datetime

from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.jdl import AtCluster, Jdl
from gridbridge.services.campaigns.listed import wanted_clusters

WISH = AtCluster(exec_file="run")
ONE = Campaign(
    number=1,
    uid=1000,
    owner="alice",
    state=CampaignState.IN_TREATMENT,
    submitted_at=datetime(2026, 1, 1, tzinfo=UTC),
    tasks=9,
    digest="",
    jdl=Jdl(name="sweep", clusters={"beta": WISH, "gamma": WISH}),
)


def test_stress_is_asked_for_where_something_may_be_sent() -> None:
    """A script may be slow, and its cluster out of use."""
    delta = replace(ONE, number=2, jdl=replace(ONE.jdl, clusters={"delta": WISH}))
    paused = replace(delta, number=3, state=CampaignState.PAUSED)

    assert wanted_clusters((ONE, delta, paused), {1: 4, 3: 4}) == {"beta", "gamma"}
    assert wanted_clusters((), {}) == frozenset()
