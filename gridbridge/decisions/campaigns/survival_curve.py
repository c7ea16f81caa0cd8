"""Survival curves of run times (Kaplan-Meier): the share of tasks still running by time.

Running tasks count with their elapsed times. Otherwise the run times of a young campaign, of which
only short tasks have ended, would be underestimated. With n ended tasks, a share of 2 / (n + 2) may
run longer than the longest known task.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import log, sqrt

MOST_STEPS = 40
INSTANT_S = 1e-6
TAIL = (0.75, 0.5, 0.25, 0.05)  # shares at the steps of the curve's tail


@dataclass(frozen=True, slots=True)
class RunTimeSurvivalCurve:
    """A step function: `shares[i]` of all tasks run longer than `times[i]`."""

    times: tuple[float, ...]
    shares: tuple[float, ...]
    count: int  # number of ended tasks

    @property
    def mean(self) -> float:
        """The mean run time."""
        return sum(share * length for share, length in self._pieces())

    @property
    def variation(self) -> float:
        """The standard deviation over the mean; with few tasks drawn towards 1."""
        return sqrt((self.own_variance * self.count + 2) / (self.count + 2))

    @property
    def own_variance(self) -> float:
        """The variance, divided by the square of the mean."""
        square, reached = 0.0, 0.0
        for share, length in self._pieces():
            square += share * ((reached + length) ** 2 - reached**2)
            reached += length
        mean = self.mean
        return max(0.0, square / mean**2 - 1) if mean > INSTANT_S else 0.0

    def mean_left(self, elapsed: float) -> float:
        """Return the mean remaining time of a task with this elapsed time."""
        still, mean, reached = self.left_after(elapsed), 0.0, 0.0
        for share, length in self._pieces():
            mean += share * max(0.0, reached + length - max(reached, elapsed))
            reached += length
        return mean / still if still else 0.0

    def _pieces(self) -> Iterable[tuple[float, float]]:
        """Return the share of running tasks in each step, with the step's length."""
        starts = (0.0, *self.times)
        lengths = (end - start for start, end in zip(starts, self.times, strict=False))
        return zip((1.0, *self.shares), lengths, strict=False)

    def left_after(self, time: float) -> float:
        """Return the share of tasks that run longer than this time."""
        low, high = 0, len(self.times)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.times[middle] <= time else (low, middle)
        return self.shares[low - 1] if low else 1.0


def estimate_survival_curve(
    ended: Iterable[float], running: Iterable[float], caution: float = 0.0
) -> RunTimeSurvivalCurve:
    """Estimate the curve from run times of ended and elapsed times of running tasks.

    If many tasks run longer than all ended tasks, their run times are unknown. They are assumed to
    last at least `caution` times the longest elapsed time.
    """
    endings = sorted([(time, True) for time in ended] + [(time, False) for time in running])
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
    return _with_tail(*_thinned(times[1:], shares[1:]), count, young_s)


def mix_survival_curves(curves: Iterable[tuple[RunTimeSurvivalCurve, float]]) -> RunTimeSurvivalCurve:
    """Return the weighted mean of curves."""
    parts = [(curve, part) for curve, part in curves if part > 0]
    whole = sum(part for _, part in parts)
    times = sorted({time for curve, _ in parts for time in curve.times})
    shares = [sum(curve.left_after(time) * part for curve, part in parts) / whole for time in times]
    thinned = _thinned(times, shares)
    return RunTimeSurvivalCurve(tuple(thinned[0]), tuple(thinned[1]), sum(curve.count for curve, _ in parts))


def _thinned(times: list[float], shares: list[float]) -> tuple[list[float], list[float]]:
    """Reduce the number of steps; a kept step stands in the middle of the replaced steps."""
    step = -(-len(times) // MOST_STEPS) if times else 1
    first = (len(times) - 1) % step
    kept_times = [times[max(0, at - step // 2)] for at in range(first, len(times), step)]
    return [*kept_times[:-1], *times[-1:]], shares[first::step]


def _with_tail(times: list[float], shares: list[float], count: int, young_s: float) -> RunTimeSurvivalCurve:
    """Extend a curve so that a share of 2 / (n + 2) runs for some deviations longer.

    If a larger share still runs, the tail has the length `young_s`.
    """
    beyond = 2 / (count + 2)
    last, last_share = (times[-1], shares[-1]) if times else (0.0, 1.0)
    curve = RunTimeSurvivalCurve(tuple(times), tuple(shares), count)
    spread = young_s if last_share > beyond or count < 2 else curve.variation * curve.mean
    spread = max(spread, INSTANT_S)
    last_share = max(last_share, beyond)
    return RunTimeSurvivalCurve(
        (*times, *(last - spread * log(part) for part in TAIL), last + 4 * spread),
        (*(max(share, beyond) for share in shares), *(last_share * part for part in TAIL), 0.0),
        count,
    )
