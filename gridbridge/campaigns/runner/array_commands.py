"""What is done at the clusters for campaigns."""

from typing import Protocol

from gridbridge.model.campaigns.campaign import Array, Attempt, LedgerArray, SentTask


class ArrayCommands(Protocol):
    """What is done at the clusters (campaigns/acts/array_submission); each may be repeated."""

    def send(
        self, arrays: tuple[tuple[Array, tuple[Attempt, ...]], ...], /
    ) -> tuple[SentTask, ...]:
        """Submit arrays of a campaign to a cluster, and let their tasks start.

        The errors: ArrayRefused where their cluster, and CampaignRefused where root will never take
        them, and AlreadySubmitted when root's ledger has other tasks under a number.
        """
        ...

    def release(self, array: Array, /) -> None:
        """Let the tasks of an array start that is submitted already."""
        ...

    def delete(self, array: Array, /) -> int:
        """End all of its tasks; return its id there, 0 for one that was never submitted."""
        ...

    def delete_places(self, array: Array, indices: tuple[range, ...], /) -> None:
        """End the tasks at some places of it."""
        ...

    def end(self, campaign: int, /) -> None:
        """Have root send nothing more of a campaign."""
        ...

    def ledger_arrays(self, campaign: int, /) -> tuple[LedgerArray, ...]:
        """Return what root's ledger has of a campaign."""
        ...
