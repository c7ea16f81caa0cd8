"""Parse and format Grid Engine numbers, memory and times (sge_types(5)).

Starters load this module only for a queue with a mapping. The module imports only the errors.
"""

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
NO_LIMIT = ("INFINITY", "NONE")  # words for an unlimited amount, in any case (queue_conf(5))
MOST = 1e18  # the largest valid amount: an exabyte
HEXADECIMAL = ("0x", "0X")
DIGITS = frozenset("0123456789.eE+-")
NOISE = 1e-15  # largest floating-point rounding error, relative to the number


def is_unlimited_grid_engine_amount(text: str) -> bool:
    """Say whether an amount means no limit: INFINITY or NONE in any case."""
    return text.upper() in NO_LIMIT


def parse_grid_engine_amount(text: str) -> float:
    """Return an amount as a number: bytes, seconds, or a plain count.

    Raises ParseError for text that is no amount, and for an amount below 0 or above MOST.
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
    """Parse a decimal number, without Python-only forms such as `1_000` or `nan`."""
    if not DIGITS.issuperset(text):
        raise ValueError
    return float(text)


def format_grid_engine_amount(number: float, unit: str) -> str:
    """Format a number in whole units, rounded up so that no job gets less.

    A memory unit is written behind the number, a time unit is not.
    """
    if unit == CLOCK:
        whole = ceil_despite_rounding_error(number)
        return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
    if unit in SECONDS:
        return str(ceil_despite_rounding_error(number / SECONDS[unit]))
    return (
        f"{ceil_despite_rounding_error(number / MULTIPLIERS[unit])}{unit}"
        if unit
        else str(ceil_despite_rounding_error(number))
    )


def strip_memory_unit(amount: str) -> str:
    """Return an amount without its memory unit."""
    return amount.rstrip("".join(MULTIPLIERS))


def ceil_despite_rounding_error(number: float) -> int:
    """Round a number up to a whole number, despite a floating-point rounding error."""
    whole = int(number)
    return whole + (number - whole > number * NOISE)
