"""Just enough tasks, the newest first, are preempted for a request that can start then."""

from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.decisions.campaigns.preemption_for_local_jobs import choose_preemption_victims, list_lacking_resources
from gridbridge.model.campaigns.task_deletions_and_preemptions import (
    FreeQueueInstanceResources,
    LocalRequestBlockedByCampaigns,
    PreemptibleTask,
    WaitingLocalRequest,
)
from tests.builders.campaigns import NOON


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


def ended(one: LocalRequestBlockedByCampaigns) -> list[int]:
    choice = choose_preemption_victims(one)
    return [each.place for each in choice[1]] if choice else []


MEM2 = [task(n, mem=1) for n in (1, 2, 3)]
ALONE = WaitingLocalRequest(job=7, alone=frozenset({"alone"}))


@pytest.mark.parametrize(
    ("one", "places"),
    [
        (contest(*MEM2), [3, 2]),
        (contest(*MEM2, places=(place(mem=2),)), [3]),
        (contest(*MEM2, places=(place(mem=3),)), []),
        (contest(*MEM2[:1]), []),
        (contest(*MEM2, places=(place(mem=1, slots=0),)), []),
        (contest(*MEM2, places=(place(),)), []),
        (contest(task(1, mem=2), task(2, mem=1)), [1]),
        (contest(task(1, "n2", mem=9), task(2, "n2", mem=9)), []),
        (contest(*MEM2, places=(place(mem=1), place("n2", mem=3))), []),
        (contest(*MEM2, task(4, "n2", mem=2), places=(place(mem=1), place("n2", mem=1))), [4]),
    ],
    ids=[
        "the newest first",
        "just enough",
        "enough is free",
        "all tasks hold too little",
        "no slot is free",
        "the host lacks the resource",
        "one older task is enough",
        "tasks of other hosts",
        "another host is free",
        "host with the fewest preemptions",
    ],
)
def test_tasks_are_preempted_for_memory_of_a_host(one: LocalRequestBlockedByCampaigns, places: list[int]) -> None:
    assert ended(one) == places


def test_a_licence_is_freed_by_a_task_on_any_host() -> None:
    tasks = (task(1, "n1", lic=1), task(2, "n2", lic=1), task(3, "n2"))
    asked = WaitingLocalRequest(job=7, amounts={"lic": 1})

    one = contest(*tasks, asked=asked, free={"lic": 0}, places=(place(),))

    assert ended(one) == [2]
    assert list_lacking_resources(one, one.places[0]) == ("lic",)


def test_exclusive_use_of_a_host_preempts_all_its_tasks() -> None:
    tasks = (task(1), task(2), task(3, "n2"))
    here = (place(alone=("alone",)),)

    assert ended(contest(*tasks, asked=ALONE, places=here)) == [2, 1]
    assert ended(contest(*tasks, asked=ALONE, places=here, others=frozenset({"n1"}))) == []
    assert ended(contest(*tasks, asked=ALONE, places=(place(),))) == []


def test_a_task_with_exclusive_use_of_a_host_is_preempted_for_any_request() -> None:
    alone = any_task(1, alone=frozenset({"alone"}))

    assert ended(contest(alone, asked=WaitingLocalRequest(job=7), places=(place(),))) == [1]


def test_requested_slots_count_only_on_hosts_with_a_slots_resource() -> None:
    asked = WaitingLocalRequest(job=7, slots=2, defaults={"slots": 2})
    tasks = [task(n, slots=1) for n in (1, 2)]

    assert ended(contest(*tasks, asked=asked, places=(place(slots=2),))) == []
    with_slots = FreeQueueInstanceResources(name="all.q@n1", slots=2, free={"slots": 0})
    assert ended(contest(*tasks, asked=asked, places=(with_slots,))) == [2, 1]


def test_resources_of_ending_tasks_count_as_free() -> None:
    assert ended(contest(*MEM2, any_task(9, amounts={"mem": 2}, is_ending=True))) == []


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
    """Return by trial of each host whether the request starts after the tasks in `gone` have ended."""
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

    found = set(ended(one))

    assert found <= may_end
    assert bool(found) == (helps and not starts(one, ending))
    if found:
        assert starts(one, ending | found)
        assert not any(starts(one, ending | found - {each}) for each in found)
