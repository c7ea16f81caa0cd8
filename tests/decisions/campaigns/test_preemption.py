"""Campaign tasks are preempted for local requests: for the first that can start then, as few as needed."""

from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.preemption_for_local_jobs import (
    MAX_REQUESTS,
    PREEMPTION_GRACE_S,
    choose_preemption_victims,
    describe_preemption,
    find_blocked_local_requests,
    list_lacking_resources,
    plan_preemptions,
    preemption_deletions_by_array,
    recompute_preemption,
    requests_with_recent_preemption,
)
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    CampaignArrayJob,
    CellRequestsAndResources,
    FreeQueueInstanceResources,
    LocalRequestBlockedByCampaigns,
    NikitaDeletionReason,
    PreemptibleTask,
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


def preempted_places(cell: CellRequestsAndResources, **other: Any) -> list[int]:
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
    assert preempted_places(replace(CELL, **known)) == []


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

    assert preempted_places(replace(CELL, holders=(*CELL.holders, theirs))) == []
    assert preempted_places(replace(CELL, asked=(alone,))) == [3, 2, 1]
    other = replace(theirs, alone=frozenset())
    assert preempted_places(replace(CELL, asked=(alone,), holders=(*CELL.holders, other))) == []


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


def task(place: int, host: str = "n1", **amounts: float) -> PreemptibleTask:
    return any_task(place, host=host, amounts=amounts)


def any_task(place: int, **values: Any) -> PreemptibleTask:
    usual = {"campaign": 1, "array": 1, "place": place, "host": "n1", "since": NOON + timedelta(seconds=place)}
    return PreemptibleTask(**usual | values)


def contest(*tasks: PreemptibleTask, **other: Any) -> LocalRequestBlockedByCampaigns:
    asked = WaitingLocalRequest(job=7, amounts={"mem": 3})
    usual: dict[str, Any] = {"cluster": "beta", "tasks": tasks, "asked": asked, "places": (place(mem=1),)}
    return LocalRequestBlockedByCampaigns(**usual | other)


def place(host: str = "n1", slots: int = 2, alone: tuple[str, ...] = (), **free: float) -> FreeQueueInstanceResources:
    return FreeQueueInstanceResources(name=f"all.q@{host}", slots=slots, free=free, alone=frozenset(alone))


def chosen_places(one: LocalRequestBlockedByCampaigns) -> list[int]:
    choice = choose_preemption_victims(one)
    return [each.place for each in choice[1]] if choice else []


MEM2 = [task(n, mem=1) for n in (1, 2, 3)]
ALONE = WaitingLocalRequest(job=7, alone=frozenset({"alone"}))


@pytest.mark.parametrize(
    ("one", "places"),
    [
        (contest(*MEM2), [3, 2]),
        (contest(*MEM2, places=(place(mem=1, slots=0),)), []),
        (contest(*MEM2, places=(place(),)), []),
        (contest(task(1, mem=2), task(2, mem=1)), [1]),
        (contest(*MEM2, task(4, "n2", mem=2), places=(place(mem=1), place("n2", mem=1))), [4]),
    ],
    ids=[
        "the newest first",
        "no slot is free",
        "the host lacks the resource",
        "one older task is enough",
        "host with the fewest preemptions",
    ],
)
def test_tasks_are_preempted_for_memory_of_a_host(one: LocalRequestBlockedByCampaigns, places: list[int]) -> None:
    assert chosen_places(one) == places


def test_a_licence_is_freed_by_a_task_on_any_host() -> None:
    tasks = (task(1, "n1", lic=1), task(2, "n2", lic=1), task(3, "n2"))
    asked = WaitingLocalRequest(job=7, amounts={"lic": 1})

    one = contest(*tasks, asked=asked, free={"lic": 0}, places=(place(),))

    assert chosen_places(one) == [2]
    assert list_lacking_resources(one, one.places[0]) == ("lic",)


def test_exclusive_use_of_a_host_preempts_all_its_tasks() -> None:
    tasks = (task(1), task(2), task(3, "n2"))
    here = (place(alone=("alone",)),)

    assert chosen_places(contest(*tasks, asked=ALONE, places=here)) == [2, 1]
    assert chosen_places(contest(*tasks, asked=ALONE, places=here, others=frozenset({"n1"}))) == []
    assert chosen_places(contest(*tasks, asked=ALONE, places=(place(),))) == []


def test_requested_slots_count_only_on_hosts_with_a_slots_resource() -> None:
    asked = WaitingLocalRequest(job=7, slots=2, defaults={"slots": 2})
    tasks = [task(n, slots=1) for n in (1, 2)]

    assert chosen_places(contest(*tasks, asked=asked, places=(place(slots=2),))) == []
    with_slots = FreeQueueInstanceResources(name="all.q@n1", slots=2, free={"slots": 0})
    assert chosen_places(contest(*tasks, asked=asked, places=(with_slots,))) == [2, 1]


AMOUNT = st.integers(0, 3).map(float)
AMOUNTS = st.fixed_dictionaries({"mem": AMOUNT, "lic": AMOUNT})
EXCLUSIVE = st.sampled_from([frozenset[str](), frozenset({"alone"})])
TASKS = st.lists(st.tuples(st.sampled_from(["n1", "n2"]), AMOUNTS, EXCLUSIVE, st.booleans()), max_size=6)
SECOND = timedelta(seconds=1)


@st.composite
def contests(draw: st.DrawFn) -> LocalRequestBlockedByCampaigns:
    tasks = tuple(
        replace(any_task(n, amounts=amounts, alone=alone, is_ending=ending), host=host, since=NOON + n // 2 * SECOND)
        for n, (host, amounts, alone, ending) in enumerate(draw(TASKS))
    )
    return contest(
        *tasks,
        asked=WaitingLocalRequest(job=7, amounts=draw(AMOUNTS), alone=draw(EXCLUSIVE)),
        places=tuple(place(host, alone=("alone",), mem=draw(AMOUNT)) for host in ("n1", "n2")),
        free={"lic": draw(AMOUNT)},
        others=frozenset(draw(st.sets(st.just("n2")))),
    )


def starts(one: LocalRequestBlockedByCampaigns, gone: set[int]) -> bool:
    """Return by trial of each host whether the request starts after the tasks in `gone` have chosen_places."""
    left = [each for each in one.tasks if each.place not in gone]
    lic = one.free["lic"] + sum(t.amounts["lic"] for t in one.tasks if t.place in gone)
    if lic < one.asked.amounts["lic"]:
        return False
    for where in one.places:
        here = [each for each in left if each.host == where.host_name]
        freed = [t for t in one.tasks if t.place in gone and t.host == where.host_name]
        mem = where.free["mem"] + sum(each.amounts["mem"] for each in freed)
        is_barred = any(each.alone for each in here)
        if one.asked.alone:
            is_barred = bool(here) or where.host_name in one.others
        if mem >= one.asked.amounts["mem"] and not is_barred:
            return True
    return False


@given(contests())
def test_tasks_are_preempted_exactly_if_the_request_starts_then_and_none_needlessly(
    one: LocalRequestBlockedByCampaigns,
) -> None:
    ending = {each.place for each in one.tasks if each.is_ending}
    may_end = {each.place for each in one.tasks} - ending
    helps = any(starts(one, ending | set(some)) for n in range(len(may_end) + 1) for some in combinations(may_end, n))

    found = set(chosen_places(one))

    assert found <= may_end
    assert bool(found) == (helps and not starts(one, ending))
    if found:
        assert starts(one, ending | found)
        assert not any(starts(one, ending | found - {each}) for each in found)
