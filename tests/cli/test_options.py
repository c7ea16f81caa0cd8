"""The option types that all commands share, and the modules that read-only commands load."""

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gridbridge import cli
from gridbridge.cli.command_groups_and_options import FiniteNumberRange
from gridbridge.cli.main import gridbridge
from gridbridge.elastic.cli import balance_program
from gridbridge.transfer.cli.qacct_remote_command import qacct_remote
from tests.cli.commands import commands_by_name


def every() -> Iterator[click.Command]:
    """Yield the commands of all programs."""
    yield from commands_by_name(gridbridge, "gridbridge").values()
    for module in pkgutil.walk_packages(cli.__path__, "gridbridge.cli."):
        values = vars(importlib.import_module(module.name)).values()
        yield from (value for value in values if isinstance(value, click.Command))


def test_every_float_option_refuses_nan_and_infinity() -> None:
    """NaN passes every range check and makes all results wrong."""
    params = {id(one): one for command in every() for one in command.params}
    numbers = [one for one in params.values() if isinstance(one.type, click.types.FloatParamType)]
    ranges = [one for one in params.values() if isinstance(one.type, click.FloatRange)]

    assert len(ranges) > 10
    assert [one.name for one in (*numbers, *ranges) if not isinstance(one.type, FiniteNumberRange)] == []


@pytest.mark.parametrize("word", ["nan", "inf", "-inf", "1e999"])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (gridbridge, ("squeeze", "--model", "none", "--minimal-resources")),
        (gridbridge, ("squeeze", "--model", "none", "--target-resources")),
        (gridbridge, ("simulate", "--synthetic", "a", "--max-nodes", "2", "--load")),
        (gridbridge, ("simulate", "--synthetic", "a", "--max-nodes", "2", "--price")),
        (gridbridge, ("balance", "plan", "--job-wait-time")),
        (balance_program.balance, ("--interval",)),
        (qacct_remote, ("-d",)),
    ],
    ids=["minimal", "target", "load", "price", "wait", "interval", "days"],
)
def test_nan_and_infinity_are_refused_in_one_line(command: click.Command, words: tuple[str, ...], word: str) -> None:
    told = CliRunner().invoke(command, (*words, word))

    assert told.exit_code == 2
    assert "is not" in told.output.splitlines()[-1]


@pytest.mark.parametrize(
    "words",
    [
        ("squeeze", "--model", ""),
        ("squeeze", "--model=", "--json"),
        ("squeeze", "--model", "cluster.data", "-S", ""),
        ("squeeze", "--model", "cluster.data", "-C", ""),
        ("squeeze", "--from", ""),
        ("balance", "plan", "--from", ""),
        ("balance", "explain", "17", "--from", ""),
    ],
)
def test_an_empty_option_value_is_refused(words: tuple[str, ...]) -> None:
    """A script with an unset variable must not get an answer about the site's own cluster."""
    done = CliRunner().invoke(gridbridge, words)

    assert (done.exit_code, done.stdout) == (2, "")
    assert "the value is empty" in done.stderr


MODEL = Path(__file__).parents[1] / "golden" / "hsqueeze-3.0.2"
SLOW = {"sqlalchemy", "alembic", "matplotlib", "paramiko", "rich", "tenacity", "asyncio"}
CONFIGURED = {"cattrs", "lxml", "tomllib"}
LOADED = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from gridbridge.cli.main import main
sys.argv = ["gridbridge", *sys.argv[1:]]
main()
"""


def loaded(*arguments: str) -> set[str]:
    """Run a command to its end; return the names of the loaded modules."""
    program = (sys.executable, "-I", "-c", LOADED, *arguments)
    ran = subprocess.run(program, capture_output=True, check=True, text=True)
    return {*ran.stderr.split()}


def test_squeezing_a_model_loads_no_configuration_or_state_module() -> None:
    model = next(path for path in sorted(MODEL.rglob("*.data")))

    found = loaded("squeeze", "--model", str(model))

    assert "gridbridge.elastic.balancer.ganeti_squeeze" in found
    assert not (SLOW | CONFIGURED) & found


@pytest.mark.parametrize(
    "command", ["squeeze", "balance plan", "check", "rebalance plan", "status", "why", "explain", "metrics"]
)
def test_help_loads_no_slow_module(command: str) -> None:
    found = loaded(*command.split(), "--help")

    assert "click" in found
    assert not SLOW & found
