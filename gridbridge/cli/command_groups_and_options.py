"""Groups of commands and shared options for click, with suggestions and commands that are imported late."""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click
from click.core import ParameterSource

from gridbridge.cli import output_and_errors
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED, FixedPaths


class FullSentenceCommandGroup(click.Group):
    """A command group whose help shows whole first sentences, which click would truncate."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word, commands = args[0], self.list_commands(ctx)
        if word in commands or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        near = get_close_matches(word, commands, 1)
        hint = f"{near[0]} is the nearest" if near else f"the commands are {', '.join(commands)}"
        raise click.UsageError(f"No such command {word!r}; {hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            helps = {name: self.command_help_text(ctx, name).partition("\n\n")[0] for name in self.list_commands(ctx)}
            formatter.write_dl([(name, " ".join(text.split())) for name, text in helps.items()])

    def command_help_text(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return (command and command.help) or ""


class LazyCommandGroup(FullSentenceCommandGroup):
    """A group that imports only the called command: importing all commands takes ten times as long."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        super().__init__(*args, **more)
        self._modules = {name: f"gridbridge.{module}" for name, module in modules.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._modules:
            return None
        command: click.Command = getattr(import_module(self._modules[cmd_name]), cmd_name)
        return command

    def command_help_text(self, ctx: click.Context, name: str) -> str:
        """Return a command's help text from the source of the command's module, without an import."""
        spec = find_spec(self._modules[name])
        assert spec
        assert spec.origin
        function = next(
            node
            for node in ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.name == name
        )
        return ast.get_docstring(function) or ""


EXIT_NO_ANSWER = 75  # EX_TEMPFAIL of sysexits.h: retry later
Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., Any])
Option: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]  # a decorator that adds an option


def refuse_empty_option_value(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty option value, for example of an unset variable in a script."""
    source = ctx.get_parameter_source(option.name or "")
    if value == "" and source is not ParameterSource.DEFAULT:
        raise click.BadParameter("the value is empty", ctx, option)
    return value


FIXED_PATHS = click.make_pass_decorator(FixedPaths, ensure=True)  # a test gives other paths as `obj`
FOLDER = click.option(
    "--published",
    "folder",
    metavar="FOLDER",
    default=PUBLISHED,
    show_default=True,
    help="Read the service's published files in this folder.",
)
CONFIG_FILE = click.option(
    "--config", "path", metavar="FILE", default=CONFIG, show_default=True, help="Read this configuration file."
)
FROM = click.option(
    "--from",
    "folder",
    metavar="FOLDER",
    default="",
    callback=refuse_empty_option_value,
    help="Decide about a situation that `gridbridge balance snapshot` saved in FOLDER.",
)
JSON = click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")


def version_option(message: str = "{program} {version}") -> Option:
    def print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
        if is_asked:
            from gridbridge.shell.program_startup import version_with_commit_and_date  # which may run git

            output_and_errors.print_line(message.format(program=ctx.info_name, version=version_with_commit_and_date()))
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
    "-v", "--verbose", is_flag=True, expose_value=False, help="No effect: the command always says what was done."
)


class FiniteNumberRange(click.FloatRange):
    """A click type: a number within a range, without nan and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


def add_options_to_command(options: Sequence[Option]) -> Callable[[Command], Command]:
    """Add options to a command; the command's help lists the options in this order."""

    def add_options(command: Command) -> Command:
        for option in reversed(options):
            option(command)  # click stores the option at the function itself
        return command

    return add_options


def config_path_unless_from_folder(folder: str, path: str) -> str:
    """Return the path of option --config; empty if the command line has --from without --config."""
    source = click.get_current_context().get_parameter_source("path")
    return "" if folder and source is ParameterSource.DEFAULT else path


def format_local_time(at: datetime | None, now: datetime) -> str:
    """Format a time in the local zone; a time more than a day ago is shown with its date."""
    if at is None:
        return "-"
    is_recent = timedelta() <= now - at < timedelta(hours=24)
    return f"{at.astimezone():{'%H:%M:%S' if is_recent else '%Y-%m-%d %H:%M:%S'}}"


def exit_75_without_cluster_answer(act: Callable[[], Value]) -> Value:
    """Call a function; exit with status 75 if a cluster gave no complete answer."""
    try:
        return act()
    except ClusterStateUnknown as error:
        output_and_errors.print_error(f"gridbridge: {error}")
        raise SystemExit(EXIT_NO_ANSWER) from error
