"""While others wait, one owner's datasets have not all turns."""

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
    """Return what is begun when so many may be on their way."""
    found = (turns.next() for _ in range(most))
    return [group[0].dataset for group in found if group]


def test_who_has_many_has_not_all_that_is_on_its_way_while_others_wait() -> None:
    turns = turns_of(of("al/1", "al/2", "al/3", "al/4", "zoe/1", "zoe/2"))

    assert begun(turns, 4) == ["al/1", "zoe/1", "al/2", "zoe/2"]


def test_what_ends_makes_place_for_the_owner_of_whom_least_is_on_its_way() -> None:
    turns = turns_of(of("al/1", "al/2", "zoe/1", "zoe/2"))
    found = []
    while group := turns.next():
        found.append(group)
        turns.end(group)

    assert [group[0].dataset for group in found] == ["al/1", "zoe/1", "al/2", "zoe/2"]


def test_one_alone_has_all_of_it() -> None:
    turns = turns_of(of("al/1", "al/2", "al/3"))

    assert begun(turns, 4) == ["al/1", "al/2", "al/3"]
    assert not turns


def test_who_had_a_turn_last_comes_last_in_the_next_round() -> None:
    """A round that begins nothing more after a while would have the first by name alone."""
    turns = turns_of(of("al/2", "zoe/1"), [ServiceReplicaAct(dataset="al/1", target="a", began_at=NOON)])

    assert begun(turns, 1) == ["zoe/1"]


def test_no_more_go_into_an_area_at_once_than_its_owners_process_takes() -> None:
    """What is refused there counts as a failure, after which that area gets none for a while."""
    there = of("al/1", "al/2", "al/3", "zoe/1")
    turns = turns_of([*there, *of("al/4", target="b")], into=1)
    first = begun(turns, 4)
    turns.end(there[0])

    assert first == ["al/1", "zoe/1", "al/4"]
    assert begun(turns, 4) == ["al/2"]


def test_what_goes_on_of_earlier_rounds_counts() -> None:
    turns = turns_of(of("al/5", "zoe/1", "zoe/2"), earlier=of("al/1", "al/2"))

    assert begun(turns, 4) == ["zoe/1", "zoe/2", "al/5"]


def test_whose_copies_are_all_that_may_go_on_begins_no_more() -> None:
    turns = turns_of(of("al/5", "zoe/1"), earlier=of("al/1", "al/2", "al/3", "al/4"))

    assert begun(turns, 4) == ["zoe/1"]
    assert turns.left() == of("al/5")
    assert not turns
