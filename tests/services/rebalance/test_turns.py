"""While others wait, one owner's datasets have not all turns."""

from datetime import UTC, datetime

from gridbridge.model.rebalance.kept import Carried
from gridbridge.services.rebalance.turns import Turns

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def of(*names: str) -> list[list[Carried]]:
    return [[Carried(dataset=name, target="a", began_at=NOON)] for name in names]


def begun(turns: Turns, most: int) -> list[str]:
    """Return what is begun when so many may be on their way."""
    return [turns.next()[0].dataset for _ in range(most) if turns]


def test_who_has_many_has_not_all_that_is_on_its_way_while_others_wait() -> None:
    turns = Turns(of("al/1", "al/2", "al/3", "al/4", "zoe/1", "zoe/2"), ())

    assert begun(turns, 4) == ["al/1", "zoe/1", "al/2", "zoe/2"]


def test_what_ends_makes_place_for_the_owner_of_whom_least_is_on_its_way() -> None:
    """One copy at a time is each owner's in turn."""
    turns = Turns(of("al/1", "al/2", "zoe/1", "zoe/2"), ())
    found = []
    while turns:
        found.append(group := turns.next())
        turns.end(group)

    assert [group[0].dataset for group in found] == ["al/1", "zoe/1", "al/2", "zoe/2"]


def test_one_alone_has_all_of_it() -> None:
    turns = Turns(of("al/1", "al/2", "al/3"), ())

    assert begun(turns, 4) == ["al/1", "al/2", "al/3"]
    assert not turns


def test_who_had_a_turn_last_comes_last_in_the_next_round() -> None:
    """A round that begins nothing more after a while would have the first by name alone."""
    turns = Turns(of("al/2", "zoe/1"), [Carried(dataset="al/1", target="a", began_at=NOON)])

    assert begun(turns, 1) == ["zoe/1"]
