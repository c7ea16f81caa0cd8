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
    while found := task_views.find(number, folder):
        if not found.state.is_alive:
            return _told(program, found)
        pause(PAUSE_S)
    output.complain(f"{program}: {GONE.format(number)}")
    return FAILED


def _told(program: str, one: ShownCampaign) -> int:
    bad = {"failed": one.failed, "were cancelled": one.cancelled}
    of_them = "".join(f", {tasks} of them {how}" for how, tasks in bad.items() if tasks)
    tasks = count(one.tasks, "task")
    told = f"campaign {one.number} is {one.state}: {one.ended} of {tasks} ended{of_them}"
    is_whole = one.state is CampaignState.TERMINATED and one.ended == one.tasks
    if not (is_good := is_whole and not one.failed and not one.cancelled):
        output.complain(f"{program}: {told}")
    return 0 if is_good else FAILED
