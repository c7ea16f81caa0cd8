"""Write and read the published JSON files about campaigns, one file for each class."""

from collections.abc import Mapping
from typing import TypeVar

from gridbridge.model.campaigns.campaign_events import ShownCampaignEvents
from gridbridge.model.campaigns.published_campaigns import ShownCampaigns, ShownGrid
from gridbridge.model.campaigns.send_reasons import ShownSendReasons
from gridbridge.model.places import PUBLISHED
from gridbridge.shell import files
from gridbridge.state import published_json

NAMES: Mapping[type, str] = {
    ShownCampaigns: "campaigns.json",
    ShownSendReasons: "campaign_cycle.json",
    ShownCampaignEvents: "campaign-events.json",
    ShownGrid: "campaign-clusters.json",
}

T = TypeVar("T")


def publish_campaign_value(value: object, folder: str = PUBLISHED) -> None:
    """Publish a value in the file of its class."""
    files.replace_file(
        f"{folder}/{NAMES[type(value)]}",
        published_json.encode_published_value(value),
        durable=False,
    )


def read_published_campaign_value(kind: type[T], folder: str = PUBLISHED) -> T | None:
    """Read the published value of a class; None if no such file exists."""
    return published_json.read_published_value(f"{folder}/{NAMES[kind]}", kind)
