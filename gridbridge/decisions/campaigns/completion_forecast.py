"""Forecast the end of a campaign (P50, P90) from run times and rates of its tasks.

Each task has a probability to have ended by a time. For a running task the probability follows from
the elapsed time, for an unsent task from its expected start at the present rate of ended tasks. The
rate is more uncertain with fewer ended tasks. Unknown values are None. CiGri forecast a single
number without an error.
"""

from collections.abc import Iterable, Sequence
from math import exp, inf, log, log1p, sqrt
from statistics import median

from gridbridge.decisions.campaigns.survival_curve import (
    RunTimeSurvivalCurve,
    estimate_survival_curve,
    mix_survival_curves,
)
from gridbridge.model.campaigns.forecast import (
    CampaignForecast,
    CampaignProgressForForecast,
    CampaignRunTimesAtCluster,
    HalfwayForecast,
)
from gridbridge.model.campaigns.published_campaigns import ShownForecastErrors

FEWEST = 3  # fewest ended tasks for a survival curve of one cluster
RATED = 20  # fewest ended tasks for an observed rate of ends
WATCHED = 4  # least observation time in mean run times: tasks may end together in rounds
SAMPLE = 60  # most running tasks of a cluster that are sampled
NORMAL = (-1.62, -0.98, -0.55, -0.18, 0.18, 0.55, 0.98, 1.62)  # medians of the eighths of the normal distribution
HALVINGS = 24
CAUTION = 2.0  # `caution` of the survival curve for P90; from simulated campaigns
LONGEST_S = 10 * 365 * 86400.0  # forecasts later than this count as unknown

Weighed = tuple[
    RunTimeSurvivalCurve, float, float
]  # a survival curve, an elapsed time, and the number of tasks represented


def forecast_campaign_end(progress: CampaignProgressForForecast) -> CampaignForecast:
    """Forecast when the last task ends, and how many tasks end per second now."""
    services = [throughput for throughput in progress.services if throughput.elapsed_s or throughput.durations_s]
    if not any(throughput.durations_s for throughput in services):
        return CampaignForecast()
    likely, late = (_expected(progress, services, caution) for caution in (0.0, CAUTION))
    if not (likely and late):
        return CampaignForecast()
    pause_s = progress.pause_s if progress.left else progress.pause_s / 2
    p50_s, p90_s = likely.by(0.5) + pause_s, late.by(0.9) + pause_s
    if p90_s > LONGEST_S:
        return CampaignForecast(throughput=likely.rate)
    return CampaignForecast(throughput=likely.rate, p50_s=p50_s, p90_s=max(p50_s, p90_s))


def _expected(
    progress: CampaignProgressForForecast, services: Sequence[CampaignRunTimesAtCluster], caution: float
) -> "_CompletionChance | None":
    """Return the probability of the campaign's end over time; None if no task runs."""
    pooled = [time for throughput in services for time in throughput.durations_s]
    whole = estimate_survival_curve(pooled, [time for throughput in services for time in throughput.elapsed_s], caution)
    curves = [_curve(throughput, whole, caution) for throughput in services]
    rates = [_rate(throughput, curve) for throughput, curve in zip(services, curves, strict=True)]
    rate = sum(rates)
    if not rate or not any(throughput.elapsed_s for throughput in services):
        return None
    running = [_sampled(*pair) for pair in zip(services, curves, strict=True)]
    tasks = [task for of_cluster in running for task in of_cluster]
    next_ones = mix_survival_curves(zip(curves, rates, strict=True))
    return _CompletionChance(tasks, next_ones, progress.left, rate, _ahead_s(tasks, rate))


def forecast_error_share(stored: HalfwayForecast) -> float | None:
    """Return the error of a P50 forecast, as a share of the remaining time at that moment.

    Negative if the campaign ended earlier than forecast; None for an unfinished campaign.
    """
    if stored.ended_at is None:
        return None
    took_s = (stored.ended_at - stored.made_at).total_seconds()
    late_s = (stored.ended_at - stored.p50_at).total_seconds()
    return late_s / took_s if took_s > 0 else None


def summarize_forecast_errors(forecasts: Iterable[HalfwayForecast]) -> ShownForecastErrors | None:
    """Summarize the forecast errors of ended campaigns; None if no campaign has ended."""
    ended = [forecast for forecast in forecasts if forecast_error_share(forecast) is not None]
    if not ended:
        return None
    return ShownForecastErrors(
        forecasts=len(ended),
        p90_held=sum(forecast.ended_at is not None and forecast.ended_at <= forecast.p90_at for forecast in ended),
        median_error=median(abs(forecast_error_share(forecast) or 0.0) for forecast in ended),
    )


class _CompletionChance:
    """The probability that all tasks have ended, as a function of time."""

    def __init__(
        self, running: Sequence[Weighed], curve: RunTimeSurvivalCurve, waiting: int, rate: float, ahead_s: float
    ) -> None:
        self.rate = rate  # tasks that end per second
        self._ahead_s = ahead_s
        self._running = [(curve_of_task, at, curve_of_task.left_after(at), many) for curve_of_task, at, many in running]
        self._curve = curve
        self._waiting = waiting
        spread = _spread(curve, max(1, waiting), rate)
        self._rates = [rate * exp(deviation * spread) for deviation in NORMAL]

    def by(self, chance: float) -> float:
        """Return the time by which all tasks have ended with probability `chance`."""
        ahead_s = max(0.0, self._ahead_s)
        low, high = 0.0, ahead_s + self._curve.times[-1] + self._waiting / self._rates[0]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._chance(middle) >= chance else (middle, high)
        return high

    def _chance(self, time: float) -> float:
        of_running = exp(sum(self._log_of_task(*task, time) for task in self._running))
        if not self._waiting or not of_running:
            return of_running
        ahead_s = self._ahead_s
        of_left = sum(exp(self._log_of_waiting(rate, time - ahead_s)) for rate in self._rates)
        return of_running * of_left / len(self._rates)

    @staticmethod
    def _log_of_task(curve: RunTimeSurvivalCurve, elapsed: float, before: float, many: float, time: float) -> float:
        still = curve.left_after(elapsed + time) / before if before else 0.0
        return many * log(1 - still) if still < 1 else -inf

    def _log_of_waiting(self, rate: float, time: float) -> float:
        """Return the logarithm of the probability that all unsent tasks have ended.

        If running tasks end at even intervals, the j-th unsent task starts at j / rate. Tasks that
        start in the same step of the curve have the same probability.
        """
        newest, oldest = time - (self._waiting + 0.5) / rate, time - 0.5 / rate
        logarithm, since = 0.0, -inf
        for until, share in zip((*self._curve.times, inf), (1.0, *self._curve.shares), strict=False):
            many = rate * (min(oldest, until) - max(newest, since))
            if many > 0 and share >= 1:
                logarithm = -inf if many > 0.5 else logarithm
            elif many > 0:
                logarithm += many * log(1 - share)
            since = until
        return logarithm


def _spread(curve: RunTimeSurvivalCurve, waiting: int, rate: float) -> float:
    """Return the standard deviation of the logarithm of the last task's start time.

    Its sources are chance, the small number of known run times, and rounds of similar tasks that
    end together. With few unsent and many running tasks, a round is far longer than the start time.
    So a long round alone does not count as a deviation.
    """
    by_chance = curve.variation**2 * (1 / waiting + 2 / max(1, curve.count))
    round_s = curve.mean * max(0.0, 1 - sqrt(curve.own_variance))
    return sqrt(log1p(by_chance + (round_s * rate / waiting) ** 2 / 12))


def _ahead_s(running: Iterable[Weighed], rate: float) -> float:
    """Return the delay of running tasks against ends at even intervals (renewal theory).

    Equally long tasks that all started just now have their whole length left, not half of it.
    """
    late = sum(
        many * (curve.mean_left(elapsed) / curve.mean - (1 + curve.own_variance) / 2)
        for curve, elapsed, many in running
        if curve.mean
    )
    return late / rate


def _curve(throughput: CampaignRunTimesAtCluster, whole: RunTimeSurvivalCurve, caution: float) -> RunTimeSurvivalCurve:
    if len(throughput.durations_s) < FEWEST:
        return whole
    return estimate_survival_curve(throughput.durations_s, throughput.elapsed_s, caution)


def _rate(throughput: CampaignRunTimesAtCluster, curve: RunTimeSurvivalCurve) -> float:
    """Return the rate of ends per second, as observed or from the mean run time."""
    is_known = throughput.ended >= RATED and throughput.watched_s >= WATCHED * curve.mean
    if is_known:
        return throughput.ended / throughput.watched_s
    return len(throughput.elapsed_s) / curve.mean if curve.mean else 0.0


def _sampled(throughput: CampaignRunTimesAtCluster, curve: RunTimeSurvivalCurve) -> Iterable[Weighed]:
    """Return all running tasks, or a sample of many that has the longest-running task."""
    elapsed = sorted(throughput.elapsed_s, reverse=True)
    step = -(-len(elapsed) // SAMPLE) if elapsed else 1
    return [(curve, elapsed_s, float(step)) for elapsed_s in elapsed[::step]]
