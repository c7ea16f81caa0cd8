"""What is published of campaigns, a file for each kind: who reads it names the kind."""

from collections.abc import Mapping
from typing import TypeVar

from gridbridge.model.campaigns.events import ShownEvents
from gridbridge.model.campaigns.reasons import ShownCycle
from gridbridge.model.campaigns.shown import ShownCampaigns, ShownGrid
from gridbridge.model.places import PUBLISHED
from gridbridge.shell import files
from gridbridge.state import shown

NAMES: Mapping[type, str] = {
    ShownCampaigns: "campaigns.json",
    ShownCycle: "campaign_cycle.json",
    ShownEvents: "campaign-events.json",
    ShownGrid: "campaign-clusters.json",
}

T = TypeVar("T")


def put(value: object, folder: str = PUBLISHED) -> None:
    """Replace what is published of its kind."""
    files.replace(f"{folder}/{NAMES[type(value)]}", shown.encode(value), durable=False)


def read(kind: type[T], folder: str = PUBLISHED) -> T | None:
    """Read what is published of a kind; None where nothing of it ever was."""
    return shown.read(f"{folder}/{NAMES[kind]}", kind)
