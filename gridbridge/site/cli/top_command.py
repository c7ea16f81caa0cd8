"""gridbridge top: shows clusters, transferred jobs and campaigns live on a terminal."""

import sys

import click

from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FOLDER, FiniteNumberRange
from gridbridge.model.site.site_picture import PictureChoice

SHORTEST_S, LONGEST_S = 0.5, 3600.0


@click.command()
@click.option("-u", "--user", "user", metavar="USER", default="", help="Show rows of USER, a name or pattern like a*.")
@click.option("--cluster", metavar="NAME", default="", help="Show rows that concern this cluster.")
@click.option("--campaign", metavar="ID", type=click.IntRange(1), help="Show this campaign and no other.")
@click.option(
    *("-d", "--delay", "delay_s"),
    metavar="SECONDS",
    type=FiniteNumberRange(SHORTEST_S, LONGEST_S),
    default=2.0,
    show_default=True,
    help="Read the published files this often.",
)
@FOLDER
@CONFIG_FILE
def top(user: str, cluster: str, campaign: int | None, delay_s: float, folder: str, path: str) -> None:
    """Show clusters, transferred jobs and campaigns live.

    Bars show the slots of each cluster. Tab changes between jobs, campaigns and clusters, and Enter explains the
    selected row. Keys are those of htop: F1 help, F3 search, F4 filter, F6 sort column, u user, q quit. If the
    service stops or its files can't be read, the last picture stays with its age.
    Exit status: 0, 2 without a terminal.

    \b
    Example:
      gridbridge top
      gridbridge top -u alice --cluster beta
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("standard input and output: no terminal; gridbridge status prints the tables once")
    from gridbridge.site.cli.top_screen import TopScreen  # this import takes half a second

    TopScreen(PictureChoice(user=user, cluster=cluster, campaign=campaign), delay_s, folder, path).run()
