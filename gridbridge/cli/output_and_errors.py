"""Prints all output of commands, and turns errors into messages and exit statuses (see `gridbridge --help`)."""

import gc
import json
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, TextIO

import click

from gridbridge.cli import table_lines
from gridbridge.errors import (
    GridbridgeError,
    ProgramNotStarted,
    StandardOutputReaderGone,
    StandardOutputUnwritable,
    describe_error,
)
from gridbridge.model.fixed_paths import ELSEWHERE
from gridbridge.shell import log_file_reopening_and_line_limits, optional_libraries

STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "broken": "bold red"}


def print_line(text: str = "") -> None:
    """Print one line; raise StandardOutputReaderGone or StandardOutputUnwritable."""
    if sys.stdout is None:  # the shell has closed standard output (>&-)
        raise StandardOutputUnwritable("standard output: closed")
    try:
        sys.stdout.write(f"{text}\n")
    except OSError as error:
        raise _unwritable_output_error(error) from error


def flush_output() -> None:
    """Flush standard output; raise StandardOutputReaderGone or StandardOutputUnwritable."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError as error:
        raise _unwritable_output_error(error) from error


def print_error(text: str) -> None:
    try:
        if sys.stderr:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
    except OSError:
        _discard_buffered_output(sys.stderr)


def show_progress(text: str) -> None:
    """Show progress on the last line of a terminal; print nothing if standard error is no terminal."""
    if sys.stderr and sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def is_stdout_terminal() -> bool:
    return bool(sys.stdout) and sys.stdout.isatty()


def is_terminal_narrower_than(columns: int) -> bool:
    return is_stdout_terminal() and shutil.get_terminal_size().columns < columns


def print_json(value: object) -> None:
    print_line(json.dumps(value, indent=2))


def format_number_or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    style_of: Callable[[Sequence[str]], str] = lambda _: "",
    unbroken: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> None:
    """Print a table; never fold columns in `unbroken`, and align columns in `numbers` to the right.

    On a terminal below 80 columns a table that is too wide becomes stacked rows.
    """
    if not is_stdout_terminal():
        for line in table_lines.aligned_lines(head, rows, numbers):
            print_line(line)
        return
    from rich.console import Console  # imported here, because the import takes 50 ms
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if table_lines.must_stack_rows(head, rows, console.width):
        for line in table_lines.stacked_lines(head, rows, console.width):
            print_line(line)
        return
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for title in head:
        side: Literal["left", "right"] = "right" if title in numbers else "left"
        grid.add_column(title, overflow="fold", no_wrap=title in unbroken, justify=side)
    for row in rows:
        grid.add_row(*(Text(text) for text in row), style=style_of(row))
    console.print(grid)


def _unwritable_output_error(error: OSError) -> GridbridgeError:
    _discard_buffered_output(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return StandardOutputReaderGone()
    return StandardOutputUnwritable(f"standard output: {error.strerror}")


def _discard_buffered_output(stream: TextIO) -> None:
    """Discard buffered output, because the interpreter would report the failed output at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


DEBUGS = ("gridbridge", "gridsub")  # programs with an option --debug
DATED = ("gridbridge", "gridbridge-balance")  # cron appends errors of these programs to a log
DONE, ERROR = 0, 2
OF_CLUSTERS = ("q", "oar")  # prefixes of Grid Engine's and OAR's programs
INTERRUPTED = 130  # a shell's exit status for SIGINT
OBJECTS = 50_000  # allocations between garbage collections; the default slows the loading of modules
READER_GONE = 141  # a shell's exit status for SIGPIPE

_log = logging.getLogger(__name__)


def run_command_reporting_errors(command: click.Command, name: str) -> None:
    """Run a command; report every error as lines, and exit with a documented status."""
    gc.set_threshold(OBJECTS)
    status = _run_step_reporting_errors(name, partial(_run_click_command, command, name))
    status = _run_step_reporting_errors(name, flush_output, status)
    gc.freeze()  # avoids a garbage collection at exit
    sys.exit(status)


def _run_click_command(command: click.Command, name: str) -> int:
    stdout = sys.stdout
    try:
        return command(prog_name=name, standalone_mode=False) or DONE
    except SystemExit as ended:
        is_reader_gone = sys.stdout is not stdout  # click has replaced stdout after a broken pipe
        return READER_GONE if is_reader_gone else int(ended.code or DONE)
    except OSError:
        flush_output()  # the error may come from click, which prints help itself
        raise


def _run_step_reporting_errors(name: str, step: Callable[[], int | None], status: int = DONE) -> int:
    try:
        return step() or status
    except StandardOutputReaderGone:
        return READER_GONE
    except click.NoSuchOption as error:
        return _report_error(name, _option_error_without_hidden_suggestions(error).format_message(), error.exit_code)
    except click.ClickException as error:
        return _report_error(name, error.format_message(), error.exit_code)
    except click.Abort:
        return _report_error(name, "interrupted", INTERRUPTED)
    except ProgramNotStarted as error:
        is_of_cluster = error.argv[0].rpartition("/")[2].startswith(OF_CLUSTERS)
        remedy = f"; {ELSEWHERE}, or set `binaries` in section [cluster.NAME]" if is_of_cluster else ""
        return _report_error(name, f"{error}{remedy}")
    except GridbridgeError as error:
        return _report_error(name, str(error))
    except Exception as error:  # no caller could handle the error
        return _report_error(name, _describe_unexpected_error(name, error))


def _describe_unexpected_error(name: str, error: Exception) -> str:
    if isinstance(error, ImportError) and (library := optional_libraries.missing_library_of_error(error)):
        return optional_libraries.missing_library_message(library)
    _log.debug("unexpected", exc_info=True)
    hint = "; --debug shows where" if name in DEBUGS else ""
    return f"unexpected {type(error).__name__}: {describe_error(error)}{hint}"


def _option_error_without_hidden_suggestions(error: click.NoSuchOption) -> click.NoSuchOption:
    if not error.possibilities or not error.ctx:
        return error
    options = [option for option in error.ctx.command.params if isinstance(option, click.Option)]
    hidden = {word for option in options if option.hidden for word in option.opts}
    near = [word for word in error.possibilities if word not in hidden]
    return click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)


def _report_error(name: str, message: str, status: int = ERROR) -> int:
    is_help = message.startswith("Usage:")  # a command group was called without a command
    for line in (message,) if is_help else message.splitlines() or ("",):
        text = line if is_help else f"{name}: {line}"
        print_error(
            log_file_reopening_and_line_limits.prefix_lines_with_time(text, sys.stderr) if name in DATED else text
        )
    return status


@contextmanager
def print_traceback_if_debug(is_debug: bool) -> Iterator[None]:
    """Print the traceback of each error other than wrong usage, and raise the error again."""
    try:
        yield
    except (click.ClickException, click.Abort, StandardOutputReaderGone):
        raise
    except Exception:
        if is_debug:
            print_error(traceback.format_exc().rstrip("\n"))
        raise
