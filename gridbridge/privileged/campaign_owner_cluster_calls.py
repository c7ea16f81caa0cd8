"""Submits, releases and deletes a campaign's arrays at a cluster, as the campaign's owner."""

from gridbridge.batch import load_campaign_array_adapter
from gridbridge.batch.batch_submission_outcome import JobSubmissionOutcome
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.campaign_file_and_array_names import released_array_name
from gridbridge.model.campaigns.task_index_and_attempt_texts import (
    format_array_index_ranges,
    group_into_ranges,
    parse_array_index_ranges,
)
from gridbridge.model.fixed_paths import PUBLISHED
from gridbridge.model.job_request import JobSpec
from gridbridge.privileged.as_user_array_arguments import DELETE, DELETE_WAITING, AsUserArrayArguments
from gridbridge.privileged.as_user_refusals_and_user_switch import (
    JobNeverAcceptedByCluster,
    OwnerRequestNotYetPossible,
    require_owned_remote_job,
)
from gridbridge.state import published_file_formats

UNTAKEN = {
    JobSubmissionOutcome.LATER: OwnerRequestNotYetPossible,
    JobSubmissionOutcome.BARRED: OwnerRequestNotYetPossible,
    JobSubmissionOutcome.UNSURE: GridbridgeError,
}


class CampaignOwnerClusterCalls:
    """The access of a campaign's owner to a cluster; all requests share one connection."""

    def __init__(self, order: AsUserArrayArguments, person: str) -> None:
        self._order = order
        self._far, self._account = order.access_and_account_of_user(person)
        self._adapter = load_campaign_array_adapter(self._far)
        self._name = released_array_name(order.campaign)
        if self._far.login:
            from gridbridge.shell import ssh, ssh_session  # imported here, because local clusters need no ssh

            ssh.set_ssh_request_carrier(ssh_session.SshSessionsOfProgram())

    def find_held_array(self, name: str) -> str:
        """Return the job id of the held array submitted under a name; empty if none exists."""
        return self._adapter.find_held_job(self._far, name, self._account)

    def submit_held_array(self, spec: JobSpec) -> str:
        placed = choose_array_parallel_env(spec, self._order.cluster)
        answer = self._adapter.submit_held_job(self._far, keep_array_off_transfer_queues(placed, self._order.cluster))
        if answer.result != JobSubmissionOutcome.ACCEPTED:
            raise UNTAKEN.get(answer.result, JobNeverAcceptedByCluster)(answer.reason)
        return answer.remote_id

    def release_new_arrays(self, jobs: list[str]) -> None:
        self._adapter.release_arrays(self._far, tuple(jobs), self._name)

    def release_or_delete_array(self, name: str, job: str, is_repeated: bool) -> str:
        """Release or delete an array, and delete its duplicates.

        Returns, only for `delete-waiting`, the indices of tasks that had begun.
        """
        adapter, far, order = self._adapter, self._far, self._order
        if is_repeated:
            for duplicate in adapter.find_duplicate_arrays(far, name, self._account, job):
                adapter.delete_array(far, duplicate)
        is_ours = bool(job) and require_owned_remote_job(
            job, adapter.query_owner_and_account(far, job), (self._account, name)
        )
        if order.verb == DELETE_WAITING:
            if not is_ours:  # all tasks ended or were deleted
                raise GridbridgeError(f"job {job} does not exist any more: no task is deleted")
            return self._delete_waiting_tasks_of_array(name, job)
        if is_ours and order.verb != DELETE:
            adapter.release_arrays(far, (job,), self._name)
        elif is_ours and order.indices:
            adapter.delete_array_tasks(far, job, name, order.indices)
        elif is_ours:
            adapter.delete_array(far, job)
        return ""

    def _delete_waiting_tasks_of_array(self, name: str, job: str) -> str:
        """Hold an array's tasks, delete the tasks that still wait, and release the tasks that had begun."""
        adapter, far = self._adapter, self._far
        indices = {index for span in parse_array_index_ranges(self._order.indices) for index in span}
        held = adapter.hold_array_tasks(far, job, name, group_into_ranges(indices))
        waiting = {index for span in held for index in span}
        if begun := group_into_ranges(indices - waiting):
            adapter.release_array_tasks(far, job, begun)
        if going := group_into_ranges(indices & waiting):
            adapter.delete_array_tasks(far, job, name, format_array_index_ranges(going))
        return format_array_index_ranges(begun)


def choose_array_parallel_env(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Set an array's parallel environment; raise JobNeverAcceptedByCluster if none fits."""
    nodes, per_host = spec.request.groups[0] if spec.request.groups else (0, 0)
    if spec.pe or spec.slots == 1 or not nodes:
        return spec
    words = published_file_formats.read_offered_names(cluster, folder)
    if words is None:
        return spec
    from gridbridge.model import names_offered_by_cluster

    environment = names_offered_by_cluster.decode_offered_names(words).find_parallel_environment(nodes, per_host)
    if not environment:
        raise JobNeverAcceptedByCluster(names_offered_by_cluster.missing_parallel_env_reason(nodes, per_host))
    return spec if environment == names_offered_by_cluster.ANY else spec.with_changes(pe=environment)


def keep_array_off_transfer_queues(spec: JobSpec, cluster: str, folder: str = PUBLISHED) -> JobSpec:
    """Keep an array off transfer queues.

    Raises JobNeverAcceptedByCluster if each requested queue is a transfer queue or missing.
    """
    published = published_file_formats.read_non_forwarding_queues(cluster, folder)
    if not published:
        return spec
    from gridbridge.model import names_offered_by_cluster  # imported here, because few clusters need the module

    queues = names_offered_by_cluster.decode_non_forwarding_queues(published)
    request = queues.restrict_request_or_none(spec.request)
    if request is None:
        raise JobNeverAcceptedByCluster(f"queue {spec.request.targets} is a transfer queue or missing")
    return spec.with_changes(request=request)
