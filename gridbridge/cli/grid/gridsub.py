"""gridsub: submit a campaign, a bag of tasks for many clusters."""

import sys

import click

from gridbridge.cli import output, program
from gridbridge.cli.grid import REFUSED, UNREACHABLE
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.campaigns.jdl import Type
from gridbridge.services.tools import campaigns
from gridbridge.services.tools.campaigns import Refused, Unreachable

JSON_TEXT = "the JDL of -j"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-f", "path", metavar="FILE", help="A JDL file, JSON or TOML; - is standard input.")
@click.option("-j", "text", metavar="JSON", help="The JDL itself.")
@click.option(
    "-t",
    "type_",
    type=click.Choice([each.value for each in Type]),
    default=Type.DEFAULT.value,
    help="test sends one task to each cluster.",
)
@click.option("-d", "is_debug", is_flag=True, help="Show where an unexpected error came from.")
@click.argument("standard_input", metavar="[-]", required=False)
def gridsub(
    path: str | None, text: str | None, type_: str, is_debug: bool, standard_input: str | None
) -> int:
    """Submit a campaign: tasks that differ by their parameters alone, run where there is room.

    Exit status: 0; 1 refused, and every mistake is told; 2 usage; 75 nobody takes campaigns now,
    and nothing is stored.

    \b
    Example:
      gridsub -f sweep.json
      gridsub -j '{"name": "a", "nb_jobs": 9, "exec_file": "hostname", "clusters": {"beta": {}}}'
    """
    if standard_input not in (None, "-") or sum(map(bool, (path, text, standard_input))) != 1:
        raise click.UsageError("one of -f FILE, -j JSON and -")
    source = path or ("-" if standard_input else JSON_TEXT)
    try:
        said = campaigns.read(source, text or _text_of(source), type_)
        for warning in said.warnings:
            output.complain(f"gridsub: {warning}")
        number = campaigns.submit(said)
    except (ConfigError, Refused) as error:
        return _ended(error, REFUSED, is_debug)
    except Unreachable as error:
        return _ended(error, UNREACHABLE, is_debug)
    output.line("Campaign successfully submitted")
    output.line(f"CAMPAIGN_ID={number}")
    return 0


def _text_of(path: str) -> str:
    """Return the text of a JDL; a usage error where there is none."""
    try:
        if path == "-":
            return sys.stdin.read()
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from error


def _ended(error: GridbridgeError, status: int, is_debug: bool) -> int:
    if is_debug:
        raise error
    output.complain(f"gridsub: {error}")
    return status


def main() -> None:
    """Run it."""
    program.run(gridsub, "gridsub")
