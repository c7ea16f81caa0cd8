"""Update the completion forecasts of campaigns, and measure the errors of past forecasts.

To measure errors, the first forecast after half of a campaign's tasks is stored.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gridbridge.campaigns.store.campaign_rows import CampaignRows
from gridbridge.campaigns.store.campaign_statistics_rows import CampaignStatisticsRows
from gridbridge.decisions.campaigns.completion_forecast import (
    forecast_campaign_end,
    forecast_error_share,
    summarize_forecast_errors,
)
from gridbridge.model.campaigns.campaign import Campaign, CampaignState
from gridbridge.model.campaigns.cycle_plan import CampaignCyclePlan, CampaignCycleSituation, ListedCampaignTaskCounts
from gridbridge.model.campaigns.forecast import (
    CampaignForecast,
    CampaignProgressForForecast,
    CampaignRunTimesAtCluster,
    HalfwayForecast,
)
from gridbridge.model.campaigns.published_campaigns import ShownCampaign, ShownCampaignAtCluster, ShownForecastErrors
from gridbridge.model.grid_engine_amounts import HOUR_S
from gridbridge.shell.clock import Clock

WINDOW = timedelta(hours=1)  # window of the rate of ended tasks, as in CiGri
ANEW_S = 45.0  # maximum age of a forecast; each costs some milliseconds

Elapsed = Mapping[tuple[int, str], tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DatedForecast:
    """A campaign's latest forecast, with its time and inputs."""

    at: datetime
    forecast: CampaignForecast
    services: tuple[CampaignRunTimesAtCluster, ...]


class CampaignCompletionForecasts:
    """Holds the current completion forecasts of all running campaigns."""

    def __init__(
        self, campaigns: CampaignRows, predictions: CampaignStatisticsRows, clock: Clock, pause_s: float
    ) -> None:
        self._campaigns = campaigns
        self._predictions = predictions
        self._clock = clock
        self._pause_s = pause_s
        self._made: dict[int, _DatedForecast] = {}
        self._there: dict[int, list[ListedCampaignTaskCounts]] = {}
        self._ratios: dict[tuple[int, str], float] = {}
        self._kept = {forecast.campaign: forecast for forecast in predictions.forecasts()}

    def look(self, situation: CampaignCycleSituation, plan: CampaignCyclePlan, elapsed: Elapsed) -> None:
        """Recompute outdated forecasts, and store each campaign's halfway forecast."""
        self._there = {}
        for view in situation.there:
            self._there.setdefault(view.campaign, []).append(view)
        ratios = {(record.campaign, record.cluster): record.ratio for record in situation.ratios}
        self._ratios = ratios | {(record.campaign, record.cluster): record.ratio for record in plan.predicted}
        now = self._clock.now()
        for campaign in situation.campaigns:
            if campaign.state is CampaignState.IN_TREATMENT and self._is_old(campaign.number, now):
                self._made[campaign.number] = self._make(campaign, situation, elapsed, now)
                self._keep(campaign, now)
        for number in plan.finished:
            stored = self._kept.get(number)
            if stored and stored.ended_at is None:  # a retried campaign keeps its first end
                self._kept[number] = replace(stored, ended_at=now)

    def forget(self, campaigns: Iterable[int]) -> None:
        """Discard the forecasts of campaigns that got more tasks."""
        for number in campaigns:
            self._made.pop(number, None)
            self._kept.pop(number, None)

    def add_to(self, shown: ShownCampaign) -> ShownCampaign:
        """Return a published campaign with its counts by cluster and its forecast.

        Only running campaigns have a forecast.
        """
        latest = self._made.get(shown.number)
        stored = self._kept.get(shown.number)
        if shown.state is not CampaignState.IN_TREATMENT or latest is None:
            self._made.pop(shown.number, None)
            error = forecast_error_share(stored) if stored else None
            return replace(shown, forecast_error=error, at=self._at_each(shown, ()))
        forecast = latest.forecast
        return replace(
            shown,
            ended_per_h=None if forecast.throughput is None else forecast.throughput * HOUR_S,
            p50_at=_after(latest.at, forecast.p50_s),
            p90_at=_after(latest.at, forecast.p90_s),
            at=self._at_each(shown, latest.services),
        )

    def _at_each(
        self, shown: ShownCampaign, services: tuple[CampaignRunTimesAtCluster, ...]
    ) -> tuple[ShownCampaignAtCluster, ...]:
        """Return a campaign's counts at each cluster; empty for an ended campaign."""
        if not (shown.state.is_alive or shown.number in self._there):
            return ()
        by_name = {service.cluster: service for service in services}
        return tuple(self._at(shown.number, name, by_name.get(name)) for name in shown.clusters)

    def errors(self) -> ShownForecastErrors | None:
        """Return the forecast errors of all ended campaigns."""
        return summarize_forecast_errors(self._kept.values())

    def _is_old(self, number: int, now: datetime) -> bool:
        latest = self._made.get(number)
        if latest is None or latest.forecast.p50_s is None:
            return True
        return not timedelta() <= now - latest.at < timedelta(seconds=ANEW_S)

    def _make(
        self, campaign: Campaign, situation: CampaignCycleSituation, elapsed: Elapsed, now: datetime
    ) -> _DatedForecast:
        services = self._services(campaign, elapsed, now)
        views = self._there.get(campaign.number, ())
        tasks_left = situation.waiting.get(campaign.number, 0) + sum(view.waiting for view in views)
        progress = CampaignProgressForForecast(left=tasks_left, services=services, pause_s=self._pause_s)
        return _DatedForecast(at=now, forecast=forecast_campaign_end(progress), services=services)

    def _services(self, campaign: Campaign, elapsed: Elapsed, now: datetime) -> tuple[CampaignRunTimesAtCluster, ...]:
        durations = self._campaigns.durations(campaign.number)
        ended = self._predictions.ended_since(campaign.number, now - WINDOW)
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

    def _keep(self, campaign: Campaign, now: datetime) -> None:
        forecast = self._made[campaign.number].forecast
        p50_at, p90_at = _after(now, forecast.p50_s), _after(now, forecast.p90_s)
        is_halfway = 2 * campaign.ended >= campaign.tasks
        if campaign.number in self._kept or not (is_halfway and p50_at and p90_at):
            return
        stored = HalfwayForecast(campaign=campaign.number, made_at=now, p50_at=p50_at, p90_at=p90_at)
        self._predictions.keep_forecast(stored)
        self._kept[campaign.number] = stored

    def _at(self, number: int, cluster: str, service: CampaignRunTimesAtCluster | None) -> ShownCampaignAtCluster:
        views = [view for view in self._there.get(number, ()) if view.cluster == cluster]
        waiting = sum(view.waiting for view in views)
        took = service.durations_s if service else ()
        rate = service.ended / service.watched_s if service and service.watched_s else 0.0
        return ShownCampaignAtCluster(
            cluster=cluster,
            waiting=waiting,
            running=sum(view.listed for view in views) - waiting,
            job_ratio=self._ratios.get((number, cluster)),
            ended_per_h=rate * HOUR_S or None,
            mean_s=sum(took) / len(took) if took else None,
        )


def _after(moment: datetime, seconds: float | None) -> datetime | None:
    return None if seconds is None else moment + timedelta(seconds=seconds)
