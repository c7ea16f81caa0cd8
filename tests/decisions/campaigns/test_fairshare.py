"""Free slots go to the owner with the least usage."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gridbridge.decisions.campaigns.campaign_order_and_fairshare import (
    COMMITTED_USE_S,
    FairShareRequest,
    add_ended_tasks_to_usage,
    decay_usage,
    fair_share_tasks_by_campaign,
)
from gridbridge.model.campaigns.campaign import TaskAttemptOutcome
from gridbridge.model.campaigns.campaign_cycle_plan import DecayedCampaignUsage
from tests.decisions.campaigns.campaign_builder import NOON, make_attempt


def wish(campaign: int, claimant: str, tasks: int, slots: int = 1, first: int = 0) -> FairShareRequest:
    return FairShareRequest(campaign=campaign, claimant=claimant, tasks=tasks, slots=slots, first=first)


@pytest.mark.parametrize(
    ("free", "tasks", "expected"),
    [
        (10, (2, 50, 100), [2, 4, 4]),  # the facts of CiGri's first scheduler: max-min
        (7, (5, 5, 5), [3, 2, 2]),
        (3, (5, 5), [2, 1]),
        (0, (5, 5), [0, 0]),
        (99, (5, 6), [5, 6]),
    ],
)
def test_small_requests_are_met_and_the_remaining_slots_are_shared_evenly(
    free: int, tasks: Sequence[int], expected: list[int]
) -> None:
    wishes = [wish(place, f"user{place}", count) for place, count in enumerate(tasks)]

    assert [*fair_share_tasks_by_campaign(free, wishes, {}).values()] == expected


def test_an_owner_with_more_usage_waits_until_the_usage_is_equal() -> None:
    wishes = [wish(1, "alice", 50), wish(2, "bob", 50)]

    assert fair_share_tasks_by_campaign(10, wishes, {"alice": 4 * COMMITTED_USE_S}) == {1: 3, 2: 7}


def test_campaigns_of_one_owner_share_one_share_in_order_of_submission() -> None:
    wishes = [wish(1, "alice", 3), wish(2, "alice", 50), wish(3, "bob", 50)]

    assert fair_share_tasks_by_campaign(12, wishes, {}) == {1: 3, 2: 3, 3: 6}


def test_first_tasks_are_sent_before_shares_by_usage() -> None:
    wishes = [wish(1, "alice", 50), wish(2, "bob", 50, first=2)]

    for ahead, tasks in (({"bob": 9}, {1: 2, 2: 2}), ({"bob": 1}, {1: 3, 2: 1}), ({}, {1: 4, 2: 0})):
        assert fair_share_tasks_by_campaign(4, wishes, {"bob": 99 * COMMITTED_USE_S}, ahead) == tasks


def test_first_tasks_of_the_owner_with_less_usage_go_first() -> None:
    wishes = [wish(1, "alice", 9, first=5), wish(2, "bob", 9, first=5)]

    assert fair_share_tasks_by_campaign(3, wishes, {"alice": 9e9}, {"alice": 5, "bob": 2}) == {1: 1, 2: 2}


def test_first_tasks_of_a_campaign_go_before_further_tasks_of_older_campaigns() -> None:
    wishes = [wish(1, "alice", 50), wish(2, "alice", 50, first=2), wish(3, "bob", 50)]

    assert fair_share_tasks_by_campaign(8, wishes, {}) == {1: 2, 2: 2, 3: 4}


@pytest.mark.parametrize(
    ("free", "used_s", "expected"),
    [(8, {}, {1: 1, 2: 4}), (3, {"bob": 1e9}, {1: 0, 2: 3})],
    ids=["a task counts with all slots", "too few slots go to other tasks"],
)
def test_a_multislot_task_needs_all_its_slots(free: int, used_s: dict[str, float], expected: dict[int, int]) -> None:
    wishes = [wish(1, "alice", 9, slots=4), wish(2, "bob", 9)]

    assert fair_share_tasks_by_campaign(free, wishes, used_s) == expected


@given(
    some.integers(-9, 60),
    some.lists(some.tuples(some.sampled_from("abc"), some.integers(0, 30), some.integers(1, 5), some.integers(0, 3))),
)
def test_fair_shares_give_no_slot_twice_and_leave_no_usable_slot(
    free: int, asked: list[tuple[str, int, int, int]]
) -> None:
    wishes = [wish(place, *one) for place, one in enumerate(asked)]
    found = fair_share_tasks_by_campaign(free, wishes, {"a": 100.0}, {"a": 2, "b": 5, "c": -1})
    left = max(0, free) - sum(found[one.campaign] * one.slots for one in wishes)

    assert left >= 0
    assert all(0 <= found[one.campaign] <= one.tasks for one in wishes)
    assert all(found[one.campaign] == one.tasks or one.slots > left for one in wishes)


@pytest.mark.parametrize(("age_s", "share"), [(0, 1), (10, 0.5), (30, 0.125), (-5, 1)])
def test_usage_counts_half_after_each_half_life(age_s: float, share: float) -> None:
    """A clock that is set back does not raise the usage."""
    before = DecayedCampaignUsage(campaign=1, cluster="beta", at=NOON, used_s=80, success_s=8, successes=4)
    after = NOON + timedelta(seconds=age_s)

    assert decay_usage(before, after, 10) == replace(
        before, at=after, used_s=80 * share, success_s=8 * share, successes=4 * share
    )


def test_failed_tasks_count_as_usage_but_not_in_the_mean_run_time() -> None:
    """A cluster where all tasks fail at once would seem the fastest cluster."""
    outcomes = (TaskAttemptOutcome.SUCCESS, TaskAttemptOutcome.PROGRAM_ERROR, TaskAttemptOutcome.SITE_FAULT)
    ended = [
        make_attempt(outcome=outcome, wallclock_s=seconds)
        for outcome, seconds in zip(outcomes, (60, 2, None), strict=True)
    ]
    unused = DecayedCampaignUsage(campaign=1, cluster="beta", at=NOON)

    assert add_ended_tasks_to_usage(unused, ended, 4) == replace(unused, used_s=248, success_s=60, successes=1)
