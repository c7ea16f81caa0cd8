"""Steps of the system clock are detected; slewing is no step."""

import operator
from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.shell.clock import Clock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wall_s", "expected_s"),
    [(1010.0, 0.0), (1010.4, 0.0), (1009.6, 0.0), (4610.0, 3600.0), (-2590.0, -3600.0)],
    ids=["time passes", "slewed on", "slewed back", "set on", "set back"],
)
def test_a_clock_step_is_the_difference_to_steady_time(wall_s: float, expected_s: float) -> None:
    walls, steady = iter([1000.0, wall_s, wall_s + 5]), iter([0.0, 10.0, 15.0])
    clock = Clock(lambda: next(walls), lambda: next(steady))

    assert [clock.detect_clock_step(), clock.detect_clock_step()] == [timedelta(seconds=expected_s), timedelta()]


def test_a_step_moves_recorded_times_and_drops_unreferenced_records() -> None:
    walls = [0.0]
    clock = Clock(lambda: walls[0], lambda: 0.0)
    kept, lost = clock.make_clock_shifted_dictionary(operator.add), clock.make_clock_shifted_dictionary(operator.add)
    kept["begun"] = NOON
    del lost
    walls[0] = 60.0
    clock.detect_clock_step()

    assert kept == {"begun": NOON + timedelta(minutes=1)}
    assert len(clock._dated) == 2
    clock.make_clock_shifted_dictionary(operator.add)
    assert len(clock._dated) == 1 + 1


def test_the_age_of_a_moment_survives_a_clock_step() -> None:
    walls, steady = [1000.0], [5.0]
    clock = Clock(lambda: walls[0], lambda: steady[0])
    then_s = clock.steady_s()
    steady[0] += 10
    walls[0] += 10 - 3600

    assert clock.now() - clock.time_of_day_at(then_s) == timedelta(seconds=10)
