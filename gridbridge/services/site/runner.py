"""Looks at what gridbridge-runner has published, for the check."""

from collections.abc import Iterator
from contextlib import suppress

from gridbridge.decisions.site import runner as decisions
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.reasons import ShownCycle
from gridbridge.model.campaigns.shown import ShownCampaigns
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.model.site.setup import CheckFinding
from gridbridge.shell.clock import Clock
from gridbridge.state import campaign_files, campaigns_shown


def findings(
    clock: Clock, folder: str = PUBLISHED, brought: str = CAMPAIGNS
) -> Iterator[CheckFinding]:
    """Judge whether a runner runs, where something waits for it; a paused campaign does not."""
    with suppress(OSError, GridbridgeError):
        shown = campaigns_shown.read(ShownCampaigns, folder)
        cycle = campaigns_shown.read(ShownCycle, folder)
        known = shown.campaigns if shown else ()
        going_on = sum(one.state is CampaignState.IN_TREATMENT for one in known)
        last = cycle.at if cycle else None
        yield from decisions.findings(going_on, _untaken(brought), last, clock.now())


def _untaken(folder: str) -> int:
    """Return how many files wait for a runner; none where we may not list them."""
    with suppress(OSError, GridbridgeError):
        return len(campaign_files.waiting(campaign_files.names(folder), folder))
    return 0
