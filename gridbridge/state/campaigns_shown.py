"""The published list of all campaigns."""

from gridbridge.model.campaigns.shown import ShownCampaigns
from gridbridge.model.places import PUBLISHED
from gridbridge.shell import files
from gridbridge.state import shown

NAME = "campaigns.json"


def put(campaigns: ShownCampaigns, folder: str = PUBLISHED) -> None:
    """Replace the list."""
    files.replace(f"{folder}/{NAME}", shown.encode(campaigns), durable=False)


def read(folder: str = PUBLISHED) -> ShownCampaigns | None:
    """Read the list; None where no campaign was ever taken in."""
    return shown.read(f"{folder}/{NAME}", ShownCampaigns)
