"""When a campaign will end: P50 and P90, from service rates, durations and what runs.

CiGri told a number without an error, and "now" where nothing ran or had ended. Here every task has
a chance to be over by a moment: one that runs by its elapsed time, one that is left by the moment
at which it will start, which follows from the rate at which tasks end. The rate is uncertain by
the number of tasks from which it is known. What can't be told is None.
"""

from collections.abc import Iterable, Sequence
from math import exp, inf, log, log1p, sqrt
from statistics import median

from gridbridge.decisions.campaigns.survival_curve import SurvivalCurve, curve_of, mixed
from gridbridge.model.campaigns.forecast import (
    CampaignForecast,
    CampaignProgress,
    ClusterThroughput,
    StoredForecast,
)
from gridbridge.model.campaigns.published_campaigns import ShownErrors

FEWEST = 3  # ended tasks of a cluster; with fewer it is taken to be like all of them
RATED = 20  # ended tasks from which a rate is known
WATCHED = 4  # of the means of their durations, at least: tasks that began together end together
SAMPLE = 60  # running tasks of a cluster that are looked at one by one
NORMAL = (-1.62, -0.98, -0.55, -0.18, 0.18, 0.55, 0.98, 1.62)  # medians of its eighths
HALVINGS = 24
CAUTION = 2.0  # times what the longest task has run, for the P90; from simulated campaigns
LONGEST_S = 10 * 365 * 86400.0  # what ends later is as good as unknown

Weighed = tuple[
    SurvivalCurve, float, float
]  # a curve, an elapsed time, and for how many tasks it stands


def forecast(progress: CampaignProgress) -> CampaignForecast:
    """Tell when the last task will have ended, and how many end in a second now."""
    services = [
        throughput
        for throughput in progress.services
        if throughput.elapsed_s or throughput.durations_s
    ]
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
    progress: CampaignProgress, services: Sequence[ClusterThroughput], caution: float
) -> "_CompletionChance | None":
    """Return when all will end, by durations so cautious; None where nothing runs."""
    pooled = [time for throughput in services for time in throughput.durations_s]
    whole = curve_of(
        pooled, [time for throughput in services for time in throughput.elapsed_s], caution
    )
    curves = [_curve(throughput, whole, caution) for throughput in services]
    rates = [_rate(throughput, curve) for throughput, curve in zip(services, curves, strict=True)]
    rate = sum(rates)
    if not rate or not any(throughput.elapsed_s for throughput in services):
        return None
    running = [_sampled(*pair) for pair in zip(services, curves, strict=True)]
    tasks = [task for of_cluster in running for task in of_cluster]
    next_ones = mixed(zip(curves, rates, strict=True))
    return _CompletionChance(tasks, next_ones, progress.left, rate, _ahead_s(tasks, rate))


def error_of(stored: StoredForecast) -> float | None:
    """Return by which share of the time that was left a campaign ended later than the P50.

    It is negative for one that ended sooner, and None for one that has not ended.
    """
    if stored.ended_at is None:
        return None
    took_s = (stored.ended_at - stored.made_at).total_seconds()
    late_s = (stored.ended_at - stored.p50_at).total_seconds()
    return late_s / took_s if took_s > 0 else None


def errors(forecasts: Iterable[StoredForecast]) -> ShownErrors | None:
    """Tell how good the forecasts of ended campaigns were; None where there is none."""
    ended = [forecast for forecast in forecasts if error_of(forecast) is not None]
    if not ended:
        return None
    return ShownErrors(
        forecasts=len(ended),
        p90_held=sum(
            forecast.ended_at is not None and forecast.ended_at <= forecast.p90_at
            for forecast in ended
        ),
        median_error=median(abs(error_of(forecast) or 0.0) for forecast in ended),
    )


class _CompletionChance:
    """The chance that all tasks have ended, by time."""

    def __init__(
        self,
        running: Sequence[Weighed],
        curve: SurvivalCurve,
        waiting: int,
        rate: float,
        ahead_s: float,
    ) -> None:
        self.rate = rate  # tasks that end in a second
        self._ahead_s = ahead_s
        self._running = [
            (curve_of_task, at, curve_of_task.left_after(at), many)
            for curve_of_task, at, many in running
        ]
        self._curve = curve
        self._waiting = waiting
        spread = _spread(curve, max(1, waiting), rate)
        self._rates = [rate * exp(deviation * spread) for deviation in NORMAL]

    def by(self, chance: float) -> float:
        """Return the time by which they have ended with that chance."""
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
    def _log_of_task(
        curve: SurvivalCurve, elapsed: float, before: float, many: float, time: float
    ) -> float:
        still = curve.left_after(elapsed + time) / before if before else 0.0
        return many * log(1 - still) if still < 1 else -inf

    def _log_of_waiting(self, rate: float, time: float) -> float:
        """Return the logarithm of the chance of the tasks that are left.

        The j-th of them starts at j / rate, as far as the running ones end evenly. Those that
        start in one piece of the curve have the same chance.
        """
        newest, oldest = time - (self._waiting + 0.5) / rate, time - 0.5 / rate
        logarithm, since = 0.0, -inf
        for until, share in zip(
            (*self._curve.times, inf), (1.0, *self._curve.shares), strict=False
        ):
            many = rate * (min(oldest, until) - max(newest, since))
            if many > 0 and share >= 1:
                logarithm = -inf if many > 0.5 else logarithm
            elif many > 0:
                logarithm += many * log(1 - share)
            since = until
        return logarithm


def _spread(curve: SurvivalCurve, waiting: int, rate: float) -> float:
    """Return how uncertain the time is at which the last task will start: of its logarithm.

    By chance, by what is known of the tasks, and, the more they are alike, by whether the last of
    them just catches a round or just misses it. Where few are left beside many that run, a round
    is many times as long as that time, so that it is no deviation of the logarithm by itself.
    """
    by_chance = curve.variation**2 * (1 / waiting + 2 / max(1, curve.count))
    round_s = curve.mean * max(0.0, 1 - sqrt(curve.own_variance))
    return sqrt(log1p(by_chance + (round_s * rate / waiting) ** 2 / 12))


def _ahead_s(running: Iterable[Weighed], rate: float) -> float:
    """Return by how much those that run will end later than evenly (renewal theory).

    Tasks of one length that all began a moment ago have their whole length before them, and not a
    half as those that began at any time.
    """
    late = sum(
        many * (curve.mean_left(elapsed) / curve.mean - (1 + curve.own_variance) / 2)
        for curve, elapsed, many in running
        if curve.mean
    )
    return late / rate


def _curve(throughput: ClusterThroughput, whole: SurvivalCurve, caution: float) -> SurvivalCurve:
    if len(throughput.durations_s) < FEWEST:
        return whole
    return curve_of(throughput.durations_s, throughput.elapsed_s, caution)


def _rate(throughput: ClusterThroughput, curve: SurvivalCurve) -> float:
    """Return how many tasks end in a second: as was seen, else as many as run and their mean."""
    is_known = throughput.ended >= RATED and throughput.watched_s >= WATCHED * curve.mean
    if is_known:
        return throughput.ended / throughput.watched_s
    return len(throughput.elapsed_s) / curve.mean if curve.mean else 0.0


def _sampled(throughput: ClusterThroughput, curve: SurvivalCurve) -> Iterable[Weighed]:
    """Return the tasks that run, or some of very many, the longest among them."""
    elapsed = sorted(throughput.elapsed_s, reverse=True)
    step = -(-len(elapsed) // SAMPLE) if elapsed else 1
    return [(curve, elapsed_s, float(step)) for elapsed_s in elapsed[::step]]
