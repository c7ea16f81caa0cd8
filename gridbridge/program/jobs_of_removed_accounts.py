"""As account gridbridge, an operator, deletes jobs of owners whose account no longer exists.

The cluster must list the job with the removed owner, and with its transfer or array as account.
"""

from collections.abc import Iterable

from gridbridge.batch import load_campaign_array_adapter, load_submit_adapter
from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.errors import GridbridgeError, OwnerAccountGone
from gridbridge.model.site_configuration import Policy


class OwnerlessJobNotDeleted(OwnerAccountGone):
    """Raised when a job of a removed account could not be deleted."""


def delete_job_of_removed_account(policy: Policy, cluster: str, owner: str, transfer: str, job: str) -> None:
    """Delete the remote job of a transfer, found by its id, or by its name if the id is unknown."""
    where = configured_cluster_access(policy, cluster)
    far, account = load_submit_adapter(where), policy.clusters[cluster].users.remote_account_of_user(owner)
    try:
        job = job or far.find_held_job(where, transfer, account)
        if job and far.query_owner_and_account(where, job) == (account, transfer):
            far.delete_job(where, job)
    except GridbridgeError as error:
        raise _job_not_deleted_error(policy, cluster, owner, job, error) from error


def delete_array_of_removed_account(policy: Policy, cluster: str, owner: str, name: str, ids: Iterable[int]) -> int:
    """Delete the jobs `ids` of an array and a held job with its name; return the array's job id, or 0."""
    where = configured_cluster_access(policy, cluster)
    far, account = load_campaign_array_adapter(where), policy.clusters[cluster].users.remote_account_of_user(owner)
    job_ids = [str(job) for job in ids if job]
    try:
        first = far.find_held_job(where, name, account)
        for job in dict.fromkeys((*job_ids, *filter(None, (first,)))):
            if far.query_owner_and_account(where, job) == (account, name):
                far.delete_array(where, job)
    except GridbridgeError as error:
        raise _job_not_deleted_error(policy, cluster, owner, name, error) from error
    return int(job_ids[0] if job_ids else first or 0)


def _job_not_deleted_error(
    policy: Policy, cluster: str, owner: str, job: str, error: GridbridgeError
) -> OwnerlessJobNotDeleted:
    account = policy.clusters[cluster].users.remote_account_of_user(policy.site.service_account)
    wrong = f"the account of {owner} is gone, and {account} can't delete {job} at {cluster}: {error}"
    sets_up = batch_adapter_of_cluster(configured_cluster_access(policy, cluster)).sets_up
    makes = f"make {account} an operator of {cluster}, or " if sets_up and sets_up.HAS_OPERATORS else ""
    return OwnerlessJobNotDeleted(f"{wrong}; {makes}delete the job as root")
