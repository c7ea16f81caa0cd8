"""The abilities of batch systems, as Protocols that the adapters' modules fulfil (PEP 544).

An adapter is two modules: `submit` has the calls of the hot programs, `status` the service's queries. This file
has the abilities of every system and the optional ones that hot programs need; optional_adapter_protocols has
the other abilities. Both files contain only annotations for mypy.

`Where` is the value by which an adapter reaches a cluster: a GridEngineCellAccess, an OarServerAccess, or an
EmbeddedClusterAccess. If it has a `login`, the clients run by ssh as another account, which then owns the jobs;
nothing else differs (shell/ssh.py).

The systems differ, so these properties are not promised:

* Job names can be changed. OAR can't: a job keeps the transfer's name, which is also its account,
  and is found by that name until its release.
* Running jobs can be held. OAR's `oarhold` holds only waiting jobs; `oarhold -r` suspends a running
  job but gives its resources to other jobs. So `suspend_or_hold_job` is one call.
* Jobs deleted before their start are accounted. Grid Engine and OAR do not account them.
* Usage is accounted. OAR records only how long a job ran.
* Jobs that can't be started wait in error state. In OAR such a job ends with a reason.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

from gridbridge.batch.batch_submission_outcome import JobSubmissionResult
from gridbridge.batch.embedded import site as embedded_site
from gridbridge.batch.embedded import status as embedded_status
from gridbridge.batch.embedded import submit as embedded_submit
from gridbridge.batch.embedded import tasks as embedded_tasks
from gridbridge.batch.gridengine import blocked_job_reader as gridengine_crowd
from gridbridge.batch.gridengine import cell_demand_reader as gridengine_demand
from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine import execution_hosts as gridengine_tags
from gridbridge.batch.gridengine import site as gridengine_site
from gridbridge.batch.gridengine import status as gridengine_status
from gridbridge.batch.gridengine import submit as gridengine_submit
from gridbridge.batch.gridengine import tasks as gridengine_tasks
from gridbridge.batch.gridengine import user_job_queries as gridengine_tools
from gridbridge.batch.oar import oar_demand
from gridbridge.batch.oar import oar_node_power_and_tags as oar_nodes
from gridbridge.batch.oar import site as oar_site
from gridbridge.batch.oar import status as oar_status
from gridbridge.batch.oar import submit as oar_submit
from gridbridge.model.cluster_snapshot import ClusterSnapshot
from gridbridge.model.job_request import JobRequest, JobSpec, Variant
from gridbridge.model.jobs_and_accounting import JobAccountAndErrors, JobEnd
from gridbridge.model.names_offered_by_cluster import NamesOfferedByCluster
from gridbridge.model.policy import ClusterKind
from gridbridge.model.states import JobState
from gridbridge.model.transfer_route import Away, EmbeddedClusterAccess, GridEngineCellAccess, Home, OarServerAccess

if TYPE_CHECKING:
    from gridbridge.batch.optional_adapter_protocols import (
        BlockedJobReader,
        CampaignArrayEndReader,
        ClusterCheckFactsReader,
        ClusterDemandReader,
        HostTagStore,
        JobAccountingReader,
        JobAccountReader,
        JobEndWatcher,
        JobSubmissionExplainer,
        LocalTaskGuard,
        SshJobEndStream,
        TransferQueueLister,
        TransferQueueMaker,
        TransferRemoteClusterSetup,
        UserJobAlterer,
        UserJobRequestReader,
    )


Where = TypeVar("Where", contravariant=True)


class JobSubmissionAndControl(Protocol[Where]):
    """Submits and controls jobs of the calling user; hot programs load it.

    All calls but `submit_held_job` raise CommandFailed or ParseError if the cluster did not perform
    or answer the request.
    """

    HAS_QSTAT: bool  # whether Grid Engine's commands work inside the cluster's jobs

    def submit_held_job(self, where: Where, spec: JobSpec, /) -> JobSubmissionResult:
        """Submit a held job under the transfer's name and account; never raises.

        The request is already translated for the remote cluster. Its slots are those granted at
        home.
        """
        ...

    def find_held_job(self, where: Where, transfer: str, owner: str, /) -> str:
        """Return the id of the owner's oldest job of the transfer's name, empty if none."""
        ...

    def query_owner_and_account(self, where: Where, job: str, /) -> tuple[str, str]:
        """Return a job's owner and account, both empty if the job is unknown."""
        ...

    def query_job_state(self, where: Where, job: str, /) -> JobState:
        """Return a job's state, UNSEEN if it is not listed."""
        ...

    def rename_and_release(self, where: Where, job: str, name: str, /) -> None:
        """Release a held job, and give it its real name if the system can rename jobs."""
        ...

    def hold_job(self, where: Where, job: str, /) -> None:
        """Hold a waiting job."""
        ...

    def release_job(self, where: Where, job: str, /) -> None:
        """Release a held job."""
        ...

    def suspend_or_hold_job(self, where: Where, job: str, /) -> None:
        """Suspend a running job or hold a waiting one; a gone job is no error."""
        ...

    def resume_or_release_job(self, where: Where, job: str, /) -> None:
        """Undo `suspend_or_hold_job`, whether it suspended or held the job."""
        ...

    def delete_job(self, where: Where, job: str, /) -> None:
        """Delete a job in any state; a gone job is no error."""
        ...


class CampaignArrayJobControl(Protocol[Where]):
    """Submits and controls a campaign's arrays; hot programs load it."""

    def submit_held_job(self, where: Where, spec: JobSpec, /) -> JobSubmissionResult:
        """Submit a held array of `spec.tasks` tasks as one job; never raises."""
        ...

    def find_held_job(self, where: Where, transfer: str, owner: str, /) -> str:
        """Return the id of the owner's oldest array submitted under this name, empty if none.

        An array that was renamed since its submission is found, too.
        """
        ...

    def find_duplicate_arrays(self, where: Where, transfer: str, owner: str, array: str, /) -> list[str]:
        """Return the ids of the owner's held arrays of this name except one array."""
        ...

    def query_owner_and_account(self, where: Where, job: str, /) -> tuple[str, str]:
        """Return an array's owner and account, both empty if the array is unknown."""
        ...

    def query_live_indices(self, where: Where, arrays: dict[str, str], /) -> dict[str, tuple[range, ...]]:
        """Return the indices of the caller's array tasks that wait or run, in any order.

        `arrays` maps array ids to the names of their submission. A name counts only if its owner
        alone can change it. One query covers all arrays.
        """
        ...

    def release_arrays(self, where: Where, arrays: tuple[str, ...], name: str, /) -> None:
        """Release the tasks of held arrays, under their real name if the system can rename."""
        ...

    def delete_array(self, where: Where, array: str, /) -> None:
        """Delete all tasks of an array in any state; gone tasks are no error."""
        ...

    def delete_array_tasks(self, where: Where, array: str, name: str, indices: str, /) -> None:
        """Delete the array tasks with these indices, such as `1-5,9`, in any state."""
        ...

    def hold_array_tasks(self, where: Where, array: str, name: str, indices: tuple[range, ...], /) -> tuple[range, ...]:
        """Hold array tasks; return the indices of tasks that are held now.

        `name` is the name under which the array was submitted. Tasks that have begun go on.
        """
        ...

    def release_array_tasks(self, where: Where, array: str, indices: tuple[range, ...], /) -> None:
        """Release held array tasks; running and gone tasks stay as they are."""
        ...


class StarterHomeTaskControl(Protocol[Where]):
    """Controls a local task for its starter; fulfilled by the same module as JobSubmissionAndControl.

    A job id may also be a task `12.3`. Only systems with this ability can have transfer queues.
    """

    HAS_START_TIMES: bool  # whether a future start time postpones a restart, as `defer` does

    def hold_job(self, where: Where, job: str, /) -> None:
        """Hold a running task, so that it does not start again."""
        ...

    def release_job(self, where: Where, job: str, /) -> None:
        """Release a held task."""
        ...

    def defer_restart(self, where: Where, job: str, request: JobRequest, /) -> None:
        """Keep a running job from restarting by a far start time, which no state letter shows."""
        ...

    def restore_start_time(self, where: Where, job: str, /) -> str | None:
        """Restore a job's own start time; return the recorded text instead if it is no time."""
        ...

    def query_job_state(self, where: Where, job: str, /) -> JobState:
        """Return a task's state, UNSEEN if it is not listed."""
        ...

    def query_job_request(self, where: Where, job: str, /) -> JobRequest:
        """Return a job's request, with its submission time if the system reuses job ids."""
        ...

    def query_queue_limit(self, where: Where, queue: str, name: str, host: str, /) -> str:
        """Return a limit of a queue on a host (queue_conf(5))."""
        ...


class ClusterStatusReader(Protocol[Where]):
    """Queries a cluster's status; CommandFailed or ParseError for an incomplete answer."""

    def query_cluster_snapshot(
        self,
        where: Where,
        cluster: str,
        job_ids: Collection[int],
        transfer_queues: Container[str] = (),
        uncounted: Collection[int] = (),
        /,
    ) -> tuple[ClusterSnapshot, float]:
        """Return a cluster's snapshot with these jobs, and how many seconds the query took.

        Jobs and arrays in `uncounted` belong to campaigns and don't count as pending.
        """
        ...

    def query_job_end(self, where: Where, job_id: int, account: str, /) -> JobEnd | None:
        """Return a job's final end by its id and account; None while it is unknown."""
        ...

    def query_request_vocabulary(self, where: Where, /) -> NamesOfferedByCluster | None:
        """Return the names that a job may request; None if they are not checked."""
        ...

    def query_job_details(self, where: Where, job_id: int, /) -> tuple[JobAccountAndErrors, ...]:
        """Return the details of a listed job, empty if it is not listed."""
        ...


class RefusedJobMarker(Protocol[Where]):
    """Marks a home job that no remote cluster accepts."""

    REFUSED: str  # context variable with the reason why the job came home

    def keep_refused_job_home(
        self, where: Where, job: str, own: JobRequest, variants: Iterable[Variant], reason: str, /
    ) -> bool:
        """Keep a job out of all transfer queues, in the first variant that could run at home.

        `own` is the job's request. Returns False, without any change, if no variant could run.
        """
        ...


class WaitingRemoteJobRecaller(Protocol[Where]):
    """Recalls waiting jobs: a deletion reports whether the job had started.

    Recalls without claims need that report.
    """

    def hold_job(self, where: Where, job: str, gone_is_fine: bool = False) -> None:
        """Hold a waiting job."""
        ...

    def release_job(self, where: Where, job: str, gone_is_fine: bool = False) -> None:
        """Release a held job."""
        ...

    def query_job_state(self, where: Where, job: str, /) -> JobState:
        """Return a remote job's state."""
        ...

    def delete_waiting_job(self, where: Where, job: str, /) -> bool | None:
        """Delete a job; return whether it was waiting, or None if it did not exist."""
        ...


ClusterAddress = TypeVar("ClusterAddress")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSystemAdapter(Generic[ClusterAddress]):
    """The modules of a batch system's adapter; an ability that the system lacks is None."""

    submit: "JobSubmissionAndControl[ClusterAddress]"
    status: "ClusterStatusReader[ClusterAddress]"
    answers: "ClusterCheckFactsReader[ClusterAddress]"
    explains: "JobSubmissionExplainer[ClusterAddress]"
    at_home: "StarterHomeTaskControl[ClusterAddress] | None" = None
    guards_tasks: "LocalTaskGuard[ClusterAddress] | None" = None
    sets_up: "TransferRemoteClusterSetup[ClusterAddress] | None" = None
    watches: "JobEndWatcher[ClusterAddress] | None" = None
    listens: "SshJobEndStream[ClusterAddress] | None" = None
    recalls: "WaitingRemoteJobRecaller[ClusterAddress] | None" = None
    tells_accounts: "JobAccountReader[ClusterAddress] | None" = None
    accounts: "JobAccountingReader[ClusterAddress] | None" = None
    array_ends: "CampaignArrayEndReader[ClusterAddress] | None" = None
    shows_requests: "UserJobRequestReader[ClusterAddress] | None" = None
    alters: "UserJobAlterer[ClusterAddress] | None" = None
    makes_queues: "TransferQueueMaker[ClusterAddress] | None" = None
    lists_queues: "TransferQueueLister[ClusterAddress] | None" = None
    keeps_tags: "HostTagStore[ClusterAddress] | None" = None
    shows_demand: "ClusterDemandReader[ClusterAddress] | None" = None
    shows_crowd: "BlockedJobReader[ClusterAddress] | None" = None
    shows_suspension: bool = False  # whether its job list shows suspended remote jobs
    # whether nodes are powered down by root or the batch system, and never created
    has_fixed_nodes: bool = False


GRIDENGINE: BatchSystemAdapter[GridEngineCellAccess] = BatchSystemAdapter(
    submit=gridengine_submit,
    status=gridengine_status,
    answers=gridengine_site,
    explains=gridengine_site,
    at_home=gridengine_submit,
    guards_tasks=gridengine_tasks,
    sets_up=gridengine_site,
    watches=client_commands,
    recalls=gridengine_submit,
    tells_accounts=gridengine_submit,
    accounts=gridengine_status,
    array_ends=gridengine_status,
    shows_requests=gridengine_tools,
    alters=gridengine_tools,
    makes_queues=gridengine_site,
    keeps_tags=gridengine_tags,
    shows_demand=gridengine_demand,
    shows_crowd=gridengine_crowd,
    shows_suspension=True,
)
OAR: BatchSystemAdapter[OarServerAccess] = BatchSystemAdapter(
    submit=oar_submit,
    status=oar_status,
    answers=oar_site,
    explains=oar_site,
    sets_up=oar_site,
    listens=oar_status,
    array_ends=oar_status,
    keeps_tags=oar_nodes,
    shows_demand=oar_demand,
    has_fixed_nodes=True,
)
EMBEDDED: BatchSystemAdapter[EmbeddedClusterAccess] = BatchSystemAdapter(
    submit=embedded_submit,
    status=embedded_status,
    answers=embedded_site,
    explains=embedded_site,
    at_home=embedded_submit,
    guards_tasks=embedded_tasks,
    array_ends=embedded_status,
    lists_queues=embedded_site,
)
ADAPTERS = cast(
    "Mapping[str, BatchSystemAdapter[Away]]",  # each adapter gets clusters of its own kind only
    {ClusterKind.GRIDENGINE: GRIDENGINE, ClusterKind.OAR: OAR, ClusterKind.EMBEDDED: EMBEDDED},
)


def batch_adapter_of_cluster(where: Away) -> BatchSystemAdapter[Away]:
    """Return the adapter of a cluster."""
    return ADAPTERS[where.kind]


def local_task_guard_of_home(home: Home) -> "LocalTaskGuard[Away]":
    """Return the module that guards the local tasks of a home cluster."""
    tasks = batch_adapter_of_cluster(home).guards_tasks
    assert tasks  # every batch system with transfer queues guards local tasks
    return tasks


def cluster_status_reader(where: Away) -> "ClusterStatusReader[Away]":
    """Return the module that queries a cluster's status."""
    return batch_adapter_of_cluster(where).status
