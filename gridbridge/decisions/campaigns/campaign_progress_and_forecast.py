"""Count the ended tasks of a campaign, and forecast its end with a probability of 50 % and 90 %."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import groupby
from math import exp, inf, log, log1p, sqrt
from statistics import median

from gridbridge.model.campaigns.campaign_end_forecast import (
    CampaignForecast,
    CampaignProgressForForecast,
    CampaignRunTimesAtCluster,
    HalfwayForecast,
)
from gridbridge.model.campaigns.published_campaigns_and_tasks import (
    CampaignProgressAtCluster,
    CampaignTaskEndCounts,
    PublishedCampaign,
    PublishedForecastErrors,
    sum_task_end_counts_by_cluster,
)

MOST_STEPS = 40
INSTANT_S = 1e-6
TAIL = (0.75, 0.5, 0.25, 0.05)  # after each step of the curve's tail, this part of the last share remains


@dataclass(frozen=True, slots=True)
class RunTimeSurvivalCurve:
    """A step function of run times: a share `shares[i]` of all tasks runs longer than `times[i]`."""

    times: tuple[float, ...]
    shares: tuple[float, ...]
    count: int

    @property
    def mean_run_time(self) -> float:
        """The mean run time in seconds."""
        return sum(share * length for share, length in self._shares_and_lengths_of_curve_steps())

    @property
    def run_time_variation(self) -> float:
        """The standard deviation of the run times divided by their mean; close to 1 if few tasks have ended."""
        return sqrt((self.squared_run_time_variation * self.count + 2) / (self.count + 2))

    @property
    def squared_run_time_variation(self) -> float:
        """The variance of run times, divided by the square of the mean."""
        square, reached = 0.0, 0.0
        for share, length in self._shares_and_lengths_of_curve_steps():
            square += share * ((reached + length) ** 2 - reached**2)
            reached += length
        mean = self.mean_run_time
        return max(0.0, square / mean**2 - 1) if mean > INSTANT_S else 0.0

    def mean_remaining_run_time(self, elapsed: float) -> float:
        still, mean, reached = self.share_running_longer(elapsed), 0.0, 0.0
        for share, length in self._shares_and_lengths_of_curve_steps():
            mean += share * max(0.0, reached + length - max(reached, elapsed))
            reached += length
        return mean / still if still else 0.0

    def _shares_and_lengths_of_curve_steps(self) -> Iterable[tuple[float, float]]:
        starts = (0.0, *self.times)
        lengths = (end - start for start, end in zip(starts, self.times, strict=False))
        return zip((1.0, *self.shares), lengths, strict=False)

    def share_running_longer(self, time: float) -> float:
        step = bisect_right(self.times, time)
        return self.shares[step - 1] if step else 1.0


def estimate_survival_curve(
    ended_run_times: Iterable[float], running: Iterable[float], caution: float = 0.0
) -> RunTimeSurvivalCurve:
    """Estimate the survival curve of run times from ended and running tasks.

    Running tasks count too, because ended tasks alone are mostly short. If many tasks run longer than all ended tasks,
    the curve gets a tail with a scale of at least `caution` times the longest time.
    """
    endings = sorted([(time, True) for time in ended_run_times] + [(time, False) for time in running])
    at_risk, share = len(endings), 1.0
    times, shares = [0.0], [1.0]
    for time, group in groupby(endings, key=lambda ending: ending[0]):
        kinds = [is_end for _, is_end in group]
        if ends := sum(kinds):
            share *= 1 - ends / at_risk
            times.append(time)
            shares.append(share)
        at_risk -= len(kinds)
    count = sum(is_end for _, is_end in endings)
    one_end_s = sum(time for time, _ in endings) / max(1, count)
    young_s = max(one_end_s, caution * endings[-1][0]) if endings else one_end_s
    return _extend_survival_curve(*_thin_out_survival_curve(times[1:], shares[1:]), count, young_s)


def _mix_survival_curves(curves: Iterable[tuple[RunTimeSurvivalCurve, float]]) -> RunTimeSurvivalCurve:
    parts = [(curve, part) for curve, part in curves if part > 0]
    whole = sum(part for _, part in parts)
    times = sorted({time for curve, _ in parts for time in curve.times})
    shares = [sum(curve.share_running_longer(time) * part for curve, part in parts) / whole for time in times]
    times, shares = _thin_out_survival_curve(times, shares)
    return RunTimeSurvivalCurve(tuple(times), tuple(shares), sum(curve.count for curve, _ in parts))


def _thin_out_survival_curve(times: list[float], shares: list[float]) -> tuple[list[float], list[float]]:
    step = -(-len(times) // MOST_STEPS) if times else 1
    first = (len(times) - 1) % step
    kept_times = [times[max(0, at - step // 2)] for at in range(first, len(times), step)]
    return [*kept_times[:-1], *times[-1:]], shares[first::step]


def _extend_survival_curve(times: list[float], shares: list[float], count: int, young_s: float) -> RunTimeSurvivalCurve:
    """Add a tail to a survival curve; after n ended tasks the tail has at least the share 2 / (n + 2)."""
    beyond = 2 / (count + 2)
    last, last_share = (times[-1], shares[-1]) if times else (0.0, 1.0)
    curve = RunTimeSurvivalCurve(tuple(times), tuple(shares), count)
    spread = max(
        INSTANT_S, young_s if last_share > beyond or count < 2 else curve.run_time_variation * curve.mean_run_time
    )
    last_share = max(last_share, beyond)
    return RunTimeSurvivalCurve(
        (*times, *(last - spread * log(part) for part in TAIL), last + 4 * spread),
        (*(max(share, beyond) for share in shares), *(last_share * part for part in TAIL), 0.0),
        count,
    )


FEWEST = 3  # a cluster gets its own survival curve after at least this many ended tasks
RATED = 20  # a rate of ended tasks is computed from at least this many ended tasks
WATCHED = 4  # a rate of ended tasks covers at least this many mean run times, because similar tasks end together
SAMPLE = 60  # a sample of a cluster's running tasks has at most this many tasks
NORMAL = (-1.62, -0.98, -0.55, -0.18, 0.18, 0.55, 0.98, 1.62)  # medians of the eighths of the normal distribution
HALVINGS = 24
CAUTION = 2.0  # P90 assumes that run times may exceed the longest known time by about this factor (simulations)
LONGEST_S = 10 * 365 * 86400.0  # a forecast end that is further away counts as unknown

Weighed = tuple[RunTimeSurvivalCurve, float, float]  # survival curve, elapsed time and number of tasks


def forecast_campaign_end(progress: CampaignProgressForForecast) -> CampaignForecast:
    """Forecast when a campaign's last task ends, and how many tasks end per second; None means unknown."""
    services = [throughput for throughput in progress.services if throughput.elapsed_s or throughput.durations_s]
    if not any(throughput.durations_s for throughput in services):
        return CampaignForecast()
    likely, late = (_campaign_end_probability(progress, services, caution) for caution in (0.0, CAUTION))
    if not (likely and late):
        return CampaignForecast()
    pause_s = progress.pause_s if progress.left else progress.pause_s / 2
    p50_s, p90_s = likely.seconds_until_probable_end(0.5) + pause_s, late.seconds_until_probable_end(0.9) + pause_s
    if p90_s > LONGEST_S:
        return CampaignForecast(throughput=likely.rate)
    return CampaignForecast(throughput=likely.rate, p50_s=p50_s, p90_s=max(p50_s, p90_s))


def _campaign_end_probability(
    progress: CampaignProgressForForecast, services: Sequence[CampaignRunTimesAtCluster], caution: float
) -> "_CampaignEndProbability | None":
    pooled = [time for throughput in services for time in throughput.durations_s]
    whole = estimate_survival_curve(pooled, [time for throughput in services for time in throughput.elapsed_s], caution)
    curves = [
        whole
        if len(throughput.durations_s) < FEWEST
        else estimate_survival_curve(throughput.durations_s, throughput.elapsed_s, caution)
        for throughput in services
    ]
    rates = list(map(_task_ends_per_second, services, curves))
    rate = sum(rates)
    if not rate or not any(throughput.elapsed_s for throughput in services):
        return None
    tasks = [task for pair in zip(services, curves, strict=True) for task in _sample_running_tasks(*pair)]
    return _CampaignEndProbability(tasks, _mix_survival_curves(zip(curves, rates, strict=True)), progress.left, rate)


def relative_error_of_forecast(stored: HalfwayForecast) -> float | None:
    """Return (end - forecast end) / (end - time of the forecast); None if the campaign has not ended."""
    if stored.ended_at is None:
        return None
    took_s = (stored.ended_at - stored.made_at).total_seconds()
    late_s = (stored.ended_at - stored.p50_at).total_seconds()
    return late_s / took_s if took_s > 0 else None


def summarize_forecast_errors(forecasts: Iterable[HalfwayForecast]) -> PublishedForecastErrors | None:
    with_errors = [(forecast, relative_error_of_forecast(forecast)) for forecast in forecasts]
    errors = [abs(error) for _, error in with_errors if error is not None]
    if not errors:
        return None
    held = (
        forecast.ended_at is not None and forecast.ended_at <= forecast.p90_at
        for forecast, error in with_errors
        if error is not None
    )
    return PublishedForecastErrors(forecasts=len(errors), p90_held=sum(held), median_error=median(errors))


class _CampaignEndProbability:
    def __init__(self, running: Sequence[Weighed], curve: RunTimeSurvivalCurve, waiting: int, rate: float) -> None:
        self.rate = rate  # number of tasks that end per second
        self._ahead_s = _end_delay_by_running_tasks_s(running, rate)
        self._running = [
            (curve_of_task, at, curve_of_task.share_running_longer(at), many) for curve_of_task, at, many in running
        ]
        self._curve = curve
        self._waiting = waiting
        spread = _log_deviation_of_last_task_start(curve, max(1, waiting), rate)
        self._rates = [rate * exp(deviation * spread) for deviation in NORMAL]

    def seconds_until_probable_end(self, chance: float) -> float:
        """Return after how many seconds all tasks have ended with probability `chance`."""
        ahead_s = max(0.0, self._ahead_s)
        low, high = 0.0, ahead_s + self._curve.times[-1] + self._waiting / self._rates[0]
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self._probability_that_all_tasks_ended(middle) >= chance else (middle, high)
        return high

    def _probability_that_all_tasks_ended(self, time: float) -> float:
        of_running = exp(sum(self._log_probability_of_running_task(*task, time) for task in self._running))
        if not self._waiting or not of_running:
            return of_running
        of_left = sum(exp(self._log_probability_of_unsent_tasks(rate, time - self._ahead_s)) for rate in self._rates)
        return of_running * of_left / len(self._rates)

    @staticmethod
    def _log_probability_of_running_task(
        curve: RunTimeSurvivalCurve, elapsed: float, before: float, task_count: float, time: float
    ) -> float:
        still = curve.share_running_longer(elapsed + time) / before if before else 0.0
        return task_count * log(1 - still) if still < 1 else -inf

    def _log_probability_of_unsent_tasks(self, rate: float, time: float) -> float:
        """Return the logarithm of the probability that all unsent tasks have ended after `time` seconds.

        The j-th unsent task is assumed to start after j / rate seconds.
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


def _log_deviation_of_last_task_start(curve: RunTimeSurvivalCurve, waiting: int, rate: float) -> float:
    """Return the standard deviation of the logarithm of the time at which the last unsent task starts."""
    by_chance = curve.run_time_variation**2 * (1 / waiting + 2 / max(1, curve.count))
    round_s = curve.mean_run_time * max(0.0, 1 - sqrt(curve.squared_run_time_variation))
    return sqrt(log1p(by_chance + (round_s * rate / waiting) ** 2 / 12))


def _end_delay_by_running_tasks_s(running: Iterable[Weighed], rate: float) -> float:
    """Return how much later, in seconds, running tasks end than tasks whose starts are evenly spread."""
    late = sum(
        many
        * (curve.mean_remaining_run_time(elapsed) / curve.mean_run_time - (1 + curve.squared_run_time_variation) / 2)
        for curve, elapsed, many in running
        if curve.mean_run_time
    )
    return late / rate


def _task_ends_per_second(throughput: CampaignRunTimesAtCluster, curve: RunTimeSurvivalCurve) -> float:
    if throughput.ended >= RATED and throughput.watched_s >= WATCHED * curve.mean_run_time:
        return throughput.ended / throughput.watched_s
    return len(throughput.elapsed_s) / curve.mean_run_time if curve.mean_run_time else 0.0


def _sample_running_tasks(throughput: CampaignRunTimesAtCluster, curve: RunTimeSurvivalCurve) -> Iterable[Weighed]:
    elapsed = sorted(throughput.elapsed_s, reverse=True)
    step = -(-len(elapsed) // SAMPLE) if elapsed else 1
    return [(curve, elapsed_s, float(step)) for elapsed_s in elapsed[::step]]


HOUR = timedelta(hours=1)


def add_ended_task_counts_to_campaign(
    campaign: PublishedCampaign, ends: Sequence[CampaignTaskEndCounts]
) -> PublishedCampaign:
    """Add the number of ended tasks and the mean run time at each cluster to a published campaign.

    `ends` are sorted by time. Cancelled tasks count as ended, but not as failed, and not in the rate.
    """
    if not ends:
        return campaign
    last = ends[-1].at
    life_h = max((last - campaign.submitted_at) / HOUR, 1 / 3600)
    sums = {end.cluster: end for end in sum_task_end_counts_by_cluster(ends, last)}
    rates = () if campaign.state.is_alive else sums.values()
    per_h = {end.cluster: (end.tasks - end.cancelled) / life_h for end in rates}
    total = sum_task_end_counts_by_cluster((replace(end, cluster="") for end in ends), last)
    return replace(
        campaign,
        at=tuple(_ended_task_counts_by_cluster(campaign, sums, per_h)),
        mean_s=total[0].mean_run_time_s if total else None,
        ended_per_h=campaign.ended_per_h if campaign.state.is_alive else sum(per_h.values()) or None,
    )


def _ended_task_counts_by_cluster(
    campaign: PublishedCampaign, sums: dict[str, CampaignTaskEndCounts], per_h: dict[str, float]
) -> Iterator[CampaignProgressAtCluster]:
    """Yield the counts of ended tasks at each cluster; cluster "" stands for tasks that were never sent."""
    by_cluster = {at.cluster: at for at in campaign.at}
    for cluster in dict.fromkeys((*campaign.clusters, *sums)):
        at = by_cluster.get(cluster, CampaignProgressAtCluster(cluster=cluster))
        end = sums.get(cluster) or CampaignTaskEndCounts(at=campaign.submitted_at, cluster=cluster, tasks=0, failed=0)
        yield replace(
            at,
            ended=end.tasks,
            failed=end.failed,
            ended_per_h=per_h.get(cluster, at.ended_per_h),
            mean_s=end.mean_run_time_s if cluster in sums else at.mean_s,
        )
