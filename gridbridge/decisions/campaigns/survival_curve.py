"""How long tasks run, as a curve: which share of them is still there after a time.

The estimate of Kaplan and Meier: tasks that still run count for as long as they have run, so that
a young campaign, of which only the short tasks have ended, is not thought short. Beyond the longest
task that was seen there may be longer ones: of n tasks it is two in n + 2.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from math import log, sqrt

MOST_STEPS = 40
INSTANT_S = 1e-6
TAIL = (0.75, 0.5, 0.25, 0.05)  # what is left of it at its steps


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """A step function: from each of `times` on only that share is left; in the end none is."""

    times: tuple[float, ...]
    shares: tuple[float, ...]
    count: int  # of the tasks that ended

    @property
    def mean(self) -> float:
        """How long a task takes."""
        return sum(share * length for share, length in self._pieces())

    @property
    def variation(self) -> float:
        """The standard deviation, in means; of few tasks it is taken for nearer to 1."""
        return sqrt((self.own_variance * self.count + 2) / (self.count + 2))

    @property
    def own_variance(self) -> float:
        """The variance, in squares of the mean."""
        square, reached = 0.0, 0.0
        for share, length in self._pieces():
            square += share * ((reached + length) ** 2 - reached**2)
            reached += length
        mean = self.mean
        return max(0.0, square / mean**2 - 1) if mean > INSTANT_S else 0.0

    def mean_left(self, elapsed: float) -> float:
        """How long a task still takes that has run for so long."""
        still, mean, reached = self.left_after(elapsed), 0.0, 0.0
        for share, length in self._pieces():
            mean += share * max(0.0, reached + length - max(reached, elapsed))
            reached += length
        return mean / still if still else 0.0

    def _pieces(self) -> Iterable[tuple[float, float]]:
        """Return the share that is left in each piece, and the piece's length."""
        starts = (0.0, *self.times)
        lengths = (end - start for start, end in zip(starts, self.times, strict=False))
        return zip((1.0, *self.shares), lengths, strict=False)

    def left_after(self, time: float) -> float:
        """Return the share of tasks that run longer."""
        low, high = 0, len(self.times)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.times[middle] <= time else (low, middle)
        return self.shares[low - 1] if low else 1.0


def curve_of(
    ended: Iterable[float], running: Iterable[float], caution: float = 0.0
) -> SurvivalCurve:
    """Return the curve of tasks that ended after these times, while those run for so long.

    Where many have outlived all that ended, they go on for at least `caution` times as long as the
    longest of them has run: nothing is known of tasks of their kind.
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


def mixed(curves: Iterable[tuple[SurvivalCurve, float]]) -> SurvivalCurve:
    """Return the curve of tasks of which so large a part is like each."""
    parts = [(curve, part) for curve, part in curves if part > 0]
    whole = sum(part for _, part in parts)
    times = sorted({time for curve, _ in parts for time in curve.times})
    shares = [sum(curve.left_after(time) * part for curve, part in parts) / whole for time in times]
    thinned = _thinned(times, shares)
    return SurvivalCurve(
        tuple(thinned[0]), tuple(thinned[1]), sum(curve.count for curve, _ in parts)
    )


def _thinned(times: list[float], shares: list[float]) -> tuple[list[float], list[float]]:
    """Return some of many steps, each in the middle of those that it stands for."""
    step = -(-len(times) // MOST_STEPS) if times else 1
    first = (len(times) - 1) % step
    kept_times = [times[max(0, at - step // 2)] for at in range(first, len(times), step)]
    return [*kept_times[:-1], *times[-1:]], shares[first::step]


def _with_tail(
    times: list[float], shares: list[float], count: int, young_s: float
) -> SurvivalCurve:
    """Let the share of two tasks in n + 2, at least, go on for some deviations.

    Where more than that still run, it goes on for `young_s`: as long as there was of running to one
    end, or longer.
    """
    beyond = 2 / (count + 2)
    last, last_share = (times[-1], shares[-1]) if times else (0.0, 1.0)
    curve = SurvivalCurve(tuple(times), tuple(shares), count)
    spread = young_s if last_share > beyond or count < 2 else curve.variation * curve.mean
    spread = max(spread, INSTANT_S)
    last_share = max(last_share, beyond)
    return SurvivalCurve(
        (*times, *(last - spread * log(part) for part in TAIL), last + 4 * spread),
        (*(max(share, beyond) for share in shares), *(last_share * part for part in TAIL), 0.0),
        count,
    )
