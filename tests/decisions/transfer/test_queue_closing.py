"""Load values and thresholds close a transfer queue."""

import pytest

from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh, load_value_closing_queue
from gridbridge.model.transfer.transfer_queue_load_values import CLOSED, PENDING, UP, load_value_complex_attribute

BIG = "big-one"


def values(up: str, pending: str) -> dict[str, str]:
    return {load_value_complex_attribute(BIG, UP): up, load_value_complex_attribute(BIG, PENDING): pending}


@pytest.mark.parametrize(
    ("reported", "limit", "closed_by"),
    [
        (values("1", "4"), 5, ""),
        (values("1", "5"), 5, PENDING),
        (values("1", "99"), 0, ""),
        (values("0", "0"), 5, UP),
        (values("1", CLOSED[PENDING]), 5, PENDING),
        ({load_value_complex_attribute(BIG, UP): "1"}, 5, PENDING),
        ({}, 0, UP),
    ],
    ids=["below", "at the limit", "no limit", "silent", "closed", "no value", "nothing"],
)
def test_a_load_value_at_its_threshold_closes_the_queue(reported: dict[str, str], limit: int, closed_by: str) -> None:
    assert load_value_closing_queue(reported, BIG, limit) == closed_by


@pytest.mark.parametrize(("age_s", "is_fresh"), [(-2, False), (-1, True), (0, True), (30, True), (31, False)])
def test_load_values_that_are_stale_or_from_the_future_are_not_fresh(age_s: float, is_fresh: bool) -> None:
    assert are_load_values_fresh(age_s, 30) is is_fresh
