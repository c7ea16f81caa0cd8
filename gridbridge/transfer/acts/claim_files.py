"""Claims, files at the home cluster, and grants, files at remote clusters."""

from gridbridge.batch.clusters import reach_cluster
from gridbridge.model.places import SPOOL
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.claim import claim_file_name, claim_key_file
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.state.spool_reader import FolderScan
from gridbridge.transfer.acts import grants
from gridbridge.transfer.store import claim_folder


class ClaimFiles:
    """The files of claims and grants, which decide whether a remote job may run."""

    def __init__(self, policy: Policy, spool: str = SPOOL) -> None:
        self._policy = policy
        self._spool = spool
        self._names = FolderScan()

    @property
    def is_amid_sweep(self) -> bool:
        """Whether a sweep of the claims folder is unfinished and goes on in the next sweep."""
        return self._names.is_amid

    def follow(self, policy: Policy) -> None:
        """Apply a changed gridbridge.toml to later acts on claims."""
        self._policy = policy

    def take(self, transfer: Transfer) -> bool:
        """Take a claim file for the home cluster; False when the remote job has the claim."""
        return claim_folder.take_home_claim(
            claim_file_name(transfer.claim, transfer.uid), transfer.uid, self._spool
        )

    def remove(self, transfer: Transfer) -> None:
        """Remove a claim by file, its key first: a job can't take a claim without the key."""
        claim_folder.remove_claim(claim_key_file(transfer.claim, transfer.uid)[0], self._spool)
        claim_folder.remove_claim(claim_file_name(transfer.claim, transfer.uid), self._spool)

    def sweep(self, claimed: frozenset[str], now_s: float) -> None:
        """Remove the claim files of jobs without a known transfer."""
        claim_folder.sweep_claims(claimed, now_s, self._spool, self._names)

    def give_grants(self, cluster: str, transfers: tuple[Transfer, ...]) -> None:
        """Make the grants of transfers at a remote cluster; safe to repeat."""
        names = tuple(claim_file_name(transfer.claim, transfer.uid) for transfer in transfers)
        grants.create_remote_grants(reach_cluster(self._policy, cluster), names)

    def remove_grant(self, transfer: Transfer) -> None:
        """Remove the grant file of a remote job that is gone."""
        grants.remove_remote_grant(
            reach_cluster(self._policy, transfer.remote),
            claim_file_name(transfer.claim, transfer.uid),
        )
