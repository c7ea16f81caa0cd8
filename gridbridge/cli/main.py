"""The command line `gridbridge` of administrators and users."""

import logging

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import LazyCommandGroup, version_option

MODULES = {
    "backup": "site.cli.backup_command",
    "balance": "elastic.cli.balance_commands",
    "check": "site.cli.check_command",
    "config": "site.cli.config_command",
    "data": "rebalance.cli.data_command",
    "drain": "site.cli.drain_command",
    "explain": "site.cli.explain_submission_command",
    "init": "site.cli.init_command",
    "install": "site.cli.install_command",
    "metrics": "site.cli.metrics_command",
    "page": "site.cli.page_command",
    "plot": "site.cli.plot_command",
    "rebalance": "rebalance.cli.rebalance_command",
    "replay": "site.cli.replay_command",
    "restore": "site.cli.backup_command",
    "setup": "site.cli.setup_command",
    "simulate": "elastic.cli.simulate_command",
    "squeeze": "elastic.cli.squeeze_command",
    "status": "site.cli.status_command",
    "support": "site.cli.support_command",
    "top": "site.cli.top_command",
    "undrain": "site.cli.drain_command",
    "why": "site.cli.why_command",
}


@click.group(cls=LazyCommandGroup, modules=MODULES, context_settings={"help_option_names": ["-h", "--help"]})
@version_option("gridbridge, version {version}")
@click.option("--debug", is_flag=True, help="Show where an unexpected error came from.")
def gridbridge(debug: bool) -> None:
    """Let independently run clusters share work.

    Exit status of every command: 0 success, 1 as the command's help says, 2 an error with a line
    on standard error for each mistake, 75 a cluster gave no complete answer and a retry may
    succeed, 130 interrupted, 141 the reader of the output went away. The help of some commands
    names further statuses.

    \b
    Example:
      gridbridge check
    """
    logging.basicConfig(level=logging.DEBUG if debug else logging.WARNING)


def main() -> None:
    """Run the command line; every error becomes lines on standard error and a documented exit status."""
    output_and_errors.run_command_reporting_errors(gridbridge, "gridbridge")
