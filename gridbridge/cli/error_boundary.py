"""The error boundary of every program that people run.

Exit status: 0 done, 1 as the command documents, 2 an error (a line for each mistake), 130
interrupted, 141 the reader of the output went away.
"""

import gc
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import click

from gridbridge.cli import output
from gridbridge.errors import GridbridgeError, ProgramNotStarted, StandardOutputReaderGone, describe_error
from gridbridge.model.fixed_paths import ELSEWHERE
from gridbridge.program import log_rotation

DEBUGS = ("gridbridge", "gridsub")  # programs with an option --debug
DATED = ("gridbridge", "gridbridge-balance")  # cron appends errors of these programs to a log
DONE, ERROR = 0, 2
OF_CLUSTERS = ("q", "oar")  # prefixes of Grid Engine's and OAR's programs
INTERRUPTED = 130  # exit status that a shell reports for SIGINT
OBJECTS = 50_000  # allocations before a garbage collection: modules stay loaded
READER_GONE = 141  # exit status that a shell reports for SIGPIPE

_log = logging.getLogger(__name__)


def run_command_reporting_errors(command: click.Command, name: str) -> None:
    """Run a command; report every error as lines, and exit with a documented status."""
    gc.set_threshold(OBJECTS)
    status = _ended(name, partial(_run, command, name))
    status = _ended(name, output.flush_output, status)
    gc.freeze()  # no garbage collection at exit
    sys.exit(status)


def _run(command: click.Command, name: str) -> int:
    """Run the command; exits by click are statuses, too."""
    stdout = sys.stdout
    try:
        return command(prog_name=name, standalone_mode=False) or DONE
    except SystemExit as ended:
        is_reader_gone = sys.stdout is not stdout  # click has replaced stdout after a broken pipe
        return READER_GONE if is_reader_gone else int(ended.code or DONE)
    except OSError:
        output.flush_output()  # click prints help itself; its error shows here
        raise


def _ended(name: str, step: Callable[[], int | None], status: int = DONE) -> int:
    """Run a step and return the exit status, `status` if the step succeeds."""
    try:
        return step() or status
    except StandardOutputReaderGone:
        return READER_GONE
    except click.NoSuchOption as error:
        return _report_error(name, _visible(error).format_message(), error.exit_code)
    except click.ClickException as error:
        return _report_error(name, error.format_message(), error.exit_code)
    except click.Abort:
        return _report_error(name, "interrupted", INTERRUPTED)
    except ProgramNotStarted as error:
        return _report_error(name, f"{error}{_remedy(error)}")
    except GridbridgeError as error:
        return _report_error(name, str(error))
    except Exception as error:  # the boundary: no caller could handle the error
        _log.debug("unexpected", exc_info=True)
        hint = "; --debug shows where" if name in DEBUGS else ""
        return _report_error(name, f"unexpected {type(error).__name__}: {describe_error(error)}{hint}")


def _remedy(error: ProgramNotStarted) -> str:
    """Say how to find a batch system's programs, if a program is missing."""
    is_of_cluster = error.argv[0].rpartition("/")[2].startswith(OF_CLUSTERS)
    return f"; {ELSEWHERE}, or set `binaries` of its [cluster.NAME]" if is_of_cluster else ""


def _visible(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return an unknown option's error without hidden options as suggestions."""
    if not error.possibilities or not error.ctx:
        return error
    options = [option for option in error.ctx.command.params if isinstance(option, click.Option)]
    hidden = {word for option in options if option.hidden for word in option.opts}
    near = [word for word in error.possibilities if word not in hidden]
    return click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)


def _report_error(name: str, message: str, status: int = ERROR) -> int:
    is_help = message.startswith("Usage:")  # a command group without a command
    for line in (message,) if is_help else message.splitlines() or ("",):
        text = line if is_help else f"{name}: {line}"
        output.print_error(log_rotation.prefix_lines_with_time(text, sys.stderr) if name in DATED else text)
    return status


@contextmanager
def print_traceback_if_debug(is_debug: bool) -> Iterator[None]:
    """Print the traceback of each error but wrong usage, and raise the error again."""
    try:
        yield
    except (click.ClickException, click.Abort, StandardOutputReaderGone):
        raise
    except Exception:
        if is_debug:
            output.print_error(traceback.format_exc().rstrip("\n"))
        raise
