"""gridwait: wait for the end of campaigns."""

import click

from gridbridge.campaigns.cli import login_node_relay, wait_for_end
from gridbridge.campaigns.tools import campaign_client
from gridbridge.cli.options import FOLDER, VERSION


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("numbers", metavar="ID...", type=int, nargs=-1, required=True)
@FOLDER
@VERSION
def gridwait(numbers: tuple[int, ...], folder: str) -> int:
    """Wait until campaigns have ended; a paused one has not.

    Exit status: 0 when all of their tasks succeeded; 1 when not, or there is no such campaign, or
    none any more, since it was purged; 2 usage, or what is published can't be read.

    \b
    Example:
      gridwait 12 && ./summarize
    """
    campaign_client.require_published(folder)
    return max([wait_for_end.wait("gridwait", number, folder) for number in numbers])


def main() -> None:
    """Run it."""
    login_node_relay.run(gridwait, "gridwait")
