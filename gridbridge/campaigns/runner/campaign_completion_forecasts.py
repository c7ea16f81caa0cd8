"""Forecasts when campaigns end, and adds forecasts and task counts to published campaigns."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gridbridge.campaigns.store.campaign_and_attempt_tables import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.decisions.campaigns.campaign_progress_and_forecast import (
    forecast_campaign_end,
    relative_error_of_forecast,
    summarize_forecast_errors,
)
from gridbridge.model.campaigns import campaign as campaign_model
from gridbridge.model.campaigns.campaign_cycle_plan import (
    CampaignCyclePlan,
    CampaignCycleSituation,
    CampaignTaskCountsAtCluster,
)
from gridbridge.model.campaigns.campaign_end_forecast import (
    CampaignForecast,
    CampaignProgressForForecast,
    CampaignRunTimesAtCluster,
    HalfwayForecast,
)
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignProgressAtCluster,
    PublishedCampaign,
    PublishedForecastErrors,
)
from gridbridge.model.grid_engine_amounts import HOUR_S
from gridbridge.shell.clock import Clock

Elapsed = Mapping[tuple[int, str], tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatedCampaignForecast:
    at: datetime
    forecast: CampaignForecast
    services: tuple[CampaignRunTimesAtCluster, ...]


class CampaignCompletionForecasts:
    def __init__(
        self, campaigns: CampaignRows, predictions: CampaignStatisticsRows, clock: Clock, pause_s: float
    ) -> None:
        self._campaigns = campaigns
        self._predictions = predictions
        self._clock = clock
        self._pause_s = pause_s
        self._made: dict[int, _DatedCampaignForecast] = {}
        self._there: dict[int, list[CampaignTaskCountsAtCluster]] = {}
        self._ratios: dict[tuple[int, str], float] = {}
        self._kept = {forecast.campaign: forecast for forecast in predictions.read_forecasts()}

    def update_forecasts(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan, elapsed: Elapsed) -> None:
        """Update old forecasts; store a campaign's first forecast once half of its tasks have ended."""
        self._there = defaultdict(list)
        for view in situation.there:
            self._there[view.campaign].append(view)
        ratios = {(record.campaign, record.cluster): record.ratio for record in situation.ratios}
        self._ratios = ratios | {(record.campaign, record.cluster): record.ratio for record in plan.predicted}
        now = self._clock.now()
        for campaign in situation.campaigns:
            number, latest = campaign.number, self._made.get(campaign.number)
            # a forecast is kept for 45 s, because a new forecast takes some milliseconds
            is_new = (
                latest and latest.forecast.p50_s is not None and timedelta() <= now - latest.at < timedelta(seconds=45)
            )
            if campaign.state is campaign_model.CampaignState.IN_TREATMENT and not is_new:
                services = self._campaign_run_times_by_cluster(campaign, elapsed, now)
                views = self._there.get(number, ())
                unsent = situation.waiting.get(number, 0) + situation.awaiting.get(number, 0)
                tasks_left = unsent + sum(view.waiting for view in views)
                progress = CampaignProgressForForecast(left=tasks_left, services=services, pause_s=self._pause_s)
                self._made[number] = _DatedCampaignForecast(
                    at=now, forecast=forecast_campaign_end(progress), services=services
                )
                self._store_halfway_forecast(campaign, now)
        for number in plan.finished:
            stored = self._kept.get(number)
            if stored and stored.ended_at is None:  # if a campaign was retried, its first end stays stored
                self._kept[number] = replace(stored, ended_at=now)

    def drop_forecasts(self, campaigns: Iterable[int]) -> None:
        """Drop the forecasts of campaigns that got more tasks."""
        for number in campaigns:
            self._made.pop(number, None)
            self._kept.pop(number, None)

    def add_forecast_to_campaign(self, published_campaign: PublishedCampaign) -> PublishedCampaign:
        """Add task counts by cluster to a published campaign, and a forecast to a running campaign."""
        latest = self._made.get(published_campaign.number)
        stored = self._kept.get(published_campaign.number)
        if published_campaign.state is not campaign_model.CampaignState.IN_TREATMENT or latest is None:
            self._made.pop(published_campaign.number, None)
            error = relative_error_of_forecast(stored) if stored else None
            return replace(
                published_campaign, forecast_error=error, at=self._campaign_progress_by_cluster(published_campaign, ())
            )
        forecast = latest.forecast
        return replace(
            published_campaign,
            ended_per_h=None if forecast.throughput is None else forecast.throughput * HOUR_S,
            p50_at=_time_after_seconds(latest.at, forecast.p50_s),
            p90_at=_time_after_seconds(latest.at, forecast.p90_s),
            at=self._campaign_progress_by_cluster(published_campaign, latest.services),
        )

    def _campaign_progress_by_cluster(
        self, published_campaign: PublishedCampaign, services: tuple[CampaignRunTimesAtCluster, ...]
    ) -> tuple[CampaignProgressAtCluster, ...]:
        if not (published_campaign.state.is_alive or published_campaign.number in self._there):
            return ()
        by_name = {service.cluster: service for service in services}
        return tuple(
            self._campaign_progress_at(published_campaign.number, name, by_name.get(name))
            for name in published_campaign.clusters
        )

    def published_forecast_accuracy(self) -> PublishedForecastErrors | None:
        return summarize_forecast_errors(self._kept.values())

    def _campaign_run_times_by_cluster(
        self, campaign: campaign_model.Campaign, elapsed: Elapsed, now: datetime
    ) -> tuple[CampaignRunTimesAtCluster, ...]:
        durations = self._campaigns.run_times_by_cluster(campaign.number)
        # CiGri uses the last hour, too
        ended = self._predictions.count_tasks_ended_since(campaign.number, now - timedelta(hours=1))
        counted = {name: ended.get(name, (0, now)) for name in campaign.jdl.clusters}
        return tuple(
            CampaignRunTimesAtCluster(
                cluster=name,
                durations_s=durations.get(name, ()),
                elapsed_s=elapsed.get((campaign.number, name), ()),
                ended=count,
                watched_s=max(0.0, (now - first).total_seconds()),
            )
            for name, (count, first) in counted.items()
        )

    def _store_halfway_forecast(self, campaign: campaign_model.Campaign, now: datetime) -> None:
        forecast = self._made[campaign.number].forecast
        p50_at, p90_at = _time_after_seconds(now, forecast.p50_s), _time_after_seconds(now, forecast.p90_s)
        is_halfway = 2 * campaign.ended >= campaign.tasks
        if campaign.number in self._kept or not (is_halfway and p50_at and p90_at):
            return
        stored = HalfwayForecast(campaign=campaign.number, made_at=now, p50_at=p50_at, p90_at=p90_at)
        self._predictions.store_forecast(stored)
        self._kept[campaign.number] = stored

    def _campaign_progress_at(
        self, number: int, cluster: str, service: CampaignRunTimesAtCluster | None
    ) -> CampaignProgressAtCluster:
        views = [view for view in self._there.get(number, ()) if view.cluster == cluster]
        waiting = sum(view.waiting for view in views)
        took = service.durations_s if service else ()
        rate = service.ended / service.watched_s if service and service.watched_s else 0.0
        return CampaignProgressAtCluster(
            cluster=cluster,
            waiting=waiting,
            running=sum(view.listed for view in views) - waiting,
            job_ratio=self._ratios.get((number, cluster)),
            ended_per_h=rate * HOUR_S or None,
            mean_s=sum(took) / len(took) if took else None,
        )


def _time_after_seconds(moment: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else moment + timedelta(seconds=seconds)
