"""qdel_remote: delete both halves of jobs that are away, as their owner.

The local job is deleted, and the transfer's regular end deletes the remote job. If the remote job
were deleted first, the local job would end as killed, or wait for an accounting record,
which Grid Engine does not write for a job that never started.
"""

import os
import pwd
from collections.abc import Iterator

from gridbridge.batch import load_submit_adapter
from gridbridge.model.fixed_paths import CONFIG, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.published import PublishedTransfer
from gridbridge.model.transfer_name import parse_transfer_name
from gridbridge.program import users_configuration
from gridbridge.transfer.remote_tools.owner_remote_job_access import (
    RemoteJobActNotDone,
    RemoteJobActResult,
    RemoteJobGone,
    act_on_remote_tasks,
    act_on_transfers_remote_jobs,
    open_transfers_of_owner,
    reach_cluster_as_caller,
    require_own_remote_job,
)


def delete_transferred_tasks(
    job: str, *, is_dry: bool = False, folder: str = PUBLISHED, path: str = CONFIG
) -> Iterator[RemoteJobActResult]:
    """Delete the tasks of a job that are away; yield a result for each task.

    Raises ParseError for an invalid job id, ConfigError, and StateError without published
    files.
    """
    policy, _ = users_configuration.load_config_or_one_in_force(path)
    return act_on_remote_tasks(job, folder, f"qdel {job} deletes", lambda transfer: _delete(transfer, policy, is_dry))


def delete_owner_transferred_jobs(
    owner: str, *, is_dry: bool = False, folder: str = PUBLISHED, path: str = CONFIG
) -> Iterator[RemoteJobActResult]:
    """Delete all jobs of an owner that are away; yield a result for each job.

    Raises ConfigError, and StateError without published files.
    """
    policy, _ = users_configuration.load_config_or_one_in_force(path)
    transfers = open_transfers_of_owner(owner, folder)
    if not transfers:
        yield RemoteJobActResult(job="", is_done=False, text=f"no job of {owner} is away")
    yield from act_on_transfers_remote_jobs(transfers, lambda transfer: _delete(transfer, policy, is_dry))


def _delete(transfer: PublishedTransfer, policy: Policy, is_dry: bool) -> str:
    local, me = parse_transfer_name(transfer.transfer).local, pwd.getpwuid(os.getuid()).pw_name
    if transfer.owner != me:
        raise RemoteJobActNotDone(f"owned by {transfer.owner}, not by you; an operator uses qdel {local}")
    home = reach_cluster_as_caller(policy, policy.site.cluster)
    remote_half = (
        f"job {transfer.remote_id} at {transfer.remote}"
        if transfer.remote_id
        else f"its remote job at {transfer.remote}"
    )
    if load_submit_adapter(home).query_job_state(home, local).is_listed:
        if not is_dry:
            load_submit_adapter(home).delete_job(home, local)
        return f"job {local}: {'would be ' * is_dry}deleted at home, and {remote_half} with it"
    where = reach_cluster_as_caller(policy, transfer.remote)
    try:
        require_own_remote_job(where, transfer, me)
    except RemoteJobGone:
        return f"job {local}: gone, at home and at {transfer.remote}"
    if not is_dry:
        load_submit_adapter(where).delete_job(where, str(transfer.remote_id))
    return f"job {local}: gone at home; {remote_half} {'would be' if is_dry else 'is'} deleted"
