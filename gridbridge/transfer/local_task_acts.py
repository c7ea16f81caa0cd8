"""Change tasks of the home cluster for the service: keep a task from starting, or let a task start."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gridbridge.batch.batch_adapter_table import local_task_guard_of_home
from gridbridge.batch.configured_cluster_addresses import configured_home_address
from gridbridge.decisions.transfer import refused_job_stay_home_request
from gridbridge.errors import ConfigError
from gridbridge.model.job_request import BALANCE, JobRequest, Variant
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer.claim_and_guard import HomeStartGuard
from gridbridge.model.transfer.transfers_and_actions import Transfer, TransferAction
from gridbridge.model.transfer_name import TransferAttemptId, parse_transfer_name
from gridbridge.model.transfer_route import Away, Home

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import LocalTaskGuard

AT_ONCE = 100  # largest number of jobs in one query


class ReloadablePollerComponent:
    """A component of the poller that goes on with a changed configuration."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def follow(self, policy: Policy) -> None:
        """Use a changed configuration."""
        self.policy = policy


class LocalTaskActs(ReloadablePollerComponent):
    """Acts on tasks of the home cluster; each act is safe to repeat.

    A failed act raises CommandFailed, or ConfigError in a site that can't have transfer queues.
    """

    @property
    def _queues(self) -> tuple[str, ...]:
        return tuple(self.policy.queues)

    def release(self, action: TransferAction) -> None:
        """Remove the hold or start time that keeps a local task from starting."""
        where, tasks = self._home()
        tasks.remove_task_guard(where, _parse_home_task(action.transfer), action.transfer.guard)

    def adopt(self, action: TransferAction) -> None:
        """Let a local task start in its transfer queue only, so that a new starter continues the remote job."""
        transfer = action.transfer
        where, tasks = self._home()
        tasks.release_into_queue(where, _parse_home_task(transfer), transfer.queue, transfer.guard)

    def guard(self, action: TransferAction) -> None:
        """Keep a local task from starting, by a hold or a start time."""
        where, tasks = self._home()
        tasks.set_task_guard(where, _parse_home_task(action.transfer), action.transfer.guard)

    def unpin(self, action: TransferAction) -> None:
        """Let a job start in all queues that its owner requested."""
        where, tasks = self._home()
        tasks.restore_queue_list(where, _parse_home_task(action.transfer))

    def requests(self, jobs: tuple[int, ...]) -> dict[int, JobRequest]:
        """Return the requests of the given local jobs, without jobs that are gone."""
        where, tasks = self._home()
        return tasks.query_job_requests(where, jobs)

    def kept_where_they_are(self, jobs: Collection[int]) -> frozenset[int]:
        """Return the jobs that their owners exclude from moves to other clusters."""
        where, tasks = self._home()
        ordered, pinned = sorted(jobs), set[int]()
        for start in range(0, len(ordered), AT_ONCE):
            requests = tasks.query_job_requests(where, tuple(ordered[start : start + AT_ONCE]))
            pinned |= {job for job, request in requests.items() if dict(request.context).get(BALANCE) == "no"}
        return frozenset(pinned)

    def deferred(self) -> frozenset[int]:
        """Return the jobs, of all owners, whose start time has not come."""
        where, tasks = self._home()
        return tasks.query_deferred_jobs(where)

    def free_copy(self, job: int) -> None:
        """Remove the start time and the queue list that qresub copied from a job that is away."""
        copy = TransferAttemptId(cluster=self.policy.site.cluster, job=job, task=0, attempt=0)
        where, tasks = self._home()
        tasks.restore_queue_list(where, copy)
        tasks.remove_task_guard(where, copy, HomeStartGuard.START)

    def keep_off(self, transfer: Transfer) -> None:
        """Exclude a local job from the queues to the cluster that its task leaves.

        `unpin` restores the queue list that the job's owner requested. Raises GridbridgeError if no other queue fits.
        """
        where, tasks = self._home()
        queues = self.policy.queues.items()
        remote_queues = {transfer.queue, *(name for name, to in queues if to.cluster == transfer.remote)}
        other_queues = partial(
            refused_job_stay_home_request.drop_transfer_queues_from_list, transfer_queues=remote_queues
        )
        tasks.keep_job_off_queues(where, _parse_home_task(transfer), other_queues)

    def give_queues_back(self, name: str) -> None:
        """Let the job of a transfer start in all queues that its owner requested."""
        where, tasks = self._home()
        tasks.restore_queue_list(where, parse_transfer_name(name))

    def check(self, transfer: Transfer) -> None:
        """Raise GridbridgeError if no queue of the home cluster can run a transfer's job."""
        where, tasks = self._home()
        tasks.require_runnable_variant(where, _parse_home_task(transfer), self._variants)

    def rerun(self, transfer: Transfer) -> str:
        """Return yes or no: whether a job without `qsub -r` runs again after its host failed."""
        where, tasks = self._home()
        return tasks.query_job_rerun(where, _parse_home_task(transfer), self._queues, _rerun_of_request_by_queues)

    def _home(self) -> "tuple[Home, LocalTaskGuard[Away]]":
        if self.policy.why_no_queues:
            raise ConfigError((self.policy.why_no_queues,))
        where = configured_home_address(self.policy, self.policy.site.cluster)
        return where, local_task_guard_of_home(where)

    def _variants(self, own: JobRequest) -> tuple[Variant, ...]:
        return refused_job_stay_home_request.stay_home_request_changes(own.hard, own.queues, self._queues)


def _parse_home_task(transfer: Transfer) -> TransferAttemptId:
    return parse_transfer_name(transfer.name)


def _rerun_of_request_by_queues(request: JobRequest, own: Mapping[str, str]) -> str:
    return refused_job_stay_home_request.rerun_policy_by_home_queues(request.hard, request.own_queues, own)
