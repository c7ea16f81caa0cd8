"""gridstat: campaigns, and how far they are."""

import click

from gridbridge.cli import output, program
from gridbridge.cli.options import FOLDER
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.shown import ShownCampaign
from gridbridge.services.tools import campaigns
from gridbridge.state.shown import plain

HEAD = "Campaign id Name                User             Submission time     S  Progress"
ROW = "{:<11d} {:<19} {:<16} {:<19} {} {:d}/{:d} ({:d}%)"
MOMENT = "%Y-%m-%d %H-%M-%S"  # as CiGri prints it
LETTERS = {
    CampaignState.CANCELLED: "C",
    CampaignState.IN_TREATMENT: "R",
    CampaignState.TERMINATED: "T",
    CampaignState.PAUSED: "P",
}
UNKNOWN = 1  # exit status


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("number", metavar="[ID]", type=int, required=False)
@click.option("-u", "user", metavar="USER", help="Of this user alone.")
@click.option("-H", "is_headless", is_flag=True, help="Without the first line.")
@click.option("-d", "--json", "is_json", is_flag=True, help="As JSON.")
@FOLDER
def gridstat(
    number: int | None, user: str | None, is_headless: bool, is_json: bool, folder: str
) -> int:
    """Show campaigns: every one, or the one of that id.

    Progress is of tasks that ended for good. The letters: R it runs, P paused, C cancelled, T
    terminated; e follows where events are open. Exit status: 0; 1 there is no such campaign; 2
    usage.

    \b
    Example:
      gridstat
      gridstat 12 --json
    """
    found = [one for one in campaigns.seen(folder) if number in (None, one.number)]
    found = [one for one in found if user in (None, one.owner)]
    if number is not None and not found:
        output.complain(f"gridstat: no campaign {number}")
        return UNKNOWN
    if is_json:
        output.as_json(plain(found))
        return 0
    if not is_headless:
        output.line(HEAD)
    for one in found:
        output.line(_row(one))
    return 0


def _row(one: ShownCampaign) -> str:
    """Write a line as CiGri does; long names are cut to their columns."""
    moment = one.submitted_at.astimezone().strftime(MOMENT)
    percent = 100 * one.ended // one.tasks if one.tasks else 100
    state = f"{LETTERS[one.state]} "
    return ROW.format(
        *(one.number, one.name[:19], one.owner[:16], moment, state, one.ended, one.tasks, percent)
    )


def main() -> None:
    """Run it."""
    program.run(gridstat, "gridstat")
