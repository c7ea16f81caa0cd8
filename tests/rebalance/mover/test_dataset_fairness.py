"""Owners of datasets take turns: an owner with many datasets does not delay other owners."""

from collections.abc import Iterable
from datetime import UTC, datetime

from gridbridge.model.rebalance.datasets import ServiceReplicaAct
from gridbridge.rebalance.replicas.owner_fair_replica_queue import OwnerFairReplicaActQueue

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def of(*names: str, target: str = "a") -> list[list[ServiceReplicaAct]]:
    return [[ServiceReplicaAct(dataset=name, target=target, began_at=NOON)] for name in names]


def turns_of(
    groups: list[list[ServiceReplicaAct]],
    before: Iterable[ServiceReplicaAct] = (),
    *,
    earlier: Iterable[list[ServiceReplicaAct]] = (),
    into: int = 9,
) -> OwnerFairReplicaActQueue:
    return OwnerFairReplicaActQueue(groups, before, earlier=earlier, most=4, into={"a": into})


def begun(turns: OwnerFairReplicaActQueue, most: int) -> list[str]:
    found = (turns.start_next_act_group() for _ in range(most))
    return [group[0].dataset for group in found if group]


def test_the_running_actions_are_shared_equally_between_the_owners() -> None:
    turns = turns_of(of("al/1", "al/2", "al/3", "al/4", "zoe/1", "zoe/2"))

    assert begun(turns, 4) == ["al/1", "zoe/1", "al/2", "zoe/2"]


def test_after_an_ended_action_the_owner_with_the_fewest_actions_is_next() -> None:
    turns = turns_of(of("al/1", "al/2", "zoe/1", "zoe/2"))
    found = []
    while group := turns.start_next_act_group():
        found.append(group)
        turns.end_act_group(group)

    assert [group[0].dataset for group in found] == ["al/1", "zoe/1", "al/2", "zoe/2"]


def test_a_single_owner_may_use_all_running_actions() -> None:
    turns = turns_of(of("al/1", "al/2", "al/3"))

    assert begun(turns, 4) == ["al/1", "al/2", "al/3"]
    assert not turns


def test_the_owner_of_the_most_recent_action_is_last_in_the_next_round() -> None:
    """Otherwise rounds that end early would serve only the owner with the first name."""
    turns = turns_of(of("al/2", "zoe/1"), [ServiceReplicaAct(dataset="al/1", target="a", began_at=NOON)])

    assert begun(turns, 1) == ["zoe/1"]


def test_an_owners_copies_into_an_area_stay_within_the_areas_limit() -> None:
    """The owner's process would refuse further copies, and a refused copy counts as a failure."""
    there = of("al/1", "al/2", "al/3", "zoe/1")
    turns = turns_of([*there, *of("al/4", target="b")], into=1)
    first = begun(turns, 4)
    turns.end_act_group(there[0])

    assert first == ["al/1", "zoe/1", "al/4"]
    assert begun(turns, 4) == ["al/2"]


def test_running_actions_of_earlier_rounds_count_for_their_owner() -> None:
    turns = turns_of(of("al/5", "zoe/1", "zoe/2"), earlier=of("al/1", "al/2"))

    assert begun(turns, 4) == ["zoe/1", "zoe/2", "al/5"]


def test_an_owner_with_the_highest_number_of_running_copies_begins_no_more() -> None:
    turns = turns_of(of("al/5", "zoe/1"), earlier=of("al/1", "al/2", "al/3", "al/4"))

    assert begun(turns, 4) == ["zoe/1"]
    assert turns.take_waiting_act_groups() == of("al/5")
    assert not turns
