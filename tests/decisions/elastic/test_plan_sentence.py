"""Sentences about plans with one item or no item."""

from dataclasses import replace

import pytest

from gridbridge.decisions.elastic.balancer_round_reports import describe_balance_plan
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanFigures
from gridbridge.model.elastic.balance_plan import BalancePlanReason as Reason
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from tests.measured import FIGURES

ONE = replace(FIGURES, nodes=1, tasks=1, fit=1, free=1, coming=1, most=1, least=1, waited_s=60.0)
NONE = replace(ONE, tasks=0, fit=0, coming=0)
WAITS = "1 task waits 60 s, 1 fits in 1 free slot and 1 node on its way"


@pytest.mark.parametrize(
    ("verdict", "figures", "expected"),
    [
        (Reason.MORE_WANTED, ONE, f"{WAITS}, 1 of 1 node: nothing is done"),
        (Reason.MORE_WANTED, NONE, "no task waits, 1 free slot, 1 of 1 node: nothing is done"),
        (Reason.ABOVE_MAXIMUM, ONE, f"{WAITS}, 1 node, and at most 1 may exist: nothing is done"),
        (Reason.FULL, ONE, "1 of at most 1 node: nothing is done"),
        (Reason.BELOW_MINIMUM, ONE, "1 of at least 1 node: nothing is done"),
        (Reason.AT_MINIMUM, NONE, "no job waits, 1 of at least 1 node: nothing is done"),
        (Reason.NO_CAPACITY, ONE, f"{WAITS}, and pools had no capacity in the last 600 s: nothing is done"),
        (
            Reason.MONTH_SPENT,
            ONE,
            "1 task waits, and the rest of the month's budget does not pay for 1 node: nothing is done",
        ),
        (Reason.TOO_DEAR, ONE, "1 task waits, and 1 node costs more than the hourly budget: nothing is done"),
        (
            Reason.TOO_DEAR,
            replace(NONE, nodes=2),
            "no task waits, and 2 nodes cost more than the hourly budget: nothing is done",
        ),
    ],
)
def test_one_item_is_described_in_the_singular(verdict: Reason, figures: BalancePlanFigures, expected: str) -> None:
    assert describe_balance_plan(BalancePlan(verdict=verdict, figures=figures), BalanceSection()) == expected
