"""Lists the abilities of batch systems' adapters as Protocols (PEP 544), and all adapters.

Each adapter has a module `job_submission_and_control` for programs that start with each job, and `status` for services.
If the access settings have a `login`, client programs run over ssh as its user, who owns the jobs.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from gridbridge.batch.batch_submission_outcome import JobSubmissionResult
from gridbridge.batch.embedded import embedded_program_calls as embedded_client
from gridbridge.batch.embedded import embedded_task_guards as embedded_tasks
from gridbridge.batch.embedded import job_submission_and_control as embedded_submit
from gridbridge.batch.embedded import status as embedded_status
from gridbridge.batch.gridengine import blocked_job_reader as gridengine_crowd
from gridbridge.batch.gridengine import cell_demand_reader as gridengine_demand
from gridbridge.batch.gridengine import cell_object_queries, qconf_parser_and_edits, sge_command_line_builders
from gridbridge.batch.gridengine import execution_hosts as gridengine_tags
from gridbridge.batch.gridengine import home_start_guards as gridengine_tasks
from gridbridge.batch.gridengine import host_membership as gridengine_membership
from gridbridge.batch.gridengine import job_submission_and_control as gridengine_submit
from gridbridge.batch.gridengine import status as gridengine_status
from gridbridge.batch.gridengine import user_job_queries as gridengine_tools
from gridbridge.batch.oar import job_submission_and_control as oar_submit
from gridbridge.batch.oar import oar_command_line_builders, oar_demand_reader, oar_mapping_rules, oar_node_membership
from gridbridge.batch.oar import oar_node_power_and_tags as oar_nodes
from gridbridge.batch.oar import status as oar_status
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.job_and_queue_states import JobState
from gridbridge.model.job_request import JobRequest, JobSpec, Variant
from gridbridge.model.jobs_and_accounting import JobAccountAndErrors, JobEnd
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from gridbridge.model.site.site_check_facts import ClusterFacts
from gridbridge.model.site_configuration import ClusterKind
from gridbridge.model.transfer.request_mapping_rules import MappingRules
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection
from gridbridge.model.transfer_route import (
    AnyClusterAccessSettings,
    EmbeddedClusterAccessSettings,
    GridEngineCellAccessSettings,
    HomeClusterAccessSettings,
    OarServerAccessSettings,
)

if TYPE_CHECKING:
    from gridbridge.batch import optional_adapter_protocols as optional


AccessSettings = TypeVar("AccessSettings", contravariant=True)


class JobHoldControl(Protocol[AccessSettings]):
    """Holds jobs and queries their state; `job` is a job id, at home also a task such as `12.3`."""

    def hold_job(self, access: AccessSettings, job: str, /) -> None:
        """Hold a waiting job, or a running job at home, which continues but does not start again."""

    def release_job(self, access: AccessSettings, job: str, /) -> None:
        """Release a held job."""

    def query_job_state(self, access: AccessSettings, job: str, /) -> JobState:
        """Return a job's state; UNSEEN if the job does not exist."""


class HeldJobSubmissionAndLookup(Protocol[AccessSettings]):
    """Submits held jobs and arrays, and finds held jobs whose submission was not answered."""

    def submit_held_job(self, access: AccessSettings, spec: JobSpec, /) -> JobSubmissionResult:
        """Submit a held job; return failures, never raise.

        The job's name and account string are the transfer's name. `spec` is already translated for the remote
        cluster, and has the number of slots that were granted at home.
        """

    def find_held_job(self, access: AccessSettings, transfer: str, owner: str, /) -> str:
        """Return the id of a user's oldest job that has a transfer's name; empty if there is no such job."""

    def query_owner_and_account(self, access: AccessSettings, job: str, /) -> tuple[str, str]:
        """Return a job's owner and account string (qsub -A); both are empty if the job does not exist."""


class JobSubmissionAndControl(
    HeldJobSubmissionAndLookup[AccessSettings], JobHoldControl[AccessSettings], Protocol[AccessSettings]
):
    """Submits and controls jobs of the calling user.

    If the cluster does not obey, all methods but `submit_held_job` raise CommandFailed or ParseError.
    """

    HAS_QSTAT: bool

    def rename_and_release(self, access: AccessSettings, job: str, name: str, /) -> None:
        """Release a held job, and give the job its final name if the batch system can rename jobs."""

    def suspend_or_hold_job(self, access: AccessSettings, job: str, /) -> None:
        """Suspend a running job, or hold a waiting job; a missing job is no error."""

    def resume_or_release_job(self, access: AccessSettings, job: str, /) -> None:
        """Resume or release a job after `suspend_or_hold_job`; a missing job is no error."""

    def delete_job(self, access: AccessSettings, job: str, /) -> None:
        """Delete a job in any state; a missing job is no error."""


class CampaignArrayJobControl(HeldJobSubmissionAndLookup[AccessSettings], Protocol[AccessSettings]):
    def find_duplicate_arrays(self, access: AccessSettings, transfer: str, owner: str, array: str, /) -> list[str]:
        """Return the ids of a user's held arrays with the submission name `transfer`, except `array` itself."""

    def query_live_indices(self, access: AccessSettings, arrays: dict[str, str], /) -> dict[str, tuple[range, ...]]:
        """Return the indices of waiting and running tasks of the caller's arrays, by array id.

        `arrays` maps ids to submission names. A name is checked only if the owner alone can change it.
        """

    def release_arrays(self, access: AccessSettings, arrays: tuple[str, ...], name: str, /) -> None:
        """Release held arrays, and give the arrays their final name if the batch system can rename jobs."""

    def delete_array(self, access: AccessSettings, array: str, /) -> None:
        """Delete all tasks of an array, in any state; missing tasks are no error."""

    def delete_array_tasks(self, access: AccessSettings, array: str, name: str, indices: str, /) -> None:
        """Delete the array tasks with the given indices, such as `1-5,9`, in any state."""

    def hold_array_tasks(
        self, access: AccessSettings, array: str, name: str, indices: tuple[range, ...], /
    ) -> tuple[range, ...]:
        """Hold tasks of the array submitted as `name`, without stopping any; return the indices now held."""

    def release_array_tasks(self, access: AccessSettings, array: str, indices: tuple[range, ...], /) -> None:
        """Release held array tasks; running and missing tasks are ignored."""


class StarterHomeTaskControl(JobHoldControl[AccessSettings], Protocol[AccessSettings]):
    """Controls a local task for its starter; a cluster with transfer queues needs this module."""

    HAS_START_TIMES: bool  # whether a start time in the future can keep a job from restarting

    def defer_job_restart(self, access: AccessSettings, job: str, request: JobRequest, /) -> None:
        """Set a running job's start time far in the future, so that the job does not start again."""

    def restore_start_time(self, access: AccessSettings, job: str, /) -> str | None:
        """Restore the start time that `defer_job_restart` saved; return the saved text if it is no time."""

    def query_job_request(self, access: AccessSettings, job: str, /) -> JobRequest:
        """Return a job's request, with the submission time if the batch system reuses job ids."""

    def load_refused_job_marker(self) -> "RefusedJobMarker[AccessSettings]":
        """Load the module that keeps refused jobs at home."""

    def query_queue_limit(self, access: AccessSettings, queue: str, name: str, host: str, /) -> str:
        """Return the value of a queue's limit, such as h_rt, on a host (queue_conf(5))."""


class ClusterStatusReader(Protocol[AccessSettings]):
    """Queries a cluster's status; raises CommandFailed or ParseError if the answer is incomplete."""

    def query_cluster_snapshot(
        self,
        access: AccessSettings,
        cluster: str,
        job_ids: Collection[int],
        transfer_queues: Container[str] = (),
        uncounted: Collection[int] = (),
        /,
    ) -> tuple[ClusterSnapshot, float]:
        """Return a snapshot with the jobs in `job_ids`, and the query's duration in seconds.

        `uncounted` has the ids of campaigns' jobs and arrays, which don't count as pending.
        """

    def query_job_end(self, access: AccessSettings, job_id: int, account: str, /) -> JobEnd | None:
        """Return how the job with this id and account string (qsub -A) ended; None if unknown."""

    def query_requestable_names(self, access: AccessSettings, /) -> NamesOfferedByCluster | None:
        """Return the resource and queue names that jobs may request; None if only the cluster checks names."""

    def query_job_details(self, access: AccessSettings, job_id: int, /) -> tuple[JobAccountAndErrors, ...]:
        """Return a job's account string and error messages; empty if the job does not exist."""


class RefusedJobMarker(Protocol[AccessSettings]):
    REFUSED: str  # name of the context variable that says why remote clusters refused a job

    def keep_refused_job_home(
        self, access: AccessSettings, job: str, own: JobRequest, variants: Iterable[Variant], reason: str, /
    ) -> bool:
        """Keep a refused job at home, with the first request in `variants` that a local queue could run.

        If no local queue could run any variant, returns False and leaves the job unchanged. `own` is the job's present
        request.
        """


class WaitingRemoteJobRecaller(JobHoldControl[AccessSettings], Protocol[AccessSettings]):
    def hold_job(self, access: AccessSettings, job: str, gone_is_fine: bool = False) -> None:
        """Hold a waiting job."""

    def release_job(self, access: AccessSettings, job: str, gone_is_fine: bool = False) -> None:
        """Release a held job."""

    def delete_waiting_job(self, access: AccessSettings, job: str, /) -> bool | None:
        """Delete a job; return whether the job was waiting, or None if the job does not exist."""


ClusterAddress = TypeVar("ClusterAddress")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystemAdapter(Generic[ClusterAddress]):
    """The modules of a batch system's adapter; None stands for an ability that the system lacks."""

    submit: "JobSubmissionAndControl[ClusterAddress]"
    status: "ClusterStatusReader[ClusterAddress]"
    # returns facts of a cluster, or why the cluster does not answer; the float is the present time
    query_cluster_facts: Callable[[ClusterAddress, float], ClusterFacts]
    # returns why the batch system can't satisfy a request; empty if no reason is known
    explain_request_refusal: Callable[[JobRequest], str]
    build_submission_command: Callable[[ClusterAddress, JobSpec], tuple[str, ...]]
    at_home: "StarterHomeTaskControl[ClusterAddress] | None" = None
    guards_tasks: "optional.LocalTaskRestartGuard[ClusterAddress] | None" = None
    sets_up: "optional.RemoteClusterSetupReader[ClusterAddress] | None" = None
    recalls: "WaitingRemoteJobRecaller[ClusterAddress] | None" = None
    accounts: "optional.JobAccountingReader[ClusterAddress] | None" = None
    array_ends: "optional.CampaignArrayEndReader[ClusterAddress] | None" = None
    user_jobs: "optional.UserJobQueriesAndChanges[ClusterAddress] | None" = None
    makes_queues: "optional.TransferQueueSetupReader[ClusterAddress] | None" = None
    keeps_tags: "optional.HostTagStore[ClusterAddress] | None" = None
    shows_crowd: "optional.BlockedJobReader[ClusterAddress] | None" = None
    reads_demand: "optional.ClusterDemandReader[ClusterAddress] | None" = None
    changes_hosts: "optional.HostMembershipMaker[ClusterAddress] | None" = None
    # raises ConfigError if the batch system itself switches nodes, because only one program may do so
    require_power_control: Callable[[], None] | None = None
    # builds the command line of a program that runs on the transfer host and reports job ends
    end_watcher_argv: Callable[[ClusterAddress], tuple[str, ...]] | None = None
    # yields the ids of ended jobs over a permanent ssh connection; yields an empty list about once a second
    listen_for_job_ends: Callable[[ClusterAddress], Iterator[list[int]]] | None = None
    # returns {job id: account string} of the existing jobs; the account string shows whether a job id was reused
    query_job_accounts: Callable[[ClusterAddress, tuple[int, ...]], dict[int, str]] | None = None
    # returns each transfer queue's slots; None if `gridbridge setup`, not the cluster's owner, makes the queues
    list_transfer_queues: Callable[[ClusterAddress], dict[str, int]] | None = None
    shell_environment_line: Callable[[ClusterAddress], str] | None = None
    # adds to the mapping rules of a cluster and its transfer queue the rules that the batch system's requests need
    complete_mapping_rules: Callable[[str, MappingRules, TransferQueueSection | None], MappingRules] | None = None
    # raises GridbridgeError unless root's login to a REST interface is admitted as the address's account
    require_root_login: Callable[[ClusterAddress], None] | None = None
    shows_suspension: bool = False
    # whether the set of nodes is fixed; root or the batch system switches nodes off
    has_fixed_nodes: bool = False


GRIDENGINE: BatchSystemAdapter[GridEngineCellAccessSettings] = BatchSystemAdapter(
    submit=gridengine_submit,
    status=gridengine_status,
    query_cluster_facts=cell_object_queries.query_cluster_facts,
    explain_request_refusal=sge_command_line_builders.explain_request_refusal,
    build_submission_command=sge_command_line_builders.submit_held_job_argv,
    at_home=gridengine_submit,
    guards_tasks=gridengine_tasks,
    sets_up=cell_object_queries,
    recalls=gridengine_submit,
    accounts=gridengine_status,
    array_ends=gridengine_status,
    user_jobs=gridengine_tools,
    makes_queues=cell_object_queries,
    keeps_tags=gridengine_tags,
    shows_crowd=gridengine_crowd,
    end_watcher_argv=sge_command_line_builders.end_watcher_argv,
    query_job_accounts=gridengine_submit.query_job_accounts,
    reads_demand=gridengine_demand,
    changes_hosts=gridengine_membership,
    shell_environment_line=qconf_parser_and_edits.cell_environment_shell_line,
    shows_suspension=True,
)
OAR: BatchSystemAdapter[OarServerAccessSettings] = BatchSystemAdapter(
    submit=oar_submit,
    status=oar_status,
    query_cluster_facts=oar_status.query_cluster_facts,
    explain_request_refusal=oar_command_line_builders.explain_request_refusal,
    build_submission_command=oar_command_line_builders.oarsub_argv,
    sets_up=oar_status,
    array_ends=oar_status,
    keeps_tags=oar_nodes,
    listen_for_job_ends=oar_status.listen_for_job_ends,
    reads_demand=oar_demand_reader,
    changes_hosts=oar_node_membership,
    require_power_control=oar_node_membership.require_oar_energy_saving_off,
    complete_mapping_rules=oar_mapping_rules.complete_mapping_rules,
    require_root_login=oar_status.require_root_login,
    has_fixed_nodes=True,
)
EMBEDDED: BatchSystemAdapter[EmbeddedClusterAccessSettings] = BatchSystemAdapter(
    submit=embedded_submit,
    status=embedded_status,
    query_cluster_facts=embedded_status.query_cluster_facts,
    explain_request_refusal=embedded_client.explain_request_refusal,
    build_submission_command=embedded_client.submit_held_job_argv,
    at_home=embedded_submit,
    guards_tasks=embedded_tasks,
    array_ends=embedded_status,
    list_transfer_queues=embedded_status.list_transfer_queues,
)
ADAPTERS = cast(
    "Mapping[str, BatchSystemAdapter[AnyClusterAccessSettings]]",  # each adapter gets settings of its own kind
    {ClusterKind.GRIDENGINE: GRIDENGINE, ClusterKind.OAR: OAR, ClusterKind.EMBEDDED: EMBEDDED},
)


def batch_adapter_of_cluster(access: AnyClusterAccessSettings) -> BatchSystemAdapter[AnyClusterAccessSettings]:
    return ADAPTERS[access.kind]


def demand_reader_of_outputs(
    has_output: Callable[[str], bool],
) -> "optional.ClusterDemandReader[AnyClusterAccessSettings]":
    """Return the reader whose first output file exists, as `has_output` says; by default the first reader."""
    readers = [adapter.reads_demand for adapter in ADAPTERS.values() if adapter.reads_demand]
    return next((reader for reader in reversed(readers) if has_output(reader.OUTPUT_FILES[0])), readers[0])


def local_restart_guard_of_home(
    home: HomeClusterAccessSettings,
) -> "optional.LocalTaskRestartGuard[AnyClusterAccessSettings]":
    tasks = batch_adapter_of_cluster(home).guards_tasks
    assert tasks  # only OAR has no guards, and an OAR cluster can't be home
    return tasks


def cluster_status_reader(access: AnyClusterAccessSettings) -> "ClusterStatusReader[AnyClusterAccessSettings]":
    return batch_adapter_of_cluster(access).status
