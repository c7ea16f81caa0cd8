"""Prints a report of `gridbridge status` again and again, on a terminal in place of the report before."""

import io
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import datetime
from typing import TypeVar

from gridbridge.cli import output_and_errors
from gridbridge.errors import GridbridgeError, describe_error
from gridbridge.model.published_status_and_reports import format_duration

Report = TypeVar("Report")
HOME, REST_OF_LINE, REST_OF_SCREEN = "\033[H", "\033[K", "\033[J"  # move to the first line; delete what is left


def watch_report(
    read: Callable[[datetime], Report],
    show: Callable[[Report, datetime], None],
    is_last: Callable[[Report], bool],
    clock: Callable[[], datetime],
    pause: Callable[[], object],
) -> None:
    """Show reports until `is_last` holds; if a reading fails, show the last report with its age."""
    report, read_at, trouble = read(at := clock()), at, ""
    while True:
        print_in_place(_head(trouble, at, read_at), lambda: show(report, read_at))  # noqa: B023  # called at once
        if is_last(report):
            return
        pause()
        at = clock()
        try:
            report, read_at, trouble = read(at), at, ""
        except (OSError, GridbridgeError) as error:
            trouble = describe_error(error)


def _head(trouble: str, at: datetime, read_at: datetime) -> str:
    now = f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
    return f"{now}  {trouble}; the report below is {format_duration(at - read_at)} old" if trouble else now


def print_in_place(head: str, show: Callable[[], None]) -> None:
    """Print what `show` prints; a terminal shows the first lines that fit, in place of its former contents."""
    if not output_and_errors.is_stdout_terminal():
        output_and_errors.print_line(head)
        show()
        output_and_errors.print_line()
        output_and_errors.flush_output()
        return
    with redirect_stdout(TerminalText()) as text:
        output_and_errors.print_line(f"{head}\n")
        show()
    lines, room = text.getvalue().splitlines(), shutil.get_terminal_size().lines - 1
    if len(lines) > room:
        lines = [*lines[: room - 1], f"and {len(lines) - room + 1} more lines; gridbridge top can scroll"]
    sys.stdout.write(HOME + "".join(f"{line}{REST_OF_LINE}\n" for line in lines) + REST_OF_SCREEN)
    output_and_errors.flush_output()


class TerminalText(io.StringIO):
    """Collects text that is laid out for a terminal."""

    def isatty(self) -> bool:
        return True
