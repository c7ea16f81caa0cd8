"""Waits for the end of a campaign."""

import time
from collections.abc import Callable

from gridbridge.campaigns.tools import task_views
from gridbridge.cli import output
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.published_campaigns import ShownCampaign
from gridbridge.model.places import PUBLISHED
from gridbridge.model.status_report import count
from gridbridge.shell.retry import until

PAUSE_S = 1.0
SHOWN_S = 5.0  # gridsub tells a number before the list shows it
GONE = "campaign {} is there no more: it was purged, or the service's state file is an older one"
FAILED = 1


def wait(
    program: str,
    number: int,
    folder: str = PUBLISHED,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Return 0 once all tasks have succeeded, and 1 when the campaign ended otherwise.

    Also where there is none, or none any more. What is told begins with the program's name.
    """
    if not until(lambda: task_views.find(number, folder) is not None, SHOWN_S):
        output.complain(f"{program}: no campaign {number}")
        return FAILED
    while campaign := task_views.find(number, folder):
        if not campaign.state.is_alive:
            return _report_end(program, campaign)
        pause(PAUSE_S)
    output.complain(f"{program}: {GONE.format(number)}")
    return FAILED


def _report_end(program: str, campaign: ShownCampaign) -> int:
    bad = {"failed": campaign.failed, "were cancelled": campaign.cancelled}
    of_them = "".join(f", {tasks} of them {how}" for how, tasks in bad.items() if tasks)
    tasks = count(campaign.tasks, "task")
    ended = f"{campaign.ended} of {tasks} ended{of_them}"
    message = f"campaign {campaign.number} is {campaign.state}: {ended}"
    is_whole = campaign.state is CampaignState.TERMINATED and campaign.ended == campaign.tasks
    if not (is_good := is_whole and not campaign.failed and not campaign.cancelled):
        output.complain(f"{program}: {message}")
    return 0 if is_good else FAILED
