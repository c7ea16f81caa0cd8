"""Long tasks under preemptions, with checkpoints at an interval that is learnt, fixed, or never.

Each task needs an hour of work on a slot that a local job takes after some time. An attempt goes on at the last
complete checkpoint of the attempt before. The learnt interval is the product's rule, which knows nothing at first.
"""

from collections.abc import Callable
from datetime import timedelta
from heapq import heappop, heappush
from math import exp
from random import Random

from bench.bag import NOON
from gridbridge.decisions.campaigns.checkpoint_intervals import (
    add_ended_attempts_to_rate,
    best_checkpoint_interval_s,
    choose_checkpoint_interval_s,
)
from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointTimes, TaskLossRate

WORK_S, SLOTS = 3600.0, 20
COST_S = 10.0  # of a checkpoint, during which the task does not go on
BETWEEN_S = 1200.0  # mean time between the preemptions of a slot
FIXED_S, NEVER_S = 900.0, 1e9
GAPS: dict[str, Callable[[Random], float]] = {
    "exponential": lambda random: random.expovariate(1 / BETWEEN_S),
    "each 20 minutes": lambda _: BETWEEN_S,
}


class Learning:
    """The product's interval, from what the ended attempts have shown."""

    def __init__(self) -> None:
        self._rate = TaskLossRate(uid=1, cluster="beta", is_besteffort=True, at=NOON)
        self._times = CheckpointTimes()

    def interval_s(self) -> float:
        return choose_checkpoint_interval_s(self._times, self._rate)

    def learn(self, now_s: float, ran_s: float, checkpoints: int, *, is_lost: bool) -> None:
        """Note an ended attempt; only of lost ones the checkpoints are read."""
        outcome = TaskAttemptOutcome.PREEMPTED if is_lost else TaskAttemptOutcome.SUCCESS
        ended = TaskAttempt(campaign=1, task=1, attempt=1, array=1, place=1, outcome=outcome, wallclock_s=round(ran_s))
        self._rate = add_ended_attempts_to_rate(self._rate, [ended], NOON + timedelta(seconds=now_s))
        if is_lost:
            self._times += CheckpointTimes(timed=checkpoints, total_s=checkpoints * COST_S)


def least_lost_s() -> float:
    """Return the expected time that a task loses at the interval of the formula, of known cost and gap."""
    interval_s = best_checkpoint_interval_s(COST_S, BETWEEN_S)
    return BETWEEN_S * (exp((interval_s + COST_S) / BETWEEN_S) - 1) * WORK_S / interval_s - WORK_S


def lost_s(gap: Callable[[Random], float], tasks: int, fixed_s: float = 0.0, seed: int = 1) -> float:
    """Return the mean time that a task loses; `fixed_s` is an interval that is not learnt."""
    random, learning = Random(seed), Learning()
    ends = [
        (0.0, number, 0.0, 0.0, 0) for number in range(min(SLOTS, tasks))
    ]  # when, slot, saved work, run, checkpoints
    begun, used_s = len(ends), 0.0
    while ends:
        now_s, slot, saved_s, ran_s, checkpoints = heappop(ends)
        if ran_s:
            learning.learn(now_s, ran_s, checkpoints, is_lost=saved_s < WORK_S)
        if saved_s == WORK_S:
            if begun == tasks:
                continue
            begun, saved_s = begun + 1, 0.0
        interval_s = fixed_s or learning.interval_s()
        left_s, until_s = WORK_S - saved_s, gap(random)
        needed_s = left_s + COST_S * int((left_s - 1e-6) / interval_s)
        ran_s = min(needed_s, until_s)
        checkpoints = int(ran_s / (interval_s + COST_S))
        used_s += ran_s
        saved_s = WORK_S if ran_s == needed_s else saved_s + checkpoints * interval_s
        heappush(ends, (now_s + ran_s, slot, saved_s, ran_s, checkpoints))
    return used_s / tasks - WORK_S
