"""How many slots a job gets on how many nodes of OAR: all of them, whatever the rule."""

import pytest

from gridbridge.decisions.transfer.request_mapping import spread_slots_over_oar_nodes

SPREADS = ("", "pe_slots", "fill_up", "round_robin", "1", "3", "8", "1000")


@pytest.mark.parametrize(
    ("slots", "spread", "nodes", "expected"),
    [
        (8, "", 3, ()),
        (8, "pe_slots", 3, ()),
        (8, "fill_up", 3, ((0, 8),)),
        (8, "4", 3, ((2, 4),)),
        (8, "1", 3, ((8, 1),)),
        (9, "4", 3, ((2, 4), (1, 1))),
        (3, "4", 3, ((1, 3),)),
        (2, "round_robin", 3, ((2, 1),)),
        (3, "round_robin", 3, ((3, 1),)),
        (6, "round_robin", 3, ((3, 2),)),
        (8, "round_robin", 3, ((3, 2), (2, 1))),
        (8, "round_robin", 0, ((8, 1),)),
    ],
    ids=[
        *("one node", "one node, said", "wherever they are free", "four on each of two"),
        *("each on a node of its own", "a rest", "less than one node's", "fewer than nodes", "as many as nodes"),
        *("twice", "twice, and two once more", "nobody knows the nodes"),
    ],
)
def test_slots_are_placed_on_oar_nodes_as_the_allocation_rule_says(
    slots: int, spread: str, nodes: int, expected: tuple[tuple[int, int], ...]
) -> None:
    assert spread_slots_over_oar_nodes(slots, spread, nodes) == expected


@pytest.mark.parametrize("spread", SPREADS)
def test_every_allocation_rule_grants_exactly_the_requested_slots(spread: str) -> None:
    for slots in range(1, 50):
        for nodes in range(8):
            found = spread_slots_over_oar_nodes(slots, spread, nodes) or ((1, slots),)

            assert sum(max(1, count) * each for count, each in found) == slots
