"""Options that commands share, and the format of printed times."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from gridbridge.cli import output
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED

EXIT_NO_ANSWER = 75  # EX_TEMPFAIL of sysexits.h: retry later
Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., Any])
Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]  # the type of click's options


def refuse_empty_option_value(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty option value, as of an unset variable in a script."""
    source = ctx.get_parameter_source(option.name or "")
    if value == "" and source is not ParameterSource.DEFAULT:
        raise click.BadParameter("it is empty", ctx, option)
    return value


FOLDER = click.option(
    "--published",
    "folder",
    metavar="FOLDER",
    default=PUBLISHED,
    show_default=True,
    help="Read the files that the service published here.",
)
CONFIG_FILE = click.option(
    "--config", "path", metavar="FILE", default=CONFIG, show_default=True, help="Read this file."
)
FROM = click.option(
    "--from",
    "folder",
    metavar="FOLDER",
    default="",
    callback=refuse_empty_option_value,
    help="Decide about what `gridbridge balance snapshot` saved in FOLDER.",
)
JSON = click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")


def version_option(message: str = "{program} {version}") -> Option:
    """Return the option that prints the version and the commit."""

    def print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
        if is_asked:
            from gridbridge.program.version import version_with_commit  # may run git

            output.print_line(message.format(program=ctx.info_name, version=version_with_commit()))
            ctx.exit()

    return click.option(
        *("--version", "is_asked"),
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=print_version,
        help="Show the version and exit.",
    )


VERSION = version_option()
VERBOSE = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, help="Say what was done, as it always does."
)


class FiniteNumberRange(click.FloatRange):
    """A click type: a number within a range, without nan and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert an option's text to a finite number."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def add_options(options: Sequence[Option]) -> Callable[[Command], Command]:
    """Add options to a command, in the order of its help."""

    def give(command: Command) -> Command:
        for option in reversed(options):
            option(command)  # click stores the option at the function itself
        return command

    return give


def config_path_unless_from_folder(folder: str, path: str) -> str:
    """Return the path of --config; empty beside --from, unless it was given."""
    source = click.get_current_context().get_parameter_source("path")
    return "" if folder and source is ParameterSource.DEFAULT else path


def format_local_time(at: datetime | None, now: datetime) -> str:
    """Format a time in the local zone, with the date if it is older than a day."""
    if at is None:
        return "-"
    is_recent = timedelta() <= now - at < timedelta(hours=24)
    return f"{at.astimezone():{'%H:%M:%S' if is_recent else '%Y-%m-%d %H:%M:%S'}}"


def exit_75_without_cluster_answer(act: Callable[[], Value]) -> Value:
    """Call a function; exit with 75 if a cluster gave no complete answer."""
    try:
        return act()
    except ClusterStateUnknown as error:
        output.print_error(f"gridbridge: {error}")
        raise SystemExit(EXIT_NO_ANSWER) from error
