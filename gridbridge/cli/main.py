"""gridbridge: the command of administrators and users; the one error boundary is here.

Exit status: 0 done, 1 a check found warnings, 2 an error (one line on standard error), 130
interrupted, 141 nobody read the rest.
"""

import logging
import sys
from collections.abc import Callable

import click

from gridbridge import __version__
from gridbridge.cli import output
from gridbridge.cli.check import check
from gridbridge.cli.drain import drain, undrain
from gridbridge.cli.explain import explain
from gridbridge.cli.setup import setup
from gridbridge.cli.status import status
from gridbridge.cli.why import why
from gridbridge.errors import GridbridgeError, ReaderGone

DONE, ERROR = 0, 2
INTERRUPTED = 130  # as a shell reports SIGINT
READER_GONE = 141  # as a shell reports SIGPIPE

_log = logging.getLogger(__name__)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gridbridge")
@click.option("--debug", is_flag=True, help="Show where an unexpected error came from.")
def gridbridge(debug: bool) -> None:
    """Let independently run clusters share work.

    Exit status of every command: 0 done, 1 what the command says, 2 an error, told in one line
    on standard error, 130 interrupted, 141 its reader went away.

    \b
    Example:
      gridbridge check
    """
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING)


gridbridge.add_command(setup)
gridbridge.add_command(check)
gridbridge.add_command(status)
gridbridge.add_command(why)
gridbridge.add_command(explain)
gridbridge.add_command(drain)
gridbridge.add_command(undrain)


def main() -> None:
    """Run the command line; every error ends as one line and a documented exit status."""
    sys.exit(_ended(output.finish, _ended(_run)))


def _run() -> int:
    """Run the command; click's own exits are statuses too."""
    stdout = sys.stdout
    try:
        return gridbridge(standalone_mode=False) or DONE
    except SystemExit as ended:
        is_reader_gone = sys.stdout is not stdout  # click found out and put a dummy there
        return READER_GONE if is_reader_gone else int(ended.code or DONE)
    except OSError:
        output.finish()  # click writes help by itself: its trouble shows again here
        raise


def _ended(step: Callable[[], int | None], status: int = DONE) -> int:
    """Take a step and return the exit status, the one before when all goes well."""
    try:
        return step() or status
    except ReaderGone:
        return READER_GONE
    except click.ClickException as error:
        return _told(error.format_message(), error.exit_code)
    except click.Abort:
        return _told("interrupted", INTERRUPTED)
    except GridbridgeError as error:
        return _told(str(error))
    except Exception as error:  # the boundary: nobody above it could act
        _log.debug("unexpected", exc_info=True)
        return _told(f"unexpected {type(error).__name__}: {error}; --debug shows where")


def _told(message: str, status: int = ERROR) -> int:
    is_help = message.startswith("Usage:")  # a group without a command
    output.complain(message if is_help else f"gridbridge: {message}")
    return status
