"""gridwait: waits for the end of campaigns."""

import time
from collections.abc import Callable

import click

from gridbridge.campaigns.cli import REFUSED, command_relay_and_runner_wait
from gridbridge.campaigns.store import campaign_client
from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import FOLDER, VERSION
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.published_campaigns_and_tasks import PublishedCampaign
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.shell.retry import poll_until


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("numbers", metavar="ID...", type=int, nargs=-1, required=True)
@FOLDER
@VERSION
def gridwait(numbers: tuple[int, ...], folder: str) -> int:
    """Wait until campaigns have ended; a paused campaign has not ended.

    Exit status: 0 if all tasks of the campaigns succeeded; 1 if not, or if a campaign does not exist or was purged; 2
    wrong usage, or the published files can't be read.

    \b
    Example:
      gridwait 12 && ./summarize
    """
    campaign_client.require_published_files(folder)
    return max([wait_for_campaign_end("gridwait", number, folder) for number in numbers])


def main() -> None:
    command_relay_and_runner_wait.run_here_or_on_transfer_host(gridwait, "gridwait")


PAUSE_S = 1.0
SHOWN_S = 5.0  # a newly submitted campaign is published within this time
GONE = "campaign {} no longer exists: it was purged, or the state file was restored from a backup"


def wait_for_campaign_end(program: str, number: int, folder: str, pause: Callable[[float], None] = time.sleep) -> int:
    """Wait for a campaign's end; return 0 if all tasks succeeded, or 1 after a message from `program`."""
    if not poll_until(lambda: campaign_client.find_published_campaign(number, folder) is not None, SHOWN_S):
        output_and_errors.print_error(f"{program}: no campaign {number}")
        return REFUSED
    while campaign := campaign_client.find_published_campaign(number, folder):
        if not campaign.state.is_alive:
            return _report_campaign_end(program, campaign)
        pause(PAUSE_S)
    output_and_errors.print_error(f"{program}: {GONE.format(number)}")
    return REFUSED


def _report_campaign_end(program: str, campaign: PublishedCampaign) -> int:
    bad = {"failed": campaign.failed, "were cancelled": campaign.cancelled}
    of_them = "".join(f", {tasks} of them {how}" for how, tasks in bad.items() if tasks)
    tasks = number_with_noun(campaign.tasks, "task")
    ended = f"{campaign.ended} of {tasks} ended{of_them}"
    message = f"campaign {campaign.number} is {campaign.state}: {ended}"
    is_whole = campaign.state is CampaignState.TERMINATED and campaign.ended == campaign.tasks
    if not (is_good := is_whole and not campaign.failed and not campaign.cancelled):
        output_and_errors.print_error(f"{program}: {message}")
    return 0 if is_good else REFUSED
