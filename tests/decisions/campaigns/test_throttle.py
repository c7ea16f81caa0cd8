"""nikita deletes tasks that flood a cluster or wait or run too long, and no further tasks."""

from collections.abc import Mapping
from datetime import timedelta, timezone
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.nikita_deletion_planning import (
    REASON_WORDS,
    describe_nikita_deletions,
    plan_nikita_deletions,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    ArrayTaskDeletion,
    ArrayTasksWithSameStateAndAge,
    NikitaDeletionPlan,
    NikitaDeletionReason,
    NikitaSituation,
    NikitaTimeouts,
)
from tests.builders.campaigns import NOON

PATIENCE = NikitaTimeouts(grace_s=60, waiting_s=900, over_walltime_s=1800)


def part(age_s: float, places: range = range(1, 6), **other: Any) -> ArrayTasksWithSameStateAndAge:
    known: dict[str, Any] = {"campaign": 1, "array": 1, "cluster": "beta", "is_waiting": True}
    since = NOON - timedelta(seconds=age_s)
    return ArrayTasksWithSameStateAndAge(**known | {"places": (places,), "since": since, "walltime_s": 3600} | other)


def running(age_s: float, **other: Any) -> ArrayTasksWithSameStateAndAge:
    return part(age_s, is_waiting=False, **other)


def wiping(*parts: ArrayTasksWithSameStateAndAge, allowed: Mapping[str, int] | None = None) -> NikitaDeletionPlan:
    found = allowed or {"beta": 0}
    return plan_nikita_deletions(NikitaSituation(now=NOON, parts=parts, allowed=found, patience=PATIENCE))


def wipe(wiped_for: NikitaDeletionReason, *places: range, **other: Any) -> ArrayTaskDeletion:
    known: dict[str, Any] = {"campaign": 1, "array": 1, "cluster": "beta"}
    return ArrayTaskDeletion(**known | other, wiped_for=wiped_for, places=places)


LATE = (wipe(NikitaDeletionReason.WAITED, range(1, 6)),)


def test_tasks_waiting_above_the_flood_rate_are_deleted_newest_first() -> None:
    old, new = part(300, array=1), part(90, array=2)

    assert wiping(old, new, allowed={"beta": 7}).wipes == (wipe(NikitaDeletionReason.OVERFLOW, range(3, 6), array=2),)


def test_the_flood_rate_counts_tasks_of_all_campaigns_at_a_cluster() -> None:
    one, other = part(200, campaign=1), part(100, campaign=2)
    elsewhere = part(100, cluster="gamma")

    assert wiping(one, other, elsewhere, allowed={"beta": 5, "gamma": 5}).wipes == (
        wipe(NikitaDeletionReason.OVERFLOW, range(1, 6), campaign=2),
    )


def test_twenty_thousand_late_tasks_are_deleted_within_seconds() -> None:
    """OAR lists each task by itself; comparing each pair of tasks would take many minutes."""
    many = [part(1000, range(place, place + 1), array=place) for place in range(1, 20_001)]
    of_one_array = [part(1000, range(place, place + 1)) for place in range(1, 20_001)]

    began_s = process_time()
    found, together = wiping(*many), wiping(*of_one_array)

    assert len(found.wipes) == 20_000
    assert [one.task_count for one in together.wipes] == [20_000]
    assert process_time() - began_s < 6


@pytest.mark.parametrize(
    ("waiting", "allowed", "wipes"),
    [
        (part(60), 0, ()),
        (part(901), 9, LATE),
        (part(899), 9, ()),
        (part(9000, is_test=True), 0, ()),
        (part(1, may_start=False), 9, LATE),
        (part(0, since=(NOON - timedelta(seconds=901)).astimezone(timezone(timedelta(hours=-11)))), 5, LATE),
    ],
    ids=["grace period", "too long", "nearly too long", "test campaign", "nightly by day", "another time zone"],
)
def test_waiting_tasks_are_deleted_only_after_the_grace_period_or_the_waiting_limit(
    waiting: ArrayTasksWithSameStateAndAge, allowed: int, wipes: tuple[ArrayTaskDeletion, ...]
) -> None:
    assert wiping(waiting, allowed={"beta": allowed}).wipes == wipes


def test_tasks_that_run_long_after_their_walltime_are_deleted_even_after_a_day() -> None:
    in_time, late = running(5400), running(5401, array=2)
    after_a_day = running(86400 + 60, array=3)

    assert [one.array for one in wiping(in_time, late, after_a_day).wipes] == [2, 3]


WHOLE, BETA = range(1, 6), "5 tasks of campaign 1 at beta"
AGAIN, ALONE = "wiped again: {}", "left alone: {}, which run now"
ELSEWHERE = "moved: {}, which are to start at another cluster"
BY_OWNER = "wiped: {}, which their owner cancelled"
OVERFLOW, OVERRAN = NikitaDeletionReason.OVERFLOW, NikitaDeletionReason.OVERRAN
WAITED, MOVED = NikitaDeletionReason.WAITED, NikitaDeletionReason.MOVED
CANCELLED, UNWANTED = NikitaDeletionReason.CANCELLED, NikitaDeletionReason.UNWANTED
UNWANTED_TASKS = [running(10, marked=UNWANTED), running(10, array=2)]


@pytest.mark.parametrize(
    ("parts", "deletions", "text"),
    [
        pytest.param([part(10, marked=OVERFLOW)], {"repeated": [wipe(OVERFLOW, WHOLE)]}, AGAIN, id="waits"),
        pytest.param([part(901, marked=OVERFLOW)], {"repeated": [wipe(OVERFLOW, WHOLE)]}, AGAIN, id="late"),
        pytest.param([running(10, marked=OVERRAN)], {"repeated": [wipe(OVERRAN, WHOLE)]}, AGAIN, id="runs"),
        pytest.param([part(10, marked=MOVED)], {"moved": [wipe(MOVED, WHOLE)]}, ELSEWHERE, id="to move"),
        pytest.param([running(10, marked=MOVED)], {"spared": [wipe(MOVED, WHOLE)]}, ALONE, id="moves late"),
        pytest.param(UNWANTED_TASKS, {"cancelled": [wipe(UNWANTED, WHOLE)]}, BY_OWNER, id="cancelled task"),
        pytest.param(
            [part(1, is_cancelled=True), running(1, array=2, is_cancelled=True, marked=WAITED)],
            {"cancelled": [wipe(CANCELLED, WHOLE), wipe(CANCELLED, WHOLE, array=2)]},
            BY_OWNER,
            id="cancelled campaign",
        ),
    ],
)
def test_a_marked_or_cancelled_task_is_deleted_only_for_that_reason(
    parts: list[ArrayTasksWithSameStateAndAge], deletions: dict[str, list[ArrayTaskDeletion]], text: str
) -> None:
    """Nikita deletes marked tasks again, since nikita may have been killed before the first deletion."""
    found = wiping(*parts)

    assert found == NikitaDeletionPlan(**{key: tuple(wipes) for key, wipes in deletions.items()})
    assert describe_nikita_deletions(found)[0] == text.format(BETA)


def test_each_deletion_is_described_with_its_reason() -> None:
    assert describe_nikita_deletions(wiping(part(61), running(9000, array=2))) == [
        "wiped: 5 tasks of campaign 1 at beta, which run long after their walltime",
        "wiped: 5 tasks of campaign 1 at beta, which wait above the flood rate",
    ]


def test_each_deletion_reason_has_a_description() -> None:
    assert {*REASON_WORDS} == {*NikitaDeletionReason}


@given(
    ages=st.lists(st.integers(61, 800), max_size=6),
    sizes=st.lists(st.integers(1, 40), min_size=6, max_size=6),
    allowed=st.integers(0, 100),
)
def test_exactly_the_tasks_above_the_flood_rate_are_deleted(ages: list[int], sizes: list[int], allowed: int) -> None:
    parts = [
        part(age, range(1, 1 + size), array=number) for number, (age, size) in enumerate(zip(ages, sizes, strict=False))
    ]
    waiting = sum(len(each.places[0]) for each in parts)

    wiped = wiping(*parts, allowed={"beta": allowed}).wipes

    assert sum(one.task_count for one in wiped) == max(0, waiting - allowed)
