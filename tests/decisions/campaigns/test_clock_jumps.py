"""A clock that was set forward makes no stored time older."""

from datetime import UTC, datetime, timedelta

import pytest

from gridbridge.model.host_clocks import (
    ClockJump,
    HostClockReadings,
    record_clock_jumps,
    shift_past_time_by_clock_jumps,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def at(wall: datetime, steady_s: float, *leaps: ClockJump, boot: str = "a") -> HostClockReadings:
    return HostClockReadings(boot=boot, wall=wall, steady_s=steady_s, leaps=leaps)


def leap(by_s: float, when: datetime = NOON) -> ClockJump:
    return ClockJump(at=when, by_s=by_s)


BEFORE = at(NOON, 1000.0)


@pytest.mark.parametrize(
    ("before", "now", "leaps"),
    [
        pytest.param(None, at(NOON, 5), (), id="no earlier reading"),
        pytest.param(BEFORE, at(NOON + HOUR, 4600), (), id="an hour passed"),
        pytest.param(BEFORE, at(NOON + HOUR, 4555), (), id="an hour passed, the clock was slewed"),
        pytest.param(BEFORE, at(NOON + HOUR, 1060), (leap(3540, NOON + HOUR),), id="a minute passed"),
        pytest.param(
            BEFORE, at(NOON + HOUR, 600, boot="b"), (leap(3000, NOON + HOUR),), id="switched on ten minutes ago"
        ),
        pytest.param(at(NOON, 1000, leap(7200)), at(NOON - HOUR, 1000), (leap(3600),), id="half set back"),
        pytest.param(at(NOON, 1000, leap(9), leap(3600)), at(NOON - HOUR, 1000), (leap(9),), id="set back"),
        pytest.param(at(NOON, 0, leap(90)), at(NOON - DAY, 0), (), id="set back by more"),
        pytest.param(at(NOON, 0, leap(90)), at(NOON + 31 * DAY, 31 * 86400), (), id="jump of a month ago"),
    ],
)
def test_a_clock_jump_is_wall_time_that_the_steady_clock_has_not_counted(
    before: HostClockReadings | None, now: HostClockReadings, leaps: tuple[ClockJump, ...]
) -> None:
    assert record_clock_jumps(before, now).leaps == leaps


def test_times_recorded_before_clock_jumps_are_shifted_by_the_jumps() -> None:
    leaps = (leap(60), leap(3600, NOON + HOUR))

    assert shift_past_time_by_clock_jumps(NOON - HOUR, leaps) == NOON + timedelta(seconds=60)
    assert shift_past_time_by_clock_jumps(NOON, leaps) == NOON + HOUR
    assert shift_past_time_by_clock_jumps(NOON + HOUR, leaps) == NOON + HOUR
