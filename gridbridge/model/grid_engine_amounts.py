"""Parses and formats Grid Engine numbers, memory sizes and times (sge_types(5))."""

from gridbridge.errors import ParseError

MULTIPLIERS = {  # bytes of each memory unit (sge_types(5), memory_specifier)
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
NO_LIMIT = ("INFINITY", "NONE")  # words that mean no limit, also in lower case (queue_conf(5))
MOST = 1e18  # the largest valid amount; for memory, an exabyte
HEXADECIMAL = ("0x", "0X")
DIGITS = frozenset("0123456789.eE+-")
NOISE = 1e-15  # largest relative rounding error


def is_unlimited_grid_engine_amount(text: str) -> bool:
    """Say whether a Grid Engine amount means no limit: INFINITY or NONE, in upper or lower case."""
    return text.upper() in NO_LIMIT


def parse_grid_engine_amount(text: str) -> float:
    """Parse an amount in bytes, seconds or no unit; raise ParseError unless it is from 0 to MOST."""
    try:
        number = _parse_hours_minutes_seconds(text.split(":")) if ":" in text else _parse_number_with_unit(text)
    except ValueError as error:
        raise ParseError(f"{text[:40]!r} is no number, memory or time") from error
    if not 0 <= number <= MOST:
        raise ParseError(f"{text[:40]!r} is not between 0 and {MOST:g}")
    return number


def _parse_hours_minutes_seconds(parts: list[str]) -> float:
    if len(parts) > 3:
        raise ValueError
    total = 0.0
    for part in parts:
        if part and not (part.isascii() and part.isdecimal()):
            raise ValueError
        total = total * 60 + float(part or 0)
    return total


def _parse_number_with_unit(text: str) -> float:
    multiplier = MULTIPLIERS.get(text[-1:], 1)
    digits = text[:-1] if multiplier > 1 else text
    if digits[:2] in HEXADECIMAL:
        return int(digits, 16) * multiplier
    if not DIGITS.issuperset(digits):  # float() would accept `1_000` and `nan`
        raise ValueError
    return float(digits) * multiplier


def format_grid_engine_amount(number: float, unit: str) -> str:
    """Format a number as an amount in whole units, rounded up; only units of memory are written."""
    if unit == CLOCK:
        whole = ceil_despite_rounding_error(number)
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    if unit in SECONDS:
        return str(ceil_despite_rounding_error(number / SECONDS[unit]))
    return f"{ceil_despite_rounding_error(number / MULTIPLIERS.get(unit, 1))}{unit}"


def strip_memory_unit(amount: str) -> str:
    return amount.rstrip("".join(MULTIPLIERS))


def ceil_despite_rounding_error(number: float) -> int:
    """Round up to a whole number, but ignore rounding errors: 3.0000000000000004 gives 3."""
    whole = int(number)
    return whole + (number - whole > number * NOISE)
