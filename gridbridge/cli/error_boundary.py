"""The error boundary of every program that a person runs.

Exit status: 0 done, 1 what the program says, 2 an error (a line for each mistake), 130
interrupted, 141 nobody read the rest.
"""

import gc
import logging
import sys
from collections.abc import Callable
from functools import partial

import click

from gridbridge.cli import output
from gridbridge.errors import GridbridgeError, OutputReaderGone, ProgramNotStarted, describe_error
from gridbridge.model.places import ELSEWHERE
from gridbridge.program import log_file

DEBUGS = ("gridbridge", "gridsub")  # programs that show where, by --debug
DATED = ("gridbridge", "gridbridge-balance")  # cron appends their errors to a log
DONE, ERROR = 0, 2
OF_CLUSTERS = ("q", "oar")  # the programs of Grid Engine, and of OAR
INTERRUPTED = 130  # as a shell reports SIGINT
OBJECTS = 50_000  # new ones before Python looks for cycles: loaded modules stay
READER_GONE = 141  # as a shell reports SIGPIPE

_log = logging.getLogger(__name__)


def run(command: click.Command, name: str) -> None:
    """Run a program; every error ends as lines on standard error and a documented exit status."""
    gc.set_threshold(OBJECTS)
    status = _ended(name, partial(_run, command, name))
    status = _ended(name, output.finish, status)
    gc.freeze()  # the interpreter's end looks for no cycles
    sys.exit(status)


def _run(command: click.Command, name: str) -> int:
    """Run the command; click's own exits are statuses too."""
    stdout = sys.stdout
    try:
        return command(prog_name=name, standalone_mode=False) or DONE
    except SystemExit as ended:
        is_reader_gone = sys.stdout is not stdout  # click found out and put a dummy there
        return READER_GONE if is_reader_gone else int(ended.code or DONE)
    except OSError:
        output.finish()  # click writes help by itself: its trouble shows again here
        raise


def _ended(name: str, step: Callable[[], int | None], status: int = DONE) -> int:
    """Take a step and return the exit status, the one before when all goes well."""
    try:
        return step() or status
    except OutputReaderGone:
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
    except Exception as error:  # the boundary: nobody above it could act
        _log.debug("unexpected", exc_info=True)
        hint = "; --debug shows where" if name in DEBUGS else ""
        return _report_error(
            name, f"unexpected {type(error).__name__}: {describe_error(error)}{hint}"
        )


def _remedy(error: ProgramNotStarted) -> str:
    """Say where the programs of the site's own cluster are, if it is one of them."""
    is_of_cluster = error.argv[0].rpartition("/")[2].startswith(OF_CLUSTERS)
    return f"; {ELSEWHERE}, or set `binaries` of its [cluster.NAME]" if is_of_cluster else ""


def _visible(error: click.NoSuchOption) -> click.NoSuchOption:
    """Return it without the options that programs alone give each other."""
    if not error.possibilities or not error.ctx:
        return error
    options = [option for option in error.ctx.command.params if isinstance(option, click.Option)]
    hidden = {word for option in options if option.hidden for word in option.opts}
    near = [word for word in error.possibilities if word not in hidden]
    return click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)


def _report_error(name: str, message: str, status: int = ERROR) -> int:
    is_help = message.startswith("Usage:")  # a group without a command
    for line in (message,) if is_help else message.splitlines() or ("",):
        text = line if is_help else f"{name}: {line}"
        output.complain(
            log_file.prefix_lines_with_time(text, sys.stderr) if name in DATED else text
        )
    return status
