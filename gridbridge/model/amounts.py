"""Amounts as Grid Engine writes them (sge_types(1)): numbers, memory and times, and their units.

Hot programs load this module when a queue has a mapping: it imports nothing.
"""

from gridbridge.errors import ParseError

MULTIPLIERS = {  # sge_types(1), memory_specifier
    "k": 1000,
    "K": 1024,
    "m": 1000**2,
    "M": 1024**2,
    "g": 1000**3,
    "G": 1024**3,
    "t": 1000**4,
    "T": 1024**4,
}
SECONDS = {"s": 1, "min": 60, "h": 3600}
CLOCK = "h:m:s"
UNITS = (*MULTIPLIERS, *SECONDS, CLOCK)
NO_LIMIT = ("INFINITY", "NONE")  # sge_types(1); in any case of letters


def is_unlimited(text: str) -> bool:
    """Say whether an amount is no limit at all."""
    return text.upper() in NO_LIMIT


def read(text: str) -> float:
    """Return an amount as a number: of bytes, of seconds, or of what it counts.

    Raises ParseError for what Grid Engine would not take for a number either.
    """
    parts = text.split(":")
    try:
        if len(parts) > 1:
            return _seconds(parts)
        multiplier = MULTIPLIERS.get(text[-1:], 1)
        number = float(text[:-1] if multiplier > 1 else text)
    except ValueError as error:
        raise ParseError(f"{text[:40]!r} is no number, memory or time") from error
    if not 0 <= number < float("inf"):
        raise ParseError(f"{text[:40]!r} is no amount")
    return number * multiplier


def _seconds(parts: list[str]) -> float:
    if len(parts) > 3 or any(part and not part.isdecimal() for part in parts):
        raise ValueError
    total = 0
    for part in parts:
        total = total * 60 + int(part or 0)
    return float(total)


def write(number: float, unit: str) -> str:
    """Write a number in a unit, in whole ones, rounded up: who asks for some gets no less.

    The unit of memory stands behind the number, that of a time does not. Without a unit the
    number is written as it is.
    """
    if unit == CLOCK:
        whole = round_up(number)
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    if unit in SECONDS:
        return str(round_up(number / SECONDS[unit]))
    if unit:
        return f"{round_up(number / MULTIPLIERS[unit])}{unit}"
    return str(int(number)) if number == int(number) else repr(number)


def round_up(number: float) -> int:
    """Return the next whole number, but not for what floating arithmetic has added."""
    return -int(-(number - number * 1e-12) // 1)
