"""gridbridge plot: draws what is kept of queues, nodes and a campaign."""

from datetime import UTC, datetime, timedelta

import click

from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors, plot_files
from gridbridge.cli.command_groups_and_options import (
    CONFIG_FILE,
    FOLDER,
    FiniteNumberRange,
    FullSentenceCommandGroup,
    add_options_to_command,
)
from gridbridge.config import configuration_file
from gridbridge.errors import GridbridgeError
from gridbridge.shell.optional_libraries import require_library

OUT = click.option(
    "-o",
    "--out",
    "out",
    metavar="FILE",
    callback=plot_files.require_image_file_suffix,
    help="Write this picture: .png, .svg ...  [default: a name such as queues.png]",
)
HOURS = click.option(
    "--hours",
    type=FiniteNumberRange(min=0.01, max=8760),
    default=24.0,
    show_default=True,
    help="Draw so many hours until now, as far as they are kept.",
)


@click.group(cls=FullSentenceCommandGroup)
def plot() -> None:
    """Draw queues, nodes or a campaign over time.

    \b
    Example:
      gridbridge plot queues --hours 8
      gridbridge plot campaign 7 --out 7.svg
    """


@plot.command()
@add_options_to_command((OUT, HOURS, CONFIG_FILE))
def queues(out: str | None, hours: float, path: str) -> None:
    """Draw waiting tasks and free slots of each cluster, and transfers in progress.

    A line breaks where a cluster did not answer. `keep_closed_h` says how long the service keeps these numbers. For
    root and the service account. Exit status: 0 done; 2 an error.

    \b
    Example:
      gridbridge plot queues --hours 8
    """
    target = _writable_target(out, "queues.png")
    policy, now = configuration_file.load_configuration(path), datetime.now(UTC)
    since = now - timedelta(hours=hours)
    from gridbridge.site import site_history  # imported here, because SQLAlchemy takes a fifth of a second

    history = site_history.read_queue_history(policy, since, now)
    if not history.queries and not history.in_progress:
        raise GridbridgeError(f"nothing was recorded in the last {hours:g} h; expected a running gridbridge-poller")
    from gridbridge.site.cli import site_plots  # imported here, because matplotlib takes half a second

    site_plots.draw_queue_history(history, since, now, target)
    output_and_errors.print_line(target)


@plot.command()
@add_options_to_command((OUT, HOURS))
def nodes(out: str | None, hours: float) -> None:
    """Draw the balancer's nodes by state, from the rounds that acted.

    `keep_decisions_h` says how long the rounds are kept. `gridbridge balance plot` draws waiting tasks and loads. For
    root and gridbridge-admin, on the balancer's host. Exit status: 0 done; 2 an error.

    \b
    Example:
      gridbridge plot nodes --hours 168
    """
    target, now = _writable_target(out, "nodes.png"), datetime.now(UTC)
    since = now - timedelta(hours=hours)
    from gridbridge.site import site_history

    rounds = site_history.read_node_history(since)
    if not rounds:
        raise GridbridgeError(f"no round of gridbridge-balance acted in the last {hours:g} h; --hours draws more")
    from gridbridge.site.cli import site_plots

    site_plots.draw_node_history(rounds, now, target)
    output_and_errors.print_line(target)


@plot.command()
@click.argument("number", metavar="CAMPAIGN", type=click.IntRange(min=1))
@add_options_to_command((OUT, FOLDER))
def campaign(number: int, out: str | None, folder: str) -> None:
    """Draw when how many tasks of a campaign ended at each cluster, and the forecast of its end.

    Exit status: 0 done; 2 an error, such as an unknown campaign.

    \b
    Example:
      gridbridge plot campaign 7 --out 7.svg
    """
    target = _writable_target(out, f"campaign-{number}.png")
    campaign_client.require_published_files(folder)
    found = campaign_client.find_published_campaign(number, folder)
    if found is None:
        raise GridbridgeError(f"campaign {number}: no such campaign; `gridstat` lists campaigns")
    ends = campaign_client.task_end_times_and_clusters(found, folder)
    from gridbridge.site.cli import site_plots

    site_plots.draw_campaign_ends(found, ends, datetime.now(UTC), target)
    output_and_errors.print_line(target)


def _writable_target(out: str | None, usual: str) -> str:
    require_library("matplotlib")
    plot_files.require_writable_plot_path(out or usual)
    return out or usual
