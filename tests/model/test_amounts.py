"""Amounts are parsed as Grid Engine does, and rounded up when written in another unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridbridge.errors import ParseError
from gridbridge.model import grid_engine_amounts

GIB = 1024**3


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("1e3", 1000),
        ("2G", 2 * GIB),
        ("2g", 2 * 1000**3),
        ("1.5K", 1536),
        ("1:30:0", 5400),
        ("90:0", 5400),
        (":30", 30),
        ("1::", 3600),
        ("0x40000000", 2**30),
        ("0x10K", 16384),
    ],
)
def test_amounts_of_grid_engine_are_parsed(text: str, number: float) -> None:
    assert grid_engine_amounts.parse_grid_engine_amount(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "G",
        "-1",
        "inf",
        "nan",
        "1:2:3:4",
        "1:-2",
        "1:x",
        "lx-*",
        "2GB",
        "1e300T",
        "1e308",
        "9" * 400 + ":0",
        "1_000",
        "\u0663",
        "0xzz",
    ],
)
def test_a_text_that_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ParseError, match="is no"):
        grid_engine_amounts.parse_grid_engine_amount(text)


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        (2 * GIB, "M", "2048M"),
        (2 * GIB + 1, "M", "2049M"),
        (1100, "k", "2k"),
        (5400, "h:m:s", "1:30:00"),
        (359999, "h:m:s", "99:59:59"),
        (0.2, "h:m:s", "0:00:01"),
        (5400, "s", "5400"),
        (5401, "min", "91"),
        (5400, "h", "2"),
        (3, "", "3"),
        (0.5, "", "1"),
        (3960.0000000000005, "", "3960"),
        (1e13 + 1, "s", "10000000000001"),
        (0.1 * 3 * 10 * GIB, "G", "3G"),  # 3.0000000000000004
    ],
)
def test_an_amount_is_formatted_in_whole_units_rounded_up(number: float, unit: str, text: str) -> None:
    assert grid_engine_amounts.format_grid_engine_amount(number, unit) == text


@given(st.integers(0, 10**15), st.sampled_from(["k", "K", "m", "M", "g", "G", "h:m:s", "s"]))
def test_a_formatted_amount_exceeds_its_number_by_less_than_one_unit(number: int, unit: str) -> None:
    one = grid_engine_amounts.MULTIPLIERS.get(unit, 1)

    written = grid_engine_amounts.parse_grid_engine_amount(
        grid_engine_amounts.format_grid_engine_amount(float(number), unit)
    )

    assert number <= written < number + one
