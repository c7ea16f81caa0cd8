"""How many slots a job gets on how many nodes of OAR: all of them, whatever the rule."""

import pytest

from gridbridge.decisions.transfer.request_mapping import spread_slots_over_oar_nodes

SPREADS = ("", "pe_slots", "fill_up", "round_robin", "1", "3", "8", "1000")


@pytest.mark.parametrize(
    ("slots", "spread", "nodes", "expected"),
    [
        pytest.param(8, "", 3, (), id="one node"),
        pytest.param(8, "pe_slots", 3, (), id="one node, said"),
        pytest.param(8, "fill_up", 3, ((0, 8),), id="wherever they are free"),
        pytest.param(8, "4", 3, ((2, 4),), id="four on each of two"),
        pytest.param(8, "1", 3, ((8, 1),), id="each on a node of its own"),
        pytest.param(9, "4", 3, ((2, 4), (1, 1)), id="a rest"),
        pytest.param(3, "4", 3, ((1, 3),), id="less than one node's"),
        pytest.param(2, "round_robin", 3, ((2, 1),), id="fewer than nodes"),
        pytest.param(3, "round_robin", 3, ((3, 1),), id="as many as nodes"),
        pytest.param(6, "round_robin", 3, ((3, 2),), id="twice"),
        pytest.param(8, "round_robin", 3, ((3, 2), (2, 1)), id="twice, and two once more"),
        pytest.param(8, "round_robin", 0, ((8, 1),), id="nobody knows the nodes"),
    ],
)
def test_slots_lie_as_the_rule_says(slots: int, spread: str, nodes: int, expected: tuple[tuple[int, int], ...]) -> None:
    assert spread_slots_over_oar_nodes(slots, spread, nodes) == expected


@pytest.mark.parametrize("spread", SPREADS)
def test_a_job_gets_as_many_slots_as_it_asked_for(spread: str) -> None:
    for slots in range(1, 50):
        for nodes in range(8):
            found = spread_slots_over_oar_nodes(slots, spread, nodes) or ((1, slots),)

            assert sum(max(1, count) * each for count, each in found) == slots
