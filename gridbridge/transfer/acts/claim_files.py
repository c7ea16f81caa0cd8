"""Claims that are files at home, and grants, which are files at other clusters."""

from gridbridge.batch.clusters import away
from gridbridge.model.places import SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.claim import key_of, name_of
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.state.spool_reader import FolderScan
from gridbridge.transfer.acts import grants
from gridbridge.transfer.store import claim_folder


class ClaimFiles:
    """The files that decide whether a remote job may run."""

    def __init__(self, policy: Policy, spool: str = SPOOL) -> None:
        self._policy = policy
        self._spool = spool
        self._names = FolderScan()

    @property
    def is_amid_sweep(self) -> bool:
        """Whether names are left for the next sweeps."""
        return self._names.is_amid

    def follow(self, policy: Policy) -> None:
        """Obey a changed configuration from now on."""
        self._policy = policy

    def take(self, transfer: Transfer) -> bool:
        """Take a claim that is a file, for home; False when the job has it."""
        return claim_folder.take(name_of(transfer.claim, transfer.uid), transfer.uid, self._spool)

    def remove(self, transfer: Transfer) -> None:
        """Remove a claim by file, its key first: a job without the key has no claim."""
        claim_folder.remove(key_of(transfer.claim, transfer.uid)[0], self._spool)
        claim_folder.remove(name_of(transfer.claim, transfer.uid), self._spool)

    def sweep(self, claimed: frozenset[str], now_s: float) -> None:
        """Remove the claims of jobs that no transfer knows."""
        claim_folder.sweep(claimed, now_s, self._spool, self._names)

    def give_grants(self, cluster: str, transfers: tuple[Transfer, ...]) -> None:
        """Make grants at another cluster; may be repeated."""
        names = tuple(name_of(transfer.claim, transfer.uid) for transfer in transfers)
        grants.give(away(self._policy, cluster), names)

    def remove_grant(self, transfer: Transfer) -> None:
        """Remove a grant of a job that is gone."""
        grants.remove(away(self._policy, transfer.remote), name_of(transfer.claim, transfer.uid))
