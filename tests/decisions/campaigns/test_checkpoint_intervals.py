"""Checkpoints are made at the interval that loses least work, from what the owner's tasks have shown."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.checkpoint_intervals import (
    HALF_LIFE_S,
    CheckpointIntervals,
    add_ended_attempts_to_rate,
    best_checkpoint_interval_s,
    choose_checkpoint_interval_s,
)
from gridbridge.model.campaigns.campaign import TaskAttempt, TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_file_and_array_names import (
    LEAST_CHECKPOINT_S,
    MOST_CHECKPOINT_S,
    USUAL_CHECKPOINT_S,
)
from gridbridge.model.campaigns.checkpoint_statistics import CampaignCheckpointTimes, CheckpointTimes, TaskLossRate
from tests.builders.campaigns import NOON, made_campaign, made_situation

RATE = TaskLossRate(uid=1000, cluster="beta", is_besteffort=True, at=NOON)
TWENTY_MINUTES = replace(RATE, run_s=12_000, losses=10)
TEN_SECONDS = CheckpointTimes(timed=4, total_s=40)
NO_TIMES = CheckpointTimes()


@pytest.mark.parametrize(
    ("cost_s", "between_s", "expected"),
    [(10, 1200, 148), (60, 1200, 341), (10, 86_400, 1308), (600, 1200, 833), (2400, 1200, 1200), (5000, 1200, 1200)],
)
def test_the_interval_follows_dalys_formula(cost_s: float, between_s: float, expected: int) -> None:
    """From a checkpoint of twice the time between losses on, the interval is that time."""
    assert expected == round(best_checkpoint_interval_s(cost_s, between_s))


@given(st.floats(0, 1e6), st.floats(1, 1e8), st.floats(1, 10))
def test_costly_checkpoints_and_rare_losses_make_the_interval_longer(cost: float, between: float, more: float) -> None:
    usual = choose_checkpoint_interval_s(CheckpointTimes(timed=1, total_s=cost), replace(RATE, run_s=between, losses=1))
    rarer = choose_checkpoint_interval_s(
        CheckpointTimes(timed=1, total_s=cost), replace(RATE, run_s=between * more, losses=1)
    )

    assert LEAST_CHECKPOINT_S <= usual <= rarer <= MOST_CHECKPOINT_S


@pytest.mark.parametrize(
    ("times", "rate", "expected"),
    [
        (TEN_SECONDS, TWENTY_MINUTES, 148),
        (NO_TIMES, TWENTY_MINUTES, 148),
        (NO_TIMES, None, USUAL_CHECKPOINT_S),
        (NO_TIMES, replace(RATE, run_s=1e9), USUAL_CHECKPOINT_S),
        (TEN_SECONDS, None, 923),
        (TEN_SECONDS, replace(RATE, run_s=1e9, losses=0.4), MOST_CHECKPOINT_S),
        (CheckpointTimes(timed=1), TWENTY_MINUTES, LEAST_CHECKPOINT_S),
        (TEN_SECONDS, replace(RATE, losses=3), LEAST_CHECKPOINT_S),
    ],
    ids=[
        "both measured",
        "no checkpoint timed",
        "nothing measured",
        "no checkpoint and no loss",
        "no task has run",
        "a loss long ago",
        "checkpoints in no time",
        "lost at once",
    ],
)
def test_what_is_not_measured_has_a_usual_value(
    times: CheckpointTimes, rate: TaskLossRate | None, expected: int
) -> None:
    assert expected == choose_checkpoint_interval_s(times, rate)


@pytest.mark.parametrize(
    ("rate", "interval_s", "files", "expected"),
    [
        (TWENTY_MINUTES, 0, ("state",), 148),
        (TWENTY_MINUTES, 60, ("state",), 0),
        (TWENTY_MINUTES, 0, (), 0),
        (replace(TWENTY_MINUTES, uid=1001), 0, ("state",), 923),
        (replace(TWENTY_MINUTES, cluster="gamma"), 0, ("state",), 923),
        (replace(TWENTY_MINUTES, is_besteffort=False), 0, ("state",), 923),
    ],
    ids=["measured", "the owner's interval", "no checkpoints", "another's tasks", "another cluster", "ordinary tasks"],
)
def test_only_the_owners_tasks_at_the_cluster_decide(
    rate: TaskLossRate, interval_s: int, files: tuple[str, ...], expected: int
) -> None:
    """Everybody can forge the ends of his own tasks."""
    campaign = made_campaign(number=1)
    campaign = replace(campaign, jdl=replace(campaign.jdl, checkpoint_files=files, checkpoint_s=interval_s))
    times = (CampaignCheckpointTimes(campaign=1, times=TEN_SECONDS),)
    situation = made_situation(loss_rates=(rate,), checkpoint_times=times)

    assert expected == CheckpointIntervals(situation).checkpoint_interval_at_cluster(campaign, "beta")


def test_ended_attempts_count_and_old_attempts_count_less() -> None:
    ended = [
        TaskAttempt(campaign=1, task=task, attempt=1, array=1, place=1, outcome=outcome, wallclock_s=wallclock_s)
        for task, (outcome, wallclock_s) in enumerate(
            [
                (TaskAttemptOutcome.SUCCESS, 100),
                (TaskAttemptOutcome.PREEMPTED, 50),
                (TaskAttemptOutcome.SITE_FAULT, None),
                (TaskAttemptOutcome.PROGRAM_ERROR, 7),
            ]
        )
    ]

    found = add_ended_attempts_to_rate(replace(RATE, run_s=10, losses=8), ended, NOON + timedelta(seconds=HALF_LIFE_S))

    assert replace(RATE, at=NOON + timedelta(seconds=HALF_LIFE_S), run_s=162.0, losses=6.0) == found
