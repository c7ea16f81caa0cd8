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
    services = [one for one in progress.services if one.elapsed_s or one.durations_s]
    if not any(one.durations_s for one in services):
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
    pooled = [time for one in services for time in one.durations_s]
    whole = curve_of(pooled, [time for one in services for time in one.elapsed_s], caution)
    curves = [_curve(one, whole, caution) for one in services]
    rates = [_rate(one, curve) for one, curve in zip(services, curves, strict=True)]
    rate = sum(rates)
    if not rate or not any(one.elapsed_s for one in services):
        return None
    running = [_sampled(*each) for each in zip(services, curves, strict=True)]
    tasks = [each for some in running for each in some]
    next_ones = mixed(zip(curves, rates, strict=True))
    return _CompletionChance(tasks, next_ones, progress.left, rate, _ahead_s(tasks, rate))


def error_of(kept: StoredForecast) -> float | None:
    """Return by which share of the time that was left a campaign ended later than the P50.

    It is negative for one that ended sooner, and None for one that has not ended.
    """
    if kept.ended_at is None:
        return None
    took_s = (kept.ended_at - kept.made_at).total_seconds()
    late_s = (kept.ended_at - kept.p50_at).total_seconds()
    return late_s / took_s if took_s > 0 else None


def errors(every: Iterable[StoredForecast]) -> ShownErrors | None:
    """Tell how good the forecasts of ended campaigns were; None where there is none."""
    ended = [one for one in every if error_of(one) is not None]
    if not ended:
        return None
    return ShownErrors(
        forecasts=len(ended),
        p90_held=sum(one.ended_at is not None and one.ended_at <= one.p90_at for one in ended),
        median_error=median(abs(error_of(one) or 0.0) for one in ended),
    )


class _CompletionChance:
    """The chance that all tasks have ended, by time."""

    def __init__(
        self,
        running: Sequence[Weighed],
        curve: SurvivalCurve,
        left: int,
        rate: float,
        ahead_s: float,
    ) -> None:
        self.rate = rate  # tasks that end in a second
        self._ahead_s = ahead_s
        self._running = [(one, at, one.left_after(at), many) for one, at, many in running]
        self._curve = curve
        self._left = left
        spread = _spread(curve, max(1, left), rate)
        self._rates = [rate * exp(each * spread) for each in NORMAL]

    def by(self, chance: float) -> float:
        """Return the time by which they have ended with that chance."""
        ahead_s = max(0.0, self._ahead_s)
        low, high = 0.0, ahead_s + self._curve.times[-1] + self._left / self._rates[0]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._chance(middle) >= chance else (middle, high)
        return high

    def _chance(self, time: float) -> float:
        of_running = exp(sum(self._log_of_one(*one, time) for one in self._running))
        if not self._left or not of_running:
            return of_running
        ahead_s = self._ahead_s
        of_left = sum(exp(self._log_of_left(rate, time - ahead_s)) for rate in self._rates)
        return of_running * of_left / len(self._rates)

    @staticmethod
    def _log_of_one(
        curve: SurvivalCurve, elapsed: float, before: float, many: float, time: float
    ) -> float:
        still = curve.left_after(elapsed + time) / before if before else 0.0
        return many * log(1 - still) if still < 1 else -inf

    def _log_of_left(self, rate: float, time: float) -> float:
        """Return the logarithm of the chance of the tasks that are left.

        The j-th of them starts at j / rate, as far as the running ones end evenly. Those that
        start in one piece of the curve have the same chance.
        """
        newest, oldest = time - (self._left + 0.5) / rate, time - 0.5 / rate
        found, since = 0.0, -inf
        for until, share in zip(
            (*self._curve.times, inf), (1.0, *self._curve.shares), strict=False
        ):
            many = rate * (min(oldest, until) - max(newest, since))
            if many > 0 and share >= 1:
                found = -inf if many > 0.5 else found
            elif many > 0:
                found += many * log(1 - share)
            since = until
        return found


def _spread(curve: SurvivalCurve, left: int, rate: float) -> float:
    """Return how uncertain the time is at which the last task will start: of its logarithm.

    By chance, by what is known of the tasks, and, the more they are alike, by whether the last of
    them just catches a round or just misses it. Where few are left beside many that run, a round
    is many times as long as that time, so that it is no deviation of the logarithm by itself.
    """
    by_chance = curve.variation**2 * (1 / left + 2 / max(1, curve.count))
    round_s = curve.mean * max(0.0, 1 - sqrt(curve.own_variance))
    return sqrt(log1p(by_chance + (round_s * rate / left) ** 2 / 12))


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


def _curve(one: ClusterThroughput, whole: SurvivalCurve, caution: float) -> SurvivalCurve:
    if len(one.durations_s) < FEWEST:
        return whole
    return curve_of(one.durations_s, one.elapsed_s, caution)


def _rate(one: ClusterThroughput, curve: SurvivalCurve) -> float:
    """Return how many tasks end in a second: as was seen, else as many as run and their mean."""
    is_known = one.ended >= RATED and one.watched_s >= WATCHED * curve.mean
    if is_known:
        return one.ended / one.watched_s
    return len(one.elapsed_s) / curve.mean if curve.mean else 0.0


def _sampled(one: ClusterThroughput, curve: SurvivalCurve) -> Iterable[Weighed]:
    """Return the tasks that run, or some of very many, the longest among them."""
    elapsed = sorted(one.elapsed_s, reverse=True)
    every = -(-len(elapsed) // SAMPLE) if elapsed else 1
    return [(curve, each, float(every)) for each in elapsed[::every]]
