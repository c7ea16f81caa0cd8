"""The service's acts and queries about remote jobs."""

import os
from collections.abc import Callable, Mapping

from gridbridge.batch import load_submit_adapter, privileged_helper_calls
from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, cluster_status_reader
from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.decisions.transfer.remote_accounting_verdicts import home_verdict_from_accounting
from gridbridge.errors import OwnerAccountGone
from gridbridge.model.fixed_paths import NO_OWNER, PUBLISHED, SPOOL
from gridbridge.model.job import JobEnd
from gridbridge.model.policy import Policy
from gridbridge.model.transfer.transfer_round_plan import OrphanRemoteJob, TransferAction, TransferActKind
from gridbridge.model.transfer.transfer_row import Transfer
from gridbridge.model.transfer_message import (
    TransferFailureCause,
    TransferMessage,
    TransferOutcome,
    shorten_reason_for_storage,
)
from gridbridge.model.transfer_route import Away
from gridbridge.program import jobs_of_removed_accounts
from gridbridge.transfer.acts.claim_files import ClaimAndGrantFiles
from gridbridge.transfer.acts.local_tasks import LocalTaskActs
from gridbridge.transfer.acts.verdict_files import VerdictFilesAndStarterFifos


class RemoteJobActs:
    """The service's acts on the remote jobs of transfers."""

    def __init__(self, policy: Policy, tasks: LocalTaskActs) -> None:
        self._policy = policy
        self._tasks = tasks

    def follow(self, policy: Policy) -> None:
        """Apply a changed gridbridge.toml to later acts on remote jobs."""
        self._policy = policy

    def delete(self, action: TransferAction) -> None:
        """Delete the remote job as its owner; at an embedded site the service is the owner."""
        if self._policy.is_personal:
            _delete_own(configured_cluster_address(self._policy, action.transfer.remote), action.transfer)
            return
        try:
            _as_owner("delete", action.transfer)
        except OwnerAccountGone:
            self._delete_for_nobody(action.transfer)

    def _delete_for_nobody(self, transfer: Transfer) -> None:
        """Delete the remote job of an owner without an account.

        Raises OwnerlessJobNotDeleted if the cluster forbids this to the service.
        """
        job = str(transfer.remote_id or "")
        jobs_of_removed_accounts.delete_job_of_removed_account(
            self._policy, transfer.remote, transfer.owner, transfer.name, job
        )

    def give_up(self, action: TransferAction) -> TransferMessage:
        """Delete a remote job in error state; return the verdict with the job's own error."""
        transfer = action.transfer
        where = configured_cluster_address(self._policy, transfer.remote)
        details = cluster_status_reader(where).query_job_details(where, transfer.remote_id)
        reasons = [error for detail in details for error in detail.errors]
        self.delete(action)
        reason = shorten_reason_for_storage("; ".join((action.why, *reasons[:1])))
        return _error(transfer, TransferFailureCause.BLOCKED, reason)

    def look_up_end(self, action: TransferAction) -> TransferMessage | None:
        """Return a transfer's verdict from the remote accounting; None without a record."""
        transfer = action.transfer
        where = configured_cluster_address(self._policy, transfer.remote)
        end = cluster_status_reader(where).query_job_end(where, transfer.remote_id, transfer.name)
        return self.judge(end, transfer) if end else None

    def judge(self, end: JobEnd, transfer: Transfer) -> TransferMessage:
        """Return the verdict for a remote job's end; home decides on a lost job's rerun."""
        if end.is_unseen and not transfer.rerun:
            transfer = transfer.but(rerun=self._tasks.rerun(transfer))
        return home_verdict_from_accounting(transfer, end)

    def accounts(self, cluster: str, jobs: tuple[int, ...]) -> dict[int, str]:
        """Return the account of each given job that a remote cluster still has."""
        where = configured_cluster_address(self._policy, cluster)
        system = batch_adapter_of_cluster(where).tells_accounts
        return system.query_job_accounts(where, jobs) if system else {}

    def delete_orphan(self, orphan: OrphanRemoteJob) -> None:
        """Delete a held remote job without a transfer, as an operator instead of its owner."""
        where = configured_cluster_address(self._policy, orphan.cluster)
        if any(
            job.name == orphan.name and job.account == orphan.name
            for job in cluster_status_reader(where).query_job_details(where, orphan.job_id)
        ):
            load_submit_adapter(where).delete_job(where, str(orphan.job_id))

    def unstage(self, transfer: Transfer) -> None:
        """Remove a closed transfer's carried files from the remote cluster."""
        _as_owner("unstage", transfer)


def _as_owner(verb: str, transfer: Transfer) -> None:
    """Run a verb of gridbridge-as-user for a transfer's owner; CommandFailed on failure.

    Raises OwnerAccountGone without an account, RemoteJobNotOurs if the job's id is another job's by
    now.
    """
    result = privileged_helper_calls.run_gridbridge_as_user(verb, os.path.basename(transfer.record))
    if result.status == NO_OWNER:
        raise OwnerAccountGone(privileged_helper_calls.gridbridge_as_user_refusal(result))
    result.checked()


def _delete_own(where: Away, transfer: Transfer) -> None:
    """Delete a transfer's remote job as this user, if the job's account matches."""
    far, job = load_submit_adapter(where), str(transfer.remote_id)
    if far.query_owner_and_account(where, job)[1] == transfer.name:
        far.delete_job(where, job)


def untraceable_job_verdict(action: TransferAction) -> TransferMessage:
    """Return the verdict on a remote job that is neither listed nor accounted for."""
    transfer = action.transfer
    reason = f"{transfer.remote} has no trace of job {transfer.remote_id}"
    return _error(transfer, TransferFailureCause.VANISHED, reason)


def disputed_end_verdict(action: TransferAction) -> TransferMessage:
    """Return the verdict on a remote job whose accounting records have different ends."""
    transfer = action.transfer
    reason = f"two records of job {transfer.remote_id} at {transfer.remote} disagree on its end"
    return _error(transfer, TransferFailureCause.DISPUTED, reason)


def _error(transfer: Transfer, cause: str, reason: str) -> TransferMessage:
    return TransferMessage(transfer=transfer.name, outcome=TransferOutcome.ERROR, cause=cause, reason=reason)


class TransferActRunner:
    """Runs acts on transfers; an act that needs a cluster has a thread of its own."""

    def __init__(self, policy: Policy, folder: str = PUBLISHED, spool: str = SPOOL) -> None:
        self.verdicts = VerdictFilesAndStarterFifos(policy, folder, spool)
        self.claims = ClaimAndGrantFiles(policy, spool)
        self.tasks = LocalTaskActs(policy)
        self.remote = RemoteJobActs(policy, self.tasks)
        self._far: Mapping[TransferActKind, Callable[[TransferAction], TransferMessage | None]] = {
            TransferActKind.DELETE_REMOTE: self.remote.delete,
            TransferActKind.GIVE_UP: self.remote.give_up,
            TransferActKind.LOOK_UP_END: self.remote.look_up_end,
            TransferActKind.ADOPT_LOCAL: self.tasks.adopt,
            TransferActKind.GUARD_LOCAL: self.tasks.guard,
            TransferActKind.RELEASE_LOCAL: self.tasks.release,
            TransferActKind.UNPIN: self.tasks.unpin,
        }

    def follow(self, policy: Policy) -> None:
        """Apply a changed gridbridge.toml to later acts on transfers."""
        for subject in (self.verdicts, self.claims, self.tasks, self.remote):
            subject.follow(policy)

    def far(self, action: TransferAction) -> TransferMessage | None:
        """Run an act at a cluster; return a verdict if the act found the job's end."""
        return self._far[action.act](action)

    def judge(self, end: JobEnd, transfer: Transfer) -> TransferMessage:
        """Return the verdict for a remote job's end."""
        return self.remote.judge(end, transfer)
