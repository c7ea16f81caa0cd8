"""The published list of all campaigns, and what the last cycle looked at."""

from gridbridge.model.campaigns.reasons import ShownCycle
from gridbridge.model.campaigns.shown import ShownCampaigns
from gridbridge.model.places import PUBLISHED
from gridbridge.shell import files
from gridbridge.state import shown

NAME = "campaigns.json"
CYCLE = "campaign_cycle.json"


def put(campaigns: ShownCampaigns, folder: str = PUBLISHED) -> None:
    """Replace the list."""
    files.replace(f"{folder}/{NAME}", shown.encode(campaigns), durable=False)


def read(folder: str = PUBLISHED) -> ShownCampaigns | None:
    """Read the list; None where no campaign was ever taken in."""
    return shown.read(f"{folder}/{NAME}", ShownCampaigns)


def put_cycle(cycle: ShownCycle, folder: str = PUBLISHED) -> None:
    """Replace what is known of the last cycle."""
    files.replace(f"{folder}/{CYCLE}", shown.encode(cycle), durable=False)


def read_cycle(folder: str = PUBLISHED) -> ShownCycle | None:
    """Read what the last cycle looked at; None before the first."""
    return shown.read(f"{folder}/{CYCLE}", ShownCycle)
