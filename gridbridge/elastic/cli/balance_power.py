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
    help="Where oar-hooks/wake-up and sleep note what OAR wants.",
)
@click.option("--apply", "is_acting", is_flag=True, help="Switch them.")
@CONFIG_FILE
@JSON
def power(folder: str, is_acting: bool, path: str, is_json: bool) -> None:
    """Switch nodes of an OAR cluster on and off as OAR's energy saving wants it.

    OAR calls oar-hooks/wake-up and sleep, which note the names of nodes. This command, from cron
    on the OAR server, has each of them switched by its section [power.HOST] of gridbridge.toml. Of
    several wishes about a node the last one counts, and none that is older than an hour. What could
    not be done is tried again by the next call where that may help. Without --apply it says what it
    would do. Exit status: 0; 1 a node was not switched; 2 usage, or a wrong set-up; 3 another call
    switches nodes; 75 a node will be tried again.

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
