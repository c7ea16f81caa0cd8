"""gridwait: wait for the end of campaigns."""

import click

from gridbridge.cli import output
from gridbridge.cli.grid import REFUSED, onward, waiting
from gridbridge.cli.options import FOLDER
from gridbridge.services.tools import campaign_tasks, campaigns
from gridbridge.shell.retry import until

SHOWN_S = 5.0  # gridsub tells a number before the list shows it


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("numbers", metavar="ID...", type=int, nargs=-1, required=True)
@FOLDER
def gridwait(numbers: tuple[int, ...], folder: str) -> int:
    """Wait until campaigns have ended; a paused one has not.

    Exit status: 0 when all of their tasks succeeded; 1 when not, or there is no such campaign; 2
    usage.

    \b
    Example:
      gridwait 12 && ./summarize
    """
    campaigns.require_published(folder)
    return max([_wait(number, folder) for number in numbers])


def _wait(number: int, folder: str) -> int:
    if not until(lambda: campaign_tasks.find(number, folder) is not None, SHOWN_S):
        output.complain(f"gridwait: no campaign {number}")
        return REFUSED
    return waiting.wait(number, folder)


def main() -> None:
    """Run it."""
    onward.run(gridwait, "gridwait")
