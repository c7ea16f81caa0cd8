"""The only module that prints: lines to stdout, errors to stderr."""

import sys
from collections.abc import Sequence


def say(line: str) -> None:
    """Write one line and flush it, so that progress shows through a pipe too."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def complain(line: str) -> None:
    """Write one line to standard error, with the program's name."""
    sys.stderr.write(f"lab: {line}\n")


def say_table(rows: Sequence[Sequence[str]]) -> None:
    """Write rows in columns as wide as their widest cell; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())
