"""gridbridge: the command of administrators and users."""

import logging

import click

from gridbridge import __version__
from gridbridge.cli import program
from gridbridge.cli.balance import balance
from gridbridge.cli.balancing.squeeze import squeeze
from gridbridge.cli.check import check
from gridbridge.cli.drain import drain, undrain
from gridbridge.cli.explain import explain
from gridbridge.cli.rebalance import rebalance
from gridbridge.cli.replay import replay
from gridbridge.cli.seeing.metrics import metrics
from gridbridge.cli.setup import setup
from gridbridge.cli.simulate import simulate
from gridbridge.cli.status import status
from gridbridge.cli.why import why


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gridbridge")
@click.option("--debug", is_flag=True, help="Show where an unexpected error came from.")
def gridbridge(debug: bool) -> None:
    """Let independently run clusters share work.

    Exit status of every command: 0 done, 1 what the command says, 2 an error, told on standard
    error in a line for each mistake, 130 interrupted, 141 its reader went away.

    \b
    Example:
      gridbridge check
    """
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING)


gridbridge.add_command(balance)
gridbridge.add_command(setup)
gridbridge.add_command(check)
gridbridge.add_command(status)
gridbridge.add_command(metrics)
gridbridge.add_command(why)
gridbridge.add_command(explain)
gridbridge.add_command(replay)
gridbridge.add_command(drain)
gridbridge.add_command(undrain)
gridbridge.add_command(simulate)
gridbridge.add_command(squeeze)
gridbridge.add_command(rebalance)


def main() -> None:
    """Run the command line; every error ends as lines and a documented exit status."""
    program.run(gridbridge, "gridbridge")
