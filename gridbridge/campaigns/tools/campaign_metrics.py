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


def families(seen: PublishedCampaignFiles) -> Iterator[MetricFamily]:
    """Yield what the published files say."""
    if seen.campaigns:
        yield from _campaigns(seen.campaigns)
    if seen.grid:
        yield from _clusters(seen.grid)
    if seen.events:
        yield several(
            "campaign_events",
            "Open events of campaigns and clusters, by what happened",
            "code cluster",
            [
                ((each.code.value, each.cluster), 1)
                for each in seen.events.events
                if each.closed_at is None
            ],
        )


def _campaigns(shown: ShownCampaigns) -> Iterator[MetricFamily]:
    alive = [each for each in shown.campaigns if each.state.is_alive]
    yield one(
        "campaign_cycle_timestamp_seconds",
        "When the campaign runner last published its campaigns",
        timestamp(shown.at),
    )
    yield several(
        "campaigns",
        "Campaigns that are known, by state",
        "state",
        [((each.state.value,), 1) for each in shown.campaigns],
    )
    yield several(
        "campaign_tasks",
        "Tasks of the campaigns that go on: to be sent, ended well, failed for good, or cancelled",
        "state",
        [
            *((("waiting",), each.waiting) for each in alive),
            *((("succeeded",), each.ended - each.failed - each.cancelled) for each in alive),
            *((("failed",), each.failed) for each in alive),
            *((("cancelled",), each.cancelled) for each in alive),
        ],
    )
    yield several(
        "campaign_tasks_ended_last_hour",
        "Tasks of the campaigns that go on that ended at a cluster in the last hour",
        "cluster",
        [((there.cluster,), there.ended_per_h or 0) for each in alive for there in each.at],
    )
    errors = shown.errors
    yield one(
        "campaign_forecast_median_error_ratio",
        "Median error of the forecasts made halfway, as a share of the time that was left",
        errors.median_error if errors else None,
    )


def _clusters(grid: ShownGrid) -> Iterator[MetricFamily]:
    every = grid.clusters
    yield several(
        "campaign_cluster_answered_timestamp_seconds",
        "When a cluster last answered the campaign runner",
        "cluster",
        [((each.name,), timestamp(each.answered_at)) for each in every],
    )
    yield several(
        "campaign_cluster_slots",
        "Slots of a cluster, as campaigns find it",
        "cluster",
        [((each.name,), each.slots) for each in every],
    )
    yield several(
        "campaign_cluster_used_slots",
        "Slots of a cluster that anybody uses",
        "cluster",
        [((each.name,), each.used) for each in every],
    )
    yield several(
        "campaign_cluster_tasks",
        "Tasks of campaigns at a cluster",
        "cluster state",
        [
            *(((each.name, "waiting"), each.waiting) for each in every),
            *(((each.name, "running"), each.running) for each in every),
        ],
    )
