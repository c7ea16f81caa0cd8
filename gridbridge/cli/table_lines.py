"""Lay out tables as lines of text: aligned columns, or stacked rows for a narrow terminal."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

NARROW = 80  # on a terminal with fewer columns a table that is too wide becomes stacked rows
NOTHING = ("", "-")  # cells that stacked rows leave out
LEAST_VALUE = 8  # least width of a wrapped value


def aligned_lines(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of a table; columns in `numbers` are aligned to the right."""
    widths = _column_widths(head, rows)
    for row in (head, *rows):
        cells = (
            text.rjust(width) if title in numbers else text.ljust(width)
            for title, text, width in zip(head, row, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()


def must_stack_rows(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> bool:
    """Say whether a terminal is narrow, and a table too wide for it."""
    widths = _column_widths(head, rows)
    return bool(rows) and width < NARROW and sum(widths) + 2 * (len(widths) - 1) > width


def stacked_lines(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield each row as a paragraph of indented lines below its first cell; empty cells are left out."""
    margin = max(map(len, head[1:]), default=0) + 4
    for place, row in enumerate(rows):
        if place:
            yield ""
        yield f"{head[0]} {row[0]}".strip()
        for title, text in zip(head[1:], row[1:], strict=True):
            if text not in NOTHING:
                first, *more = wrap(text, max(LEAST_VALUE, width - margin))
                yield f"  {title}".ljust(margin) + first
                yield from (" " * margin + line for line in more)


def _column_widths(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
