"""The interface through which the runner submits, releases and deletes arrays."""

from typing import Protocol

from gridbridge.model.campaigns.campaign import Array, Attempt, LedgerArray, SentTask


class ArrayCommands(Protocol):
    """Commands on campaign arrays at clusters; each can safely be repeated.

    campaigns/acts/array_submission implements the protocol.
    """

    def send(
        self, arrays: tuple[tuple[Array, tuple[Attempt, ...]], ...], /
    ) -> tuple[SentTask, ...]:
        """Submit arrays of one campaign to one cluster, and release their tasks.

        Errors: ArrayRefused if the cluster will never accept an array, CampaignRefused if root will
        never accept it, AlreadySubmitted if root's ledger has other tasks under its number.
        """
        ...

    def release(self, array: Array, /) -> None:
        """Release the tasks of an array that is submitted on hold."""
        ...

    def delete(self, array: Array, /) -> int:
        """Delete an array at its cluster; return its job id, 0 if it was never submitted."""
        ...

    def delete_places(self, array: Array, indices: tuple[range, ...], /) -> None:
        """Delete the tasks at some indices of an array."""
        ...

    def end(self, campaign: int, /) -> None:
        """Close a campaign in root's ledger, so that root submits nothing more of it."""
        ...

    def ledger_arrays(self, campaign: int, /) -> tuple[LedgerArray, ...]:
        """Return the arrays that root's ledger lists for a campaign."""
        ...
