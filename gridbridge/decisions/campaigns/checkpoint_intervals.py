"""Decide how often tasks save a checkpoint (J. T. Daly, doi:10.1016/j.future.2004.11.016, after Young).

If a checkpoint takes C seconds, and a task is lost every M seconds, tasks lose least work with an interval of about
sqrt(2 C M) between checkpoints.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from gridbridge.model.campaigns.campaign import Campaign, TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import CampaignCycleSituation
from gridbridge.model.campaigns.campaign_file_and_array_names import (
    LEAST_CHECKPOINT_S,
    MOST_CHECKPOINT_S,
    USUAL_CHECKPOINT_S,
)
from gridbridge.model.campaigns.checkpoint_statistics import CheckpointTimes, TaskLossRate
from gridbridge.model.campaigns.jdl import AUTOMATIC

USUAL_COST_S = 10.0  # assumed until a checkpoint of the campaign has been timed
USUAL_LOSS_S = 43_200.0  # assumed time between two losses, until a task of the owner has been lost at the cluster
FEWEST_LOSSES = 0.5  # a smaller decayed number of losses counts as 0
HALF_LIFE_S = 7 * 86_400.0
LOSSES = frozenset({TaskAttemptOutcome.PREEMPTED, TaskAttemptOutcome.SITE_FAULT})


def best_checkpoint_interval_s(cost_s: float, between_losses_s: float) -> float:
    """Return the seconds of work between checkpoints that lose the least work; the result is not bounded."""
    if cost_s >= 2 * between_losses_s:
        return between_losses_s
    root = math.sqrt(cost_s / (2 * between_losses_s))
    return math.sqrt(2 * cost_s * between_losses_s) * (1 + root / 3 + root**2 / 9) - cost_s


def seconds_between_losses(rate: TaskLossRate | None) -> float:
    if rate is None or rate.losses < FEWEST_LOSSES:
        return max(USUAL_LOSS_S, rate.run_s if rate else 0.0)
    return rate.run_s / rate.losses


def choose_checkpoint_interval_s(times: CheckpointTimes, rate: TaskLossRate | None) -> int:
    """Return the interval for a campaign at a cluster, within bounds; USUAL_CHECKPOINT_S without measurements."""
    cost_s = times.mean_s
    if cost_s is None and (rate is None or rate.losses < FEWEST_LOSSES):
        return USUAL_CHECKPOINT_S
    interval_s = best_checkpoint_interval_s(
        USUAL_COST_S if cost_s is None else cost_s, max(1.0, seconds_between_losses(rate))
    )
    return round(min(MOST_CHECKPOINT_S, max(LEAST_CHECKPOINT_S, interval_s)))


class CheckpointIntervals:
    """The intervals of campaigns at clusters in one cycle."""

    def __init__(self, situation: CampaignCycleSituation) -> None:
        self._rates = {(rate.uid, rate.cluster, rate.is_besteffort): rate for rate in situation.loss_rates}
        self._times = {row.campaign: row.times for row in situation.checkpoint_times}

    def checkpoint_interval_at_cluster(self, campaign: Campaign, cluster: str) -> int:
        """Return the seconds between checkpoints; 0 if the campaign has none, or its JDL gives the interval."""
        if not campaign.jdl.checkpoint_files or campaign.jdl.checkpoint_s != AUTOMATIC:
            return 0
        key = campaign.uid, cluster, campaign.jdl.clusters[cluster].is_besteffort
        times = self._times.get(campaign.number, CheckpointTimes())
        return choose_checkpoint_interval_s(times, self._rates.get(key))


def add_ended_attempts_to_rate(
    rate: TaskLossRate, ended_attempts: Iterable[TaskAttempt], now: datetime
) -> TaskLossRate:
    """Decay a loss rate until `now`, then add the run times and losses of ended attempts."""
    attempts = [*ended_attempts]
    share = math.pow(0.5, max(0.0, (now - rate.at).total_seconds()) / HALF_LIFE_S)
    return replace(
        rate,
        at=max(now, rate.at),
        run_s=rate.run_s * share + sum(attempt.wallclock_s or 0 for attempt in attempts),
        losses=rate.losses * share + sum(attempt.outcome in LOSSES for attempt in attempts),
    )
