"""Amounts as Grid Engine writes them (sge_types(5)): numbers, memory and times, and their units.

Hot programs load this module when a queue has a mapping: it imports nothing but the errors.
"""

from gridbridge.errors import ParseError

MULTIPLIERS = {  # sge_types(5), memory_specifier
    "k": 1000,
    "K": 1024,
    "m": 1000**2,
    "M": 1024**2,
    "g": 1000**3,
    "G": 1024**3,
    "t": 1000**4,
    "T": 1024**4,
}
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
SECONDS = {"s": 1, "min": MINUTE_S, "h": HOUR_S}
CLOCK = "h:m:s"
UNITS = (*MULTIPLIERS, *SECONDS, CLOCK)
NO_LIMIT = ("INFINITY", "NONE")  # queue_conf(5), in any case of letters
MOST = 1e18  # of anything: an exabyte
HEXADECIMAL = ("0x", "0X")
DIGITS = frozenset("0123456789.eE+-")
NOISE = 1e-15  # how large a rounding error of floating point may be, as a part of the number


def is_unlimited_amount(text: str) -> bool:
    """Say whether an amount is no limit at all."""
    return text.upper() in NO_LIMIT


def parse_amount(text: str) -> float:
    """Return an amount as a number: of bytes, of seconds, or of what it counts.

    Raises ParseError for anything else, and for an amount beyond all reason.
    """
    try:
        number = _seconds(text.split(":")) if ":" in text else _number(text)
    except ValueError as error:
        raise ParseError(f"{text[:40]!r} is no number, memory or time") from error
    if not 0 <= number <= MOST:
        raise ParseError(f"{text[:40]!r} is no amount")
    return number


def _seconds(parts: list[str]) -> float:
    if len(parts) > 3:
        raise ValueError
    total = 0.0
    for part in parts:
        if part and not (part.isascii() and part.isdecimal()):
            raise ValueError
        total = total * 60 + float(part or 0)
    return total


def _number(text: str) -> float:
    multiplier = MULTIPLIERS.get(text[-1:], 1)
    digits = text[:-1] if multiplier > 1 else text
    return (int(digits, 16) if digits[:2] in HEXADECIMAL else _digits(digits)) * multiplier


def _digits(text: str) -> float:
    """Read a number without what only Python takes for one."""
    if not DIGITS.issuperset(text):
        raise ValueError
    return float(text)


def format_amount(number: float, unit: str) -> str:
    """Write a number in a unit, in whole ones, rounded up so that no job gets less.

    The unit of memory stands behind the number, that of a time does not.
    """
    if unit == CLOCK:
        whole = round_up(number)
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    if unit in SECONDS:
        return str(round_up(number / SECONDS[unit]))
    return f"{round_up(number / MULTIPLIERS[unit])}{unit}" if unit else str(round_up(number))


def strip_memory_unit(amount: str) -> str:
    """Return an amount without its unit of memory."""
    return amount.rstrip("".join(MULTIPLIERS))


def round_up(number: float) -> int:
    """Return the next whole number; a rounding error above one does not count."""
    whole = int(number)
    return whole + (number - whole > number * NOISE)
