"""Campaigns and the clusters that they fill in numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

from gridbridge.model.campaigns.campaign_events import ShownEvents
from gridbridge.model.campaigns.published_campaigns import ShownCampaigns, ShownGrid
from gridbridge.program.metric_family import MetricFamily, one, several, timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCampaignFiles:
    """What is published of them; None is a file that is not there."""

    campaigns: ShownCampaigns | None = None
    grid: ShownGrid | None = None
    events: ShownEvents | None = None


def families(published: PublishedCampaignFiles) -> Iterator[MetricFamily]:
    """Yield what the published files say."""
    if published.campaigns:
        yield from _campaigns(published.campaigns)
    if published.grid:
        yield from _clusters(published.grid)
    if published.events:
        yield several(
            "campaign_events",
            "Open events of campaigns and clusters, by what happened",
            "code cluster",
            [
                ((event.code.value, event.cluster), 1)
                for event in published.events.events
                if event.closed_at is None
            ],
        )


def _campaigns(shown: ShownCampaigns) -> Iterator[MetricFamily]:
    alive = [campaign for campaign in shown.campaigns if campaign.state.is_alive]
    yield one(
        "campaign_cycle_timestamp_seconds",
        "When the campaign runner last published its campaigns",
        timestamp(shown.at),
    )
    yield several(
        "campaigns",
        "Campaigns that are known, by state",
        "state",
        [((campaign.state.value,), 1) for campaign in shown.campaigns],
    )
    yield several(
        "campaign_tasks",
        "Tasks of the campaigns that go on: to be sent, ended well, failed for good, or cancelled",
        "state",
        [
            *((("waiting",), campaign.waiting) for campaign in alive),
            *(
                (("succeeded",), campaign.ended - campaign.failed - campaign.cancelled)
                for campaign in alive
            ),
            *((("failed",), campaign.failed) for campaign in alive),
            *((("cancelled",), campaign.cancelled) for campaign in alive),
        ],
    )
    yield several(
        "campaign_tasks_ended_last_hour",
        "Tasks of the campaigns that go on that ended at a cluster in the last hour",
        "cluster",
        [
            ((cluster.cluster,), cluster.ended_per_h or 0)
            for campaign in alive
            for cluster in campaign.at
        ],
    )
    errors = shown.errors
    yield one(
        "campaign_forecast_median_error_ratio",
        "Median error of the forecasts made halfway, as a share of the time that was left",
        errors.median_error if errors else None,
    )


def _clusters(grid: ShownGrid) -> Iterator[MetricFamily]:
    clusters = grid.clusters
    yield several(
        "campaign_cluster_answered_timestamp_seconds",
        "When a cluster last answered the campaign runner",
        "cluster",
        [((cluster.name,), timestamp(cluster.answered_at)) for cluster in clusters],
    )
    yield several(
        "campaign_cluster_slots",
        "Slots of a cluster, as campaigns find it",
        "cluster",
        [((cluster.name,), cluster.slots) for cluster in clusters],
    )
    yield several(
        "campaign_cluster_used_slots",
        "Slots of a cluster that anybody uses",
        "cluster",
        [((cluster.name,), cluster.used) for cluster in clusters],
    )
    yield several(
        "campaign_cluster_tasks",
        "Tasks of campaigns at a cluster",
        "cluster state",
        [
            *(((cluster.name, "waiting"), cluster.waiting) for cluster in clusters),
            *(((cluster.name, "running"), cluster.running) for cluster in clusters),
        ],
    )
