"""Waits for the end of a campaign."""

import time
from collections.abc import Callable

from gridbridge.cli import output
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.shown import ShownCampaign
from gridbridge.model.places import PUBLISHED
from gridbridge.services.tools import campaign_tasks

PAUSE_S = 1.0
FAILED = 1


def wait(number: int, folder: str = PUBLISHED, pause: Callable[[float], None] = time.sleep) -> int:
    """Return 0 once all tasks have succeeded, and 1 when the campaign ended otherwise."""
    while True:
        found = campaign_tasks.find(number, folder)
        if found and not found.state.is_alive:
            return _told(found)
        pause(PAUSE_S)


def _told(one: ShownCampaign) -> int:
    failed = f", {one.failed} of them failed" if one.failed else ""
    told = f"campaign {one.number} is {one.state}: {one.ended} of {one.tasks} tasks ended{failed}"
    is_good = one.state is CampaignState.TERMINATED and not one.failed and one.ended == one.tasks
    if not is_good:
        output.complain(told)
    return 0 if is_good else FAILED
