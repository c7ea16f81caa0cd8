"""Tables on narrow terminals become stacked rows."""

from contextlib import redirect_stdout

import pytest

from gridbridge.cli.output_and_errors import print_table
from gridbridge.cli.table_lines import must_stack_rows, slot_bar, stacked_lines
from gridbridge.site.cli.status_watch import TerminalText

HEAD = ("JOB", "NAME", "HOST", "WAITS FOR")
ROWS = (
    ("12", "render", "beta-n1.cluster.example", "its end"),
    ("13.2", "fit", "-", "a release of the remote job's hold at beta"),
)
STACKED = """\
JOB 12
  NAME       render
  HOST       beta-n1.cluster.example
  WAITS FOR  its end

JOB 13.2
  NAME       fit
  WAITS FOR  a release of the remote
             job's hold at beta
"""


@pytest.mark.parametrize(
    ("width", "rows", "is_stacked"), [(79, ROWS, True), (80, ROWS, False), (79, ROWS[:1], False), (10, (), False)]
)
def test_only_narrow_terminals_stack_wide_tables(
    width: int, rows: tuple[tuple[str, ...], ...], is_stacked: bool
) -> None:
    assert must_stack_rows(HEAD, rows, width) is is_stacked


def test_a_stacked_row_has_a_line_for_each_value_and_fits() -> None:
    assert "\n".join(stacked_lines(HEAD, ROWS, 38)) + "\n" == STACKED
    assert all(len(line) <= 24 for line in stacked_lines(HEAD, ROWS[1:], 24))


@pytest.mark.parametrize("columns", [38, 120])
def test_a_terminal_gets_stacked_rows_or_a_table(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with redirect_stdout(TerminalText()) as text:
        print_table(HEAD, ROWS)

    assert (text.getvalue() == STACKED) is (columns == 38)
    assert ("13.2  fit     -    " in text.getvalue()) is (columns == 120)


@pytest.mark.parametrize(
    ("slots", "used", "free", "ours", "parts"),
    [
        (10, 4, 6, 1, (6, 2, 12, 0)),
        (10, 4, 2, 9, (0, 8, 4, 8)),
        (10, 12, 3, 0, (20, 0, 0, 0)),
        (3, 1, 2, 0, (7, 0, 13, 0)),
        (0, 0, 0, 0, (0, 0, 0, 20)),
        (None, None, None, 2, (0, 0, 0, 20)),
    ],
)
def test_a_bar_is_always_full(
    slots: int | None, used: int | None, free: int | None, ours: int, parts: tuple[int, ...]
) -> None:
    assert slot_bar(slots, used, free, ours, 20) == parts
