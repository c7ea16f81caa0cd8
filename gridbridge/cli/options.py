"""What commands share: their options, and how they print a time."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from gridbridge.cli import output
from gridbridge.errors import ClusterNotObserved
from gridbridge.model.places import CONFIG, PUBLISHED

NOT_SEEN = 75  # as of sysexits.h: the same may work later
Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., Any])
Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]  # as click makes it


def not_empty(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse a word that is empty, as of a variable that a script has not set."""
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
    callback=not_empty,
    help="Decide about what `gridbridge balance snapshot` saved in FOLDER.",
)
JSON = click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")


def version_option(message: str = "{program} {version}") -> Option:
    """Return the option that prints the version and the commit."""

    def print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
        if is_asked:
            from gridbridge.program.version import version_with_commit  # may ask git

            output.line(message.format(program=ctx.info_name, version=version_with_commit()))
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
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    help="Say what was done, as it always does.",
)


class FiniteNumber(click.FloatRange):
    """A number within a range; nan and infinity are none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def all_of(options: Sequence[Option]) -> Callable[[Command], Command]:
    """Give a command options, which its help shows in this order."""

    def give(command: Command) -> Command:
        for option in reversed(options):
            option(command)  # click notes it at the function itself
        return command

    return give


def config_beside(folder: str, path: str) -> str:
    """Return the file of --config; none beside a folder of --from unless somebody typed it."""
    source = click.get_current_context().get_parameter_source("path")
    return "" if folder and source is ParameterSource.DEFAULT else path


def clock(at: datetime | None, now: datetime) -> str:
    """Format a time by the reader's clock, with the day if it is not recent."""
    if at is None:
        return "-"
    is_recent = timedelta() <= now - at < timedelta(hours=24)
    return f"{at.astimezone():{'%H:%M:%S' if is_recent else '%Y-%m-%d %H:%M:%S'}}"


def or_later(act: Callable[[], Value]) -> Value:
    """Do it, or end with 75 when the cell gave no whole answer."""
    try:
        return act()
    except ClusterNotObserved as error:
        output.complain(f"gridbridge: {error}")
        raise SystemExit(NOT_SEEN) from error
