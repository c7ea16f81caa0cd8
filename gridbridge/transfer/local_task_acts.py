"""Change tasks of the home cluster for the service: keep a task from starting, or let a task start."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gridbridge.batch.batch_adapter_table import local_restart_guard_of_home
from gridbridge.batch.configured_cluster_access_and_routes import configured_home_cluster_access
from gridbridge.decisions.transfer import refused_job_stay_home_request
from gridbridge.errors import ConfigError
from gridbridge.model.job_request import BALANCE, JobRequest, Variant
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction
from gridbridge.model.transfer_name import TransferAttemptId, parse_transfer_name
from gridbridge.model.transfer_route import AnyClusterAccessSettings, HomeClusterAccessSettings

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import LocalTaskRestartGuard

AT_ONCE = 100  # largest number of jobs in one query


class ReloadablePollerComponent:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def use_changed_configuration(self, policy: Policy) -> None:
        self.policy = policy


class LocalTaskActs(ReloadablePollerComponent):
    """Acts on tasks of the home cluster; each act is safe to repeat.

    An act raises CommandFailed if its command fails, and ConfigError if the site has no transfer queues.
    """

    @property
    def _transfer_queues(self) -> tuple[str, ...]:
        return tuple(self.policy.queues)

    def remove_task_start_guard(self, action: TransferAction) -> None:
        where, tasks = self._home_cluster_and_task_guard_adapter()
        tasks.remove_home_start_guard(where, _home_task_of_transfer(action.transfer), action.transfer.guard)

    def release_into_transfer_queue(self, action: TransferAction) -> None:
        """Let a local task start in its transfer queue only, so that a new starter continues the remote job."""
        transfer = action.transfer
        where, tasks = self._home_cluster_and_task_guard_adapter()
        tasks.pin_and_release_task(where, _home_task_of_transfer(transfer), transfer.queue, transfer.guard)

    def set_task_start_guard(self, action: TransferAction) -> None:
        """Keep a local task from starting, by a hold or a start time."""
        where, tasks = self._home_cluster_and_task_guard_adapter()
        tasks.set_home_start_guard(where, _home_task_of_transfer(action.transfer), action.transfer.guard)

    def restore_requested_queues(self, action: TransferAction) -> None:
        where, tasks = self._home_cluster_and_task_guard_adapter()
        tasks.restore_queue_list(where, _home_task_of_transfer(action.transfer))

    def query_local_job_requests(self, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
        """Return the requests of the given local jobs, without jobs that are gone."""
        where, tasks = self._home_cluster_and_task_guard_adapter()
        return tasks.query_job_requests(where, jobs)

    def jobs_excluded_from_moves(self, jobs: Collection[int]) -> frozenset[int]:
        """Return the jobs whose owners have forbidden moves to other clusters."""
        where, tasks = self._home_cluster_and_task_guard_adapter()
        ordered, pinned = sorted(jobs), set[int]()
        for start in range(0, len(ordered), AT_ONCE):
            requests = tasks.query_job_requests(where, tuple(ordered[start : start + AT_ONCE]))
            pinned |= {job for job, request in requests.items() if dict(request.context).get(BALANCE) == "no"}
        return frozenset(pinned)

    def query_deferred_jobs(self) -> frozenset[int]:
        """Return the jobs of all owners whose requested start time is still in the future."""
        where, tasks = self._home_cluster_and_task_guard_adapter()
        return tasks.query_deferred_jobs(where)

    def remove_guard_copied_by_qresub(self, job: int) -> None:
        """Remove the start time and queue list that qresub copied from a job whose task is at another cluster."""
        copy = TransferAttemptId(cluster=self.policy.site.cluster, job=job, task=0, attempt=0)
        where, tasks = self._home_cluster_and_task_guard_adapter()
        tasks.restore_queue_list(where, copy)
        tasks.remove_home_start_guard(where, copy, HomeStartGuard.START)

    def exclude_old_cluster_queues(self, transfer: Transfer) -> None:
        """Keep a job out of the queues to the cluster that it leaves; raise GridbridgeError if no queue remains."""
        where, tasks = self._home_cluster_and_task_guard_adapter()
        queues = self.policy.queues.items()
        remote_queues = {transfer.queue, *(name for name, to in queues if to.cluster == transfer.remote)}
        drop_queues = refused_job_stay_home_request.drop_transfer_queues_from_list
        other_queues = partial(drop_queues, transfer_queues=remote_queues)
        tasks.keep_job_off_queues(where, _home_task_of_transfer(transfer), other_queues)

    def restore_requested_queues_of_transfer(self, name: str) -> None:
        where, tasks = self._home_cluster_and_task_guard_adapter()
        tasks.restore_queue_list(where, parse_transfer_name(name))

    def require_home_queue(self, transfer: Transfer) -> None:
        """Raise GridbridgeError if no queue of the home cluster can run a transfer's job."""
        where, tasks = self._home_cluster_and_task_guard_adapter()
        tasks.require_runnable_at_home(where, _home_task_of_transfer(transfer), self._stay_home_variants_of_request)

    def query_rerun_policy(self, transfer: Transfer) -> str:
        """Return `yes` or `no`: whether a job without `qsub -r` runs again after its host failed."""
        where, tasks = self._home_cluster_and_task_guard_adapter()
        task = _home_task_of_transfer(transfer)
        return tasks.query_rerun_setting(where, task, self._transfer_queues, _rerun_policy_of_request_in_home_queues)

    def _home_cluster_and_task_guard_adapter(
        self,
    ) -> "tuple[HomeClusterAccessSettings, LocalTaskRestartGuard[AnyClusterAccessSettings]]":
        if self.policy.why_no_transfer_queues:
            raise ConfigError((self.policy.why_no_transfer_queues,))
        where = configured_home_cluster_access(self.policy, self.policy.site.cluster)
        return where, local_restart_guard_of_home(where)

    def _stay_home_variants_of_request(self, own: JobRequest) -> tuple[Variant, ...]:
        return refused_job_stay_home_request.stay_home_request_changes(own.hard, own.queues, self._transfer_queues)


def _home_task_of_transfer(transfer: Transfer) -> TransferAttemptId:
    return parse_transfer_name(transfer.name)


def _rerun_policy_of_request_in_home_queues(request: JobRequest, own: Mapping[str, str]) -> str:
    return refused_job_stay_home_request.rerun_policy_by_home_queues(request.hard, request.owner_requested_queues, own)
