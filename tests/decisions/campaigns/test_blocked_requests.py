"""Campaign tasks are preempted for the first local request that can start then."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gridbridge.decisions.campaigns.preemption_for_local_jobs import (
    MAX_REQUESTS,
    PREEMPTION_GRACE_S,
    describe_preemption,
    find_blocked_local_requests,
    plan_preemptions,
    preemption_deletions_by_array,
    recompute_preemption,
    requests_with_recent_preemption,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    CampaignArrayJob,
    CellRequestsAndResources,
    FreeQueueInstanceResources,
    NikitaDeletionReason,
    RunningJobWithResources,
    TasksPreemptedForRequest,
    WaitingLocalRequest,
)
from tests.builders.campaigns import NOON

OURS = {31: CampaignArrayJob(campaign=5, array=2)}
PLACE = FreeQueueInstanceResources(name="all.q@n1", slots=4, free={"mem": 0}, alone=frozenset({"alone"}))


def holder(task: int, **other: Any) -> RunningJobWithResources:
    known: dict[str, Any] = {"job": 31, "task": task, "host": "n1", "amounts": {"mem": 1}}
    return RunningJobWithResources(**known | {"since": NOON, "makes_way": True} | other)


def asked(job: int, mem: float = 1, **other: Any) -> WaitingLocalRequest:
    return WaitingLocalRequest(job=job, amounts={"mem": mem}, **other)


CELL = CellRequestsAndResources(asked=(asked(7), asked(8)), holders=(holder(1), holder(2), holder(3)), places=(PLACE,))


def way(cell: CellRequestsAndResources, **other: Any) -> TasksPreemptedForRequest | None:
    return next(iter(plan_preemptions(find_blocked_local_requests("beta", cell, OURS, **other))), None)


def ended(cell: CellRequestsAndResources, **other: Any) -> list[int]:
    found = way(cell, **other)
    return [one.place for one in found.tasks] if found else []


def test_tasks_are_preempted_for_the_first_request_that_can_start_then() -> None:
    found = way(replace(CELL, asked=(asked(6, 9), *CELL.asked)))

    assert (found.job, found.lacked) == (7, ("mem",))
    assert describe_preemption(found) == "ended for job 7, which lacked mem: 1 task of campaign 5 at beta"
    assert "for job 7.4, which" in describe_preemption(replace(found, task=4))
    (deletion,) = preemption_deletions_by_array(found)
    assert (deletion.campaign, deletion.array, deletion.places) == (5, 2, (range(3, 4),))
    assert deletion.wiped_for is NikitaDeletionReason.MADE_WAY


@pytest.mark.parametrize(
    "known",
    [
        {"asked": (asked(31),)},
        {"holders": (holder(1, job=32),)},
        {"holders": (holder(1, makes_way=False),)},
        {"holders": (holder(1, since=None),)},
    ],
    ids=["request of a campaign", "foreign job", "ordinary task", "not started"],
)
def test_only_running_best_effort_tasks_are_preempted_for_local_requests(known: dict[str, Any]) -> None:
    assert ended(replace(CELL, **known)) == []


@pytest.mark.parametrize(
    ("holders", "ours"),
    [
        ((holder(1), holder(2, is_deleting=True)), OURS),
        ((holder(1), holder(2)), {31: CampaignArrayJob(campaign=5, array=2, ending=frozenset({2}))}),
        ((holder(1), holder(2)), {31: CampaignArrayJob(campaign=5, array=2, is_ending=True)}),
    ],
    ids=["deleted", "marked", "cancelled"],
)
def test_no_task_is_preempted_if_ending_tasks_free_enough_resources(
    holders: tuple[RunningJobWithResources, ...], ours: dict[int, CampaignArrayJob]
) -> None:
    assert find_blocked_local_requests("beta", replace(CELL, holders=holders), ours) == ()


def test_no_task_is_preempted_on_a_host_that_a_foreign_job_uses_exclusively() -> None:
    theirs = holder(0, job=9, makes_way=False, alone=frozenset({"alone"}))
    alone = WaitingLocalRequest(job=7, alone=frozenset({"alone"}))

    assert ended(replace(CELL, holders=(*CELL.holders, theirs))) == []
    assert ended(replace(CELL, asked=(alone,))) == [3, 2, 1]
    other = replace(theirs, alone=frozenset())
    assert ended(replace(CELL, asked=(alone,), holders=(*CELL.holders, other))) == []


def test_preemption_considers_a_limited_number_of_requests_per_cluster() -> None:
    many = replace(CELL, asked=tuple(asked(job) for job in range(40, 60)))

    assert len(find_blocked_local_requests("beta", many, OURS)) == MAX_REQUESTS


def test_a_request_gets_no_second_preemption_within_its_pause() -> None:
    """Each preemption for the request doubles the pause."""
    first, second = ("beta", 7, 0), ("beta", 8, 0)
    after = NOON + timedelta(seconds=PREEMPTION_GRACE_S)
    tried = {first: (NOON,), second: (NOON - timedelta(days=1), NOON)}

    assert requests_with_recent_preemption(tried, after - timedelta(seconds=1)) == {first, second}
    assert requests_with_recent_preemption(tried, after) == {second}
    assert requests_with_recent_preemption(tried, after + timedelta(seconds=PREEMPTION_GRACE_S)) == frozenset()
    found = way(CELL, recent=frozenset({first}))
    assert found.job == 8


def test_a_preemption_is_dropped_if_newer_facts_no_longer_need_the_preemption() -> None:
    found = way(replace(CELL, asked=(asked(7, 2),)))

    left = replace(CELL, asked=(asked(7, 2),), holders=(holder(1), holder(2)))
    freed = replace(left, places=(replace(PLACE, free={"mem": 1}),))
    now = recompute_preemption(found, replace(freed, holders=(holder(1), holder(2), holder(3))), OURS)
    assert [one.place for one in now.tasks] == [3]
    assert recompute_preemption(found, freed, OURS) is not None
    assert recompute_preemption(found, left, OURS) is None
    assert recompute_preemption(found, replace(CELL, asked=(asked(8, 2),)), OURS) is None
    assert recompute_preemption(found, CellRequestsAndResources(), OURS) is None
