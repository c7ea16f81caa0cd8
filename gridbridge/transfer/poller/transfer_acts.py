"""Do the service's acts on remote jobs: delete a job, look up a job's end, remove a job's files."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

from gridbridge.batch import load_submit_adapter, privileged_helper_calls
from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster, cluster_status_reader
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.decisions.transfer.remote_accounting_verdicts import home_verdict_from_accounting
from gridbridge.errors import (
    ConflictingRemoteJobEnds,
    GridbridgeError,
    OwnerAccountGone,
    RemoteJobNotOurs,
    describe_error,
)
from gridbridge.model.fixed_paths import NO_OWNER, PUBLISHED, SPOOL
from gridbridge.model.jobs_and_accounting import JobEnd
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.transfers_and_actions import (
    OrphanRemoteJob,
    Transfer,
    TransferAction,
    TransferActKind,
    TransferKey,
)
from gridbridge.model.transfer_messages_in_spool import (
    TransferFailureCause,
    TransferMessage,
    TransferOutcome,
    shorten_reason_for_storage,
)
from gridbridge.program import jobs_of_removed_accounts
from gridbridge.program.jobs_of_removed_accounts import OwnerlessJobNotDeleted
from gridbridge.program.threads_and_backoff import BackoffBySubject, OwnerThreadPools
from gridbridge.transfer.local_task_acts import LocalTaskActs, ReloadablePollerComponent
from gridbridge.transfer.poller.answers_to_starters import VerdictFilesAndStarterFifos
from gridbridge.transfer.poller.remote_job_claims import ClaimAndGrantFiles
from gridbridge.transfer.poller.remote_usage_records import RemoteUsageService


class RemoteJobActs(ReloadablePollerComponent):
    """Acts on the remote jobs of transfers; each act runs a command at the remote cluster."""

    def __init__(self, policy: Policy, tasks: LocalTaskActs) -> None:
        super().__init__(policy)
        self._tasks = tasks

    def delete_remote_job(self, action: TransferAction) -> None:
        """Delete a remote job as its owner, or as the service in a site of embedded clusters.

        Raises OwnerlessJobNotDeleted if the owner's account is gone, and the service may not delete the job.
        """
        transfer = action.transfer
        if self.policy.is_single_user_site:
            where, job = configured_cluster_access(self.policy, transfer.remote), str(transfer.remote_id)
            if load_submit_adapter(where).query_owner_and_account(where, job)[1] == transfer.name:
                load_submit_adapter(where).delete_job(where, job)
            return
        try:
            _run_helper_as_transfer_owner("delete", transfer)
        except OwnerAccountGone:
            jobs_of_removed_accounts.delete_job_of_removed_account(
                self.policy, transfer.remote, transfer.owner, transfer.name, str(transfer.remote_id or "")
            )

    def delete_job_in_error_state(self, action: TransferAction) -> TransferMessage:
        """Delete a remote job in error state; return a result with the cluster's error message."""
        transfer = action.transfer
        where = configured_cluster_access(self.policy, transfer.remote)
        details = cluster_status_reader(where).query_job_details(where, transfer.remote_id)
        reasons = [error for detail in details for error in detail.errors]
        self.delete_remote_job(action)
        reason = shorten_reason_for_storage("; ".join((action.why, *reasons[:1])))
        outcome, cause = TransferOutcome.ERROR, TransferFailureCause.BLOCKED
        return TransferMessage(transfer=transfer.name, outcome=outcome, cause=cause, reason=reason)

    def look_up_remote_job_end(self, action: TransferAction) -> TransferMessage | None:
        """Return a remote job's result from its accounting record."""
        transfer = action.transfer
        where = configured_cluster_access(self.policy, transfer.remote)
        end = cluster_status_reader(where).query_job_end(where, transfer.remote_id, transfer.name)
        return self.verdict_of_job_end(end, transfer) if end else None

    def verdict_of_job_end(self, end: JobEnd, transfer: Transfer) -> TransferMessage:
        """Return the result of an ended remote job; if its end is unknown, query whether the job may run again."""
        if end.is_end_unknown and not transfer.rerun:
            transfer = transfer.with_changes(rerun=self._tasks.query_rerun_policy(transfer))
        return home_verdict_from_accounting(transfer, end)

    def query_remote_job_accounts(self, cluster: str, jobs: tuple[int, ...]) -> dict[int, str]:
        """Return the account (qsub -A) of those `jobs` that a remote cluster still lists."""
        where = configured_cluster_access(self.policy, cluster)
        query_accounts = batch_adapter_of_cluster(where).query_job_accounts
        return query_accounts(where, jobs) if query_accounts else {}

    def delete_orphan_job(self, orphan: OrphanRemoteJob) -> None:
        """Delete a held remote job that belongs to no transfer, as an operator."""
        where = configured_cluster_access(self.policy, orphan.cluster)
        jobs = cluster_status_reader(where).query_job_details(where, orphan.job_id)
        if any(job.name == job.account == orphan.name for job in jobs):
            load_submit_adapter(where).delete_job(where, str(orphan.job_id))

    def remove_staged_files(self, transfer: Transfer) -> None:
        _run_helper_as_transfer_owner("unstage", transfer)


def _run_helper_as_transfer_owner(verb: str, transfer: Transfer) -> None:
    """Run gridbridge-as-user as the owner; raise CommandFailed, OwnerAccountGone or RemoteJobNotOurs."""
    result = privileged_helper_calls.run_gridbridge_as_user(verb, os.path.basename(transfer.record))
    if result.status == NO_OWNER:
        raise OwnerAccountGone(privileged_helper_calls.gridbridge_as_user_error_text(result))
    result.require_success()


class TransferActRunner:
    def __init__(self, policy: Policy, folder: str = PUBLISHED, spool: str = SPOOL) -> None:
        self.verdicts = VerdictFilesAndStarterFifos(policy, folder, spool)
        self.claims = ClaimAndGrantFiles(policy, spool)
        self.tasks = LocalTaskActs(policy)
        self.remote = RemoteJobActs(policy, self.tasks)
        self._cluster_acts: Mapping[TransferActKind, Callable[[TransferAction], TransferMessage | None]] = {
            TransferActKind.DELETE_REMOTE: self.remote.delete_remote_job,
            TransferActKind.GIVE_UP: self.remote.delete_job_in_error_state,
            TransferActKind.LOOK_UP_END: self.remote.look_up_remote_job_end,
            TransferActKind.ADOPT_LOCAL: self.tasks.release_into_transfer_queue,
            TransferActKind.GUARD_LOCAL: self.tasks.set_task_start_guard,
            TransferActKind.RELEASE_LOCAL: self.tasks.remove_task_start_guard,
            TransferActKind.UNPIN: self.tasks.restore_requested_queues,
        }

    def run_cluster_act(self, action: TransferAction) -> TransferMessage | None:
        """Run an act at a cluster; return the remote job's result if the act found the job's end."""
        return self._cluster_acts[action.act](action)


AGAIN_S = 2.0  # pause before the first retry of a failed act; each retry doubles the pause
LONGEST_S = 60.0

TransferActKey = tuple[TransferActKind, str, int]

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class TransferActDispatcher:
    """Starts acts in the threads of job owners, retries failed acts after pauses, and takes the results."""

    _acts: TransferActRunner
    _workers: OwnerThreadPools
    _usage_records: RemoteUsageService
    _clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._backoff = BackoffBySubject(self._clock)  # pauses between two look-ups of a job's end
        self._failing: dict[TransferActKey, BackoffBySubject] = {}
        self.disputed: set[TransferKey] = set()  # transfers whose accounting records show different ends
        self.not_ours: list[Transfer] = []  # transfers whose remote job id belongs to another job
        # transfers whose owner's account was removed, and why their remote job could not be deleted
        self.not_deleted: list[tuple[Transfer, str]] = []
        self.open: dict[TransferActKey, tuple[TransferAction, Future[TransferMessage | None]]] = {}

    def may_begin_act(self, action: TransferAction) -> bool:
        """Say whether an act may begin: no thread runs the act, and the pause after its last try is over."""
        name = _key_of_transfer_act(action)
        failing = self._failing.get(name)
        if name in self.open or (failing and not failing.may_try(name)):
            return False
        return action.act is not TransferActKind.LOOK_UP_END or self._backoff.may_try(action.transfer.transfer_key)

    def begin_act(self, action: TransferAction) -> None:
        """Start an act in a thread of the job's owner, unless the usage records already have the job's end."""
        self.open[_key_of_transfer_act(action)] = action, self._start_transfer_act(action)

    def take_finished_acts(self) -> Iterator[tuple[TransferAction, TransferMessage | None]]:
        """Yield each finished act with the remote job's result, if the act found one; log failed acts."""
        for name in [name for name, (_, future) in self.open.items() if future.done()]:
            action, future = self.open.pop(name)
            try:
                verdict = future.result()
            except ConflictingRemoteJobEnds as error:
                _log.warning("event=disputed_end name=%s why=%r", action.transfer.name, str(error))
                self.disputed.add(action.transfer.transfer_key)
                yield action, None
            except RemoteJobNotOurs as error:
                _log.warning("event=not_ours act=%s why=%r", action.act.value, shorten_reason_for_storage(str(error)))
                self.not_ours.append(action.transfer)
                self._pause_failed_transfer_act(name)
            except OwnerlessJobNotDeleted as error:
                self.not_deleted.append((action.transfer, str(error)))
                self._pause_failed_transfer_act(name)
            except (GridbridgeError, OSError) as error:
                why = shorten_reason_for_storage(describe_error(error))
                _log.warning("event=failed act=%s why=%r", action.act.value, why)
                self._pause_failed_transfer_act(name)
            except Exception:  # a fault in one act must not stop the round
                _log.exception("event=fault act=%s name=%s", action.act.value, action.transfer.name)
                self._pause_failed_transfer_act(name)
            else:
                self._failing.pop(name, None)
                yield action, verdict

    def forget_pauses_of_transfer(self, transfer: TransferKey) -> None:
        """Forget the pauses of a transfer's acts, so that its next act begins at once."""
        self.disputed.discard(transfer)
        self._backoff.forget_failed_tries(transfer)
        for act in TransferActKind:
            self._failing.pop((act, *transfer), None)

    def forget_all_pauses(self) -> None:
        """Forget the pauses of all failed acts, because a silent cluster answers again."""
        self._failing.clear()

    def _pause_failed_transfer_act(self, name: TransferActKey) -> None:
        """Make a failed act wait before its retry; a failed release of a local task is retried at once."""
        if name not in self._failing and name[0] is not TransferActKind.RELEASE_LOCAL:
            self._failing[name] = BackoffBySubject(self._clock, AGAIN_S, LONGEST_S)
            self._failing[name].may_try(name)

    def _start_transfer_act(self, action: TransferAction) -> "Future[TransferMessage | None]":
        is_sought = action.act is TransferActKind.LOOK_UP_END
        done: Future[TransferMessage | None] = Future()
        try:
            end = self._usage_records.find_job_end(action.transfer) if is_sought else None
        except ConflictingRemoteJobEnds as error:
            done.set_exception(error)
            return done
        if end is None and is_sought and self._usage_records.will_accounting_file_show_end(action.transfer):
            done.set_result(None)
            return done
        if end is None:
            return self._workers.run_call_in_thread(action.transfer.owner, self._acts.run_cluster_act, action)
        if end.is_end_unknown:
            judge = partial(self._acts.remote.verdict_of_job_end, end)
            return self._workers.run_call_in_thread(action.transfer.owner, judge, action.transfer)
        done.set_result(home_verdict_from_accounting(action.transfer, end))
        return done


def _key_of_transfer_act(action: TransferAction) -> TransferActKey:
    return (action.act, *action.transfer.transfer_key)
