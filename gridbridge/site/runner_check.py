"""Looks at what gridbridge-runner has published, for the check."""

from collections.abc import Iterator
from contextlib import suppress

from gridbridge.campaigns.store import campaign_files, published_campaign_files
from gridbridge.decisions.site import runner_findings as decisions
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.published_campaigns import ShownCampaigns
from gridbridge.model.campaigns.send_reasons import ShownCycle
from gridbridge.model.places import CAMPAIGNS, PUBLISHED
from gridbridge.model.site.setup_findings import CheckFinding
from gridbridge.shell.clock import Clock


def findings(
    clock: Clock, folder: str = PUBLISHED, brought: str = CAMPAIGNS
) -> Iterator[CheckFinding]:
    """Judge whether a runner runs, where something waits for it; a paused campaign does not."""
    with suppress(OSError, GridbridgeError):
        shown = published_campaign_files.read(ShownCampaigns, folder)
        cycle = published_campaign_files.read(ShownCycle, folder)
        campaigns = shown.campaigns if shown else ()
        going_on = sum(campaign.state is CampaignState.IN_TREATMENT for campaign in campaigns)
        last = cycle.at if cycle else None
        yield from decisions.findings(going_on, _untaken(brought), last, clock.now())


def _untaken(folder: str) -> int:
    """Return how many files wait for a runner; none where we may not list them."""
    with suppress(OSError, GridbridgeError):
        return len(campaign_files.waiting(campaign_files.names(folder), folder))
    return 0
