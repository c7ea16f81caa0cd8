"""A campaign's forecast is published while the campaign runs, and its error after the campaign's end."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.campaigns.runner.campaign_completion_forecasts import CampaignCompletionForecasts
from gridbridge.campaigns.runner.cycle_result_recorders import CampaignStatisticsRecorder
from gridbridge.campaigns.store.campaign_and_attempt_tables import AddedTaskRows
from gridbridge.decisions.campaigns.campaign_progress_and_forecast import (
    relative_error_of_forecast,
    summarize_forecast_errors,
)
from gridbridge.model.campaigns import campaign_cycle_plan
from gridbridge.model.campaigns.campaign import AdditionalCampaignTasks, CampaignState, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_configuration_sections import JobRatioRule
from gridbridge.model.campaigns.campaign_end_forecast import HalfwayForecast
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign, PublishedForecastErrors
from gridbridge.shell.clock import Clock
from tests.builders.campaign_site import CampaignSite
from tests.builders.campaigns import NOON, made_campaign, made_situation, site_fixture
from tests.campaigns.cli.published_builder import make_shown_campaign

BETA = (1, "beta")
TERMS = campaign_cycle_plan.TasksPerFreeSlotInputs(
    old=1.0, slots=1.0, max_slots=9, free=4, submitted=0, running=0, waiting=0, allowed=0
)
RATIO = campaign_cycle_plan.TasksPerFreeSlotUpdate(
    campaign=1, cluster="beta", law=JobRatioRule.MEASURED, terms=TERMS, ratio=0.5, submitted=3
)


class ForecastSite(CampaignSite):
    """A site with a campaign of 100 tasks at beta, and a clock that tests set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, made_campaign(tasks=100))
        self.now = NOON
        self.forecasts = self.made()

    def made(self) -> CampaignCompletionForecasts:
        clock = Clock(lambda: self.now.timestamp())
        return CampaignCompletionForecasts(self.campaigns, self.statistics, clock, 15.0)

    def run(self, tasks: int, wallclock_s: int) -> None:
        array = self.send(tasks)
        ended = self.end(self.attempts(array), TaskAttemptOutcome.SUCCESS, wallclock_s=wallclock_s)
        self.campaigns.add_to_task_counts(1, tasks, 0)
        learnt = CampaignStatisticsRecorder(self.database)
        learnt.count_ended_tasks(campaign_cycle_plan.CampaignCyclePlan(ended=ended, arrays=(array,)), self.now)

    def look(self, elapsed_s: tuple[float, ...], *, is_over: bool = False) -> None:
        there = campaign_cycle_plan.CampaignTaskCountsAtCluster(
            campaign=1, cluster="beta", waiting=0, listed=len(elapsed_s)
        )
        seen = made_situation(
            campaigns=(self.campaign,),
            waiting=self.campaigns.count_unsent_tasks(),
            there=(there,),
            ratios=(campaign_cycle_plan.JobRatio(campaign=1, cluster="beta", ratio=0.5),),
        )
        plan = campaign_cycle_plan.CampaignCyclePlan(finished=(1,) if is_over else ())
        self.forecasts.update_forecasts(seen, plan, {BETA: elapsed_s})
        CampaignStatisticsRecorder(self.database).count_ended_tasks(plan, self.now)

    def shown(self, state: CampaignState = CampaignState.IN_TREATMENT) -> PublishedCampaign:
        return self.forecasts.add_forecast_to_campaign(make_shown_campaign(number=1, state=state, clusters=("beta",)))


_site = site_fixture(ForecastSite)


def test_a_forecast_is_unknown_without_ended_tasks(site: ForecastSite) -> None:
    site.look((5.0,) * 10)

    assert (site.shown().p50_at, site.shown().ended_per_h) == (None, None)


def test_a_campaign_is_published_with_forecast_and_cluster_progress(site: ForecastSite) -> None:
    site.run(10, 60)
    site.look((30.0,) * 10)

    shown = site.shown()

    assert shown.p50_at
    assert shown.p90_at
    assert NOON + timedelta(minutes=7) < shown.p50_at < shown.p90_at < NOON + timedelta(hours=1)
    assert shown.ended_per_h == pytest.approx(600, rel=0.2)
    (beta,) = shown.at
    assert (beta.running, beta.waiting, beta.job_ratio, beta.mean_s) == (10, 0, 0.5, 60)


def test_a_forecast_is_reused_for_45_s(site: ForecastSite) -> None:
    site.run(10, 60)
    site.look((30.0,) * 10)
    first = site.shown().p50_at

    site.now += timedelta(seconds=15)
    site.look((45.0,) * 10)

    assert site.shown().p50_at == first


def test_a_task_that_never_ran_has_no_run_time(site: ForecastSite) -> None:
    site.end(site.attempts(site.send()), TaskAttemptOutcome.WIPED)

    assert site.campaigns.run_times_by_cluster(1) == {}


def test_the_first_forecast_after_half_of_the_tasks_is_compared_with_the_end(site: ForecastSite) -> None:
    site.run(49, 60)
    site.look((30.0,) * 10)
    assert site.statistics.read_forecasts() == ()
    site.run(1, 60)
    site.now += timedelta(minutes=1)
    site.look((30.0,) * 10)
    (kept,) = site.statistics.read_forecasts()
    site.now += timedelta(minutes=9)
    site.look((), is_over=True)

    told = site.shown(CampaignState.TERMINATED)

    again = site.statistics.read_forecasts()
    assert again == (replace(kept, ended_at=site.now),)
    assert told.forecast_error == relative_error_of_forecast(again[0])
    assert told.p50_at is None
    assert site.forecasts.published_forecast_accuracy() is not None
    assert site.made().published_forecast_accuracy() == site.forecasts.published_forecast_accuracy()


def test_added_tasks_delete_the_stored_forecast(site: ForecastSite) -> None:
    site.run(50, 60)
    site.look((30.0,) * 10)
    assert site.statistics.read_forecasts()

    part = AdditionalCampaignTasks(campaign=1, number=1, tasks=100, digest="abc")
    AddedTaskRows(site.database, site.campaigns).insert_added_tasks(site.campaign, part, "token")
    site.forecasts.drop_forecasts([1])
    site.look((30.0,) * 10)

    assert site.statistics.read_forecasts() == ()
    assert site.shown().p50_at is not None


@pytest.mark.parametrize(("minutes", "error", "held"), [(10, 0.0, 1), (8, -0.25, 1), (20, 0.5, 1), (40, 0.75, 0)])
def test_a_forecast_error_is_a_share_of_the_predicted_time(minutes: int, error: float, held: int) -> None:
    kept = HalfwayForecast(
        campaign=1, made_at=NOON, p50_at=NOON + timedelta(minutes=10), p90_at=NOON + timedelta(minutes=30)
    )
    ended = replace(kept, ended_at=NOON + timedelta(minutes=minutes))

    assert relative_error_of_forecast(kept) is None
    assert relative_error_of_forecast(ended) == error
    assert summarize_forecast_errors([kept, ended]) == PublishedForecastErrors(
        forecasts=1, p90_held=held, median_error=abs(error)
    )
    assert summarize_forecast_errors([kept]) is None


def test_ended_tasks_are_counted_by_minute(site: ForecastSite) -> None:
    site.statistics.add_count_of_ended_tasks(1, "beta", 3, NOON + timedelta(seconds=5))
    site.statistics.add_count_of_ended_tasks(1, "beta", 4, NOON + timedelta(seconds=50))
    site.statistics.add_count_of_ended_tasks(1, "beta", 2, NOON + timedelta(seconds=70))

    since = NOON + timedelta(minutes=1)
    assert site.statistics.count_tasks_ended_since(1, NOON - timedelta(hours=1)) == {"beta": (2, since)}
    assert site.statistics.count_tasks_ended_since(1, NOON + timedelta(minutes=2)) == {}


def test_old_end_counts_are_deleted(site: ForecastSite) -> None:
    for minutes in (0, 1, 90):
        site.statistics.add_count_of_ended_tasks(1, "beta", 3, NOON + timedelta(minutes=minutes))
    site.statistics.add_count_of_ended_tasks(2, "gamma", 1, NOON)

    site.statistics.delete_old_end_counts(NOON + timedelta(hours=1))

    since = NOON - timedelta(hours=1)
    assert site.statistics.count_tasks_ended_since(1, since) == {"beta": (0, NOON + timedelta(minutes=91))}
    assert site.statistics.count_tasks_ended_since(2, since) == {}


def test_statistics_of_a_purged_campaign_are_deleted(site: ForecastSite) -> None:
    site.run(3, 60)
    site.statistics.store_job_ratios([RATIO])
    assert site.statistics.count_tasks_ended_since(1, NOON - timedelta(hours=1))

    site.tasks.delete_attempts(1)
    site.tasks.purge_campaign(1)

    assert site.statistics.count_tasks_ended_since(1, NOON - timedelta(hours=1)) == {}
    assert site.statistics.read_job_ratios([1]) == ()


def test_job_ratios_are_read_for_given_campaigns_only(site: ForecastSite) -> None:
    for campaign in (1, 2):
        site.statistics.store_job_ratios([replace(RATIO, campaign=campaign)])

    kept = campaign_cycle_plan.JobRatio(campaign=2, cluster="beta", ratio=0.5, free=4, submitted=3)
    assert site.statistics.read_job_ratios([2, 3]) == (kept,)
    assert site.statistics.read_job_ratios([]) == ()


def test_the_first_end_of_a_campaign_decides_its_forecast_error(site: ForecastSite) -> None:
    site.run(50, 60)
    site.look((30.0,) * 10)
    site.now += timedelta(minutes=10)
    site.look((), is_over=True)
    first = site.shown(CampaignState.TERMINATED).forecast_error
    kept = site.statistics.read_forecasts()

    site.now += timedelta(days=1)
    site.look((30.0,))
    site.look((), is_over=True)

    assert first is not None
    assert first == site.shown(CampaignState.TERMINATED).forecast_error
    assert kept == site.statistics.read_forecasts()
    assert site.made().published_forecast_accuracy() == site.forecasts.published_forecast_accuracy()
