"""The file in which the balancer shows everybody how its cluster is."""

from gridbridge.model.elastic.published_balance import PublishedBalance
from gridbridge.model.places import BALANCE_PUBLISHED
from gridbridge.state import published_files, published_json

NAME = "balance.json"


def put(value: PublishedBalance, folder: str = BALANCE_PUBLISHED) -> None:
    """Replace it, making its folder the first time; StateError when that can't be done."""
    published_files.put(f"{folder}/{NAME}", published_json.encode(value))


def read(folder: str = BALANCE_PUBLISHED) -> PublishedBalance | None:
    """Return it; None where nothing was ever shown, StateError for what we did not write."""
    return published_json.read(f"{folder}/{NAME}", PublishedBalance)
