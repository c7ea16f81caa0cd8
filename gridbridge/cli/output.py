"""The only place that prints: tables, JSON, and lines on standard output and error.

A table is aligned text. On a terminal it has colour, and rich folds it to the width.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Literal, TextIO

from gridbridge.errors import GridbridgeError, StandardOutputReaderGone, StandardOutputUnwritable

STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "broken": "bold red"}


def print_line(text: str = "") -> None:
    """Print one line on standard output.

    StandardOutputUnwritable or StandardOutputReaderGone if that fails.
    """
    if sys.stdout is None:  # closed by the shell: >&-
        raise StandardOutputUnwritable("standard output: closed")
    try:
        sys.stdout.write(f"{text}\n")
    except OSError as error:
        raise _lost(error) from error


def flush_output() -> None:
    """Flush standard output; StandardOutputUnwritable or StandardOutputReaderGone if that fails."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        raise _lost(error) from error


def print_error(text: str) -> None:
    """Print one line on standard error; failures are ignored."""
    try:
        if sys.stderr:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
    except OSError:
        _drop(sys.stderr)


def show_progress(text: str) -> None:
    """Show progress on the last line of a terminal; elsewhere print nothing."""
    if sys.stderr and sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def is_stdout_terminal() -> bool:
    """Say whether standard output is a terminal."""
    return bool(sys.stdout) and sys.stdout.isatty()


def print_json(value: object) -> None:
    """Print a value as JSON."""
    print_line(json.dumps(value, indent=2))


def number_or_dash(number: int | None) -> str:
    """Return a number as a table shows it; a dash for an unknown number."""
    return "-" if number is None else str(number)


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    style_of: Callable[[Sequence[str]], str] = lambda _: "",
    unbroken: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> None:
    """Print rows under a head: coloured on a terminal, else as plain aligned columns.

    On a narrow terminal cells are folded, except in `unbroken` columns. Columns in `numbers` are
    aligned to the right.
    """
    if is_stdout_terminal():
        _rich_table(head, rows, style_of, unbroken, numbers)
        return
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    for row in (head, *rows):
        cells = (
            text.rjust(width) if title in numbers else text.ljust(width)
            for title, text, width in zip(head, row, widths, strict=True)
        )
        print_line("  ".join(cells).rstrip())


def _lost(error: OSError) -> GridbridgeError:
    _drop(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return StandardOutputReaderGone()
    return StandardOutputUnwritable(f"standard output: {error.strerror}")


def _drop(stream: TextIO) -> None:
    """Discard buffered output, or the interpreter would report the failed output at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _rich_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    style_of: Callable[[Sequence[str]], str],
    unbroken: Sequence[str],
    numbers: Sequence[str],
) -> None:
    from rich.console import Console  # the import takes 50 ms
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in head:
        side: Literal["left", "right"] = "right" if title in numbers else "left"
        grid.add_column(title, overflow="fold", no_wrap=title in unbroken, justify=side)
    for row in rows:
        grid.add_row(*(Text(text) for text in row), style=style_of(row))
    Console().print(grid)
