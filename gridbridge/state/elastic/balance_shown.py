"""The file in which the balancer shows everybody how its cluster is."""

from gridbridge.model.elastic.seeing import PublishedBalance
from gridbridge.model.places import BALANCE_PUBLISHED
from gridbridge.state import publishing, shown

NAME = "balance.json"


def put(value: PublishedBalance, folder: str = BALANCE_PUBLISHED) -> None:
    """Replace it, making its folder the first time; StateError when that can't be done."""
    publishing.put(f"{folder}/{NAME}", shown.encode(value))


def read(folder: str = BALANCE_PUBLISHED) -> PublishedBalance | None:
    """Return it; None where nothing was ever shown, StateError for what we did not write."""
    return shown.read(f"{folder}/{NAME}", PublishedBalance)
