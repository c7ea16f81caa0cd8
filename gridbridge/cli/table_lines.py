"""Lay out tables and bars as text: aligned columns, or stacked rows for a narrow terminal."""

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


def slot_bar(slots: int | None, used: int | None, free: int | None, ours: int, width: int) -> tuple[int, int, int, int]:
    """Divide a bar of `width` columns into slots of others, of gridbridge, free slots and slots that take no job."""
    if not slots:
        return 0, 0, 0, width
    in_use = min(used or 0, slots)
    of_us = min(ours, in_use)
    parts = (in_use - of_us, of_us, min(free or 0, slots - in_use))
    ends = [round(width * sum(parts[: n + 1]) / slots) for n in range(3)]
    return ends[0], ends[1] - ends[0], ends[2] - ends[1], width - ends[2]


def _column_widths(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
