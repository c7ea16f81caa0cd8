"""Nights, in which tasks of type `nightly` run: weekly, as in gridbridge.toml, and as spans of UTC."""

import re
from dataclasses import dataclass
from datetime import datetime

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DAY_MIN = 24 * 60  # minutes in a day
_DAY = "|".join(DAYS)
_TIME = "([01]?[0-9]|2[0-3]):([0-5][0-9])|(24):(00)"
_WINDOW = re.compile(rf"(?:({_DAY})(?:-({_DAY}))? )?({_TIME})-({_TIME})")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyNight:
    """A span of local time that begins on some days of the week."""

    days: frozenset[int]  # 0: Monday
    begin_min: int  # minutes after midnight
    end_min: int  # minutes after the midnight before `begin_min`; above DAY_MIN: on the next day


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    begins_at: datetime
    ends_at: datetime


def parse_weekly_nights(text: str) -> tuple[WeeklyNight, ...]:
    """Parse nights such as `20:00-06:00, Sat-Sun 06:00-20:00`; raise ValueError for another form."""
    return tuple(map(_parse_weekly_night, text.split(", ")))


def are_weekly_nights(text: str) -> bool:
    try:
        return bool(parse_weekly_nights(text))
    except ValueError:
        return False


def _parse_weekly_night(text: str) -> WeeklyNight:
    if not (match := _WINDOW.fullmatch(text)):
        raise ValueError(f"{text!r} is no night")
    first, last, begin, end = match[1], match[2], _minutes_after_midnight(match[3]), _minutes_after_midnight(match[8])
    if begin in (DAY_MIN, end):
        raise ValueError(f"{text!r} has no length")
    number = DAYS.index(first) if first else 0
    days = (DAYS.index(last or first) - number) % len(DAYS) + 1 if first else len(DAYS)
    return WeeklyNight(
        days=frozenset((number + day) % len(DAYS) for day in range(days)),
        begin_min=begin,
        end_min=end if end > begin else end + DAY_MIN,
    )


def _minutes_after_midnight(text: str) -> int:
    hours, minutes = map(int, text.split(":"))
    return hours * 60 + minutes
