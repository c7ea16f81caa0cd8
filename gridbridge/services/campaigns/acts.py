"""What is done at the clusters for campaigns."""

from typing import Protocol

from gridbridge.model.campaigns.campaign import Array, Attempt, Noted


class Acts(Protocol):
    """What is done at the clusters (apply/campaigns/arrays); each may be repeated."""

    def submit(self, array: Array, attempts: tuple[Attempt, ...], /) -> int:
        """Submit an array held; return its id.

        Raises ArrayRefused where its cluster, and CampaignRefused where root will never take it,
        and AlreadySubmitted when root's ledger has other tasks under its number.
        """
        ...

    def release(self, array: Array, /) -> None:
        """Let its tasks start."""
        ...

    def delete(self, array: Array, /) -> None:
        """End all of its tasks."""
        ...

    def delete_places(self, array: Array, places: tuple[range, ...], /) -> None:
        """End the tasks at some places of it."""
        ...

    def noted(self, campaign: int, /) -> tuple[Noted, ...]:
        """Return what root's ledger has of a campaign."""
        ...
