"""The command `gridbridge balance power`, which switches OAR's nodes as OAR's energy saving requests."""

from datetime import UTC, datetime

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, EXIT_NO_ANSWER, JSON
from gridbridge.elastic.balancer import oar_power_requests
from gridbridge.model.fixed_paths import BALANCE_WISHES
from gridbridge.program import configuration_in_force

FAILED = 1


@click.command()
@click.option(
    "--folder",
    metavar="FOLDER",
    default=BALANCE_WISHES,
    show_default=True,
    envvar="GRIDBRIDGE_POWER",
    help="The folder in which oar-hooks/wake-up and sleep record OAR's requests.",
)
@click.option("--apply", "is_acting", is_flag=True, help="Switch the nodes.")
@CONFIG_FILE
@JSON
def power(folder: str, is_acting: bool, path: str, is_json: bool) -> None:
    """Switch nodes of an OAR cluster on and off as OAR's energy saving requests.

    OAR calls oar-hooks/wake-up and sleep, which record the names of nodes. This command, run by cron
    on the OAR server, switches each recorded node as section [power.HOST] of gridbridge.toml says.
    The last request for a node counts; requests older than an hour are ignored. The next call
    retries failed requests that may succeed later. Without --apply the command only shows the
    requests. Exit status: 0; 1 a node was not switched; 2 wrong usage or set-up; 3 another call
    switches nodes; 75 the next call retries a node.

    \b
    Example:
      gridbridge balance power
      gridbridge balance power --apply
    """
    policy = configuration_in_force.load_config_with_home_cluster(path)
    outcomes = oar_power_requests.apply_oar_power_requests(policy, folder, datetime.now(UTC), is_acting=is_acting)
    if is_json:
        output_and_errors.print_json(
            [{"host": outcome.host, "wish": outcome.wish.value, "why": outcome.why or None} for outcome in outcomes]
        )
    else:
        for outcome in outcomes:
            failure = f", not done: {outcome.why}" if outcome.why else ""
            output_and_errors.print_line(f"{outcome.host}: {outcome.wish.value}{failure}")
    if any(outcome.is_later for outcome in outcomes):
        raise SystemExit(EXIT_NO_ANSWER)
    if any(outcome.why for outcome in outcomes):
        raise SystemExit(FAILED)
