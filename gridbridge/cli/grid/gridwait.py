"""gridwait: wait for the end of campaigns."""

import click

from gridbridge.cli.grid import relay, waiting
from gridbridge.cli.options import FOLDER, VERSION
from gridbridge.services.tools import campaigns


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
    campaigns.require_published(folder)
    return max([waiting.wait("gridwait", number, folder) for number in numbers])


def main() -> None:
    """Run it."""
    relay.run(gridwait, "gridwait")
