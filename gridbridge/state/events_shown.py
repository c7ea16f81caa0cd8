"""The published lists of events, and of clusters as campaigns find them."""

from gridbridge.model.campaigns.events import ShownEvents
from gridbridge.model.campaigns.shown import ShownGrid
from gridbridge.model.places import PUBLISHED
from gridbridge.shell import files
from gridbridge.state import shown

EVENTS = "campaign-events.json"
CLUSTERS = "campaign-clusters.json"


def put(events: ShownEvents, folder: str = PUBLISHED) -> None:
    """Replace the list of events."""
    files.replace(f"{folder}/{EVENTS}", shown.encode(events), durable=False)


def read(folder: str = PUBLISHED) -> ShownEvents | None:
    """Read the list of events; None where no campaign was ever taken in."""
    return shown.read(f"{folder}/{EVENTS}", ShownEvents)


def put_clusters(grid: ShownGrid, folder: str = PUBLISHED) -> None:
    """Replace the list of clusters."""
    files.replace(f"{folder}/{CLUSTERS}", shown.encode(grid), durable=False)


def read_clusters(folder: str = PUBLISHED) -> ShownGrid | None:
    """Read the list of clusters; None before the first cycle."""
    return shown.read(f"{folder}/{CLUSTERS}", ShownGrid)
