"""How far the clock was set; slewing and the passing of time are no step."""

from datetime import timedelta

import pytest

from gridbridge.shell.clock import Clock


@pytest.mark.parametrize(
    ("wall_s", "expected_s"),
    [(1010.0, 0.0), (1010.4, 0.0), (1009.6, 0.0), (4610.0, 3600.0), (-2590.0, -3600.0)],
    ids=["time passes", "slewed on", "slewed back", "set on", "set back"],
)
def test_a_step_is_what_the_passing_of_time_does_not_explain(
    wall_s: float, expected_s: float
) -> None:
    walls, steady = iter([1000.0, wall_s, wall_s + 5]), iter([0.0, 10.0, 15.0])
    clock = Clock(lambda: next(walls), lambda: next(steady))

    assert [clock.step(), clock.step()] == [timedelta(seconds=expected_s), timedelta()]


def test_the_machines_own_clock_takes_no_step_by_itself() -> None:
    clock = Clock()

    assert clock.step() == timedelta()
