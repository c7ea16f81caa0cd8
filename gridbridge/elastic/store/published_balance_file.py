"""The public file with the state of the balanced cluster."""

from gridbridge.model.elastic.published_balance import PublishedBalance
from gridbridge.model.places import BALANCE_PUBLISHED
from gridbridge.state import published_files, published_json

NAME = "balance.json"


def write_published_balance(value: PublishedBalance, folder: str = BALANCE_PUBLISHED) -> None:
    """Replace the published file, and create its folder; StateError when that fails."""
    published_files.publish_file(f"{folder}/{NAME}", published_json.encode_published_value(value))


def read_published_balance(folder: str = BALANCE_PUBLISHED) -> PublishedBalance | None:
    """Return the published balance; None before the first one, StateError for a foreign file."""
    return published_json.read_published_value(f"{folder}/{NAME}", PublishedBalance)
