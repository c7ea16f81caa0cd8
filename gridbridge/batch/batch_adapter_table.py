"""The table of batch systems' adapters by cluster kind, with their optional abilities."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from gridbridge.batch.embedded import site as embedded_site
from gridbridge.batch.embedded import status as embedded_status
from gridbridge.batch.embedded import submit as embedded_submit
from gridbridge.batch.embedded import tasks as embedded_tasks
from gridbridge.batch.gridengine import accounting_file as gridengine_records
from gridbridge.batch.gridengine import blocked_job_reader as gridengine_crowd
from gridbridge.batch.gridengine import cell_demand_reader as gridengine_demand
from gridbridge.batch.gridengine import cell_host_tags as gridengine_tags
from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine import site as gridengine_site
from gridbridge.batch.gridengine import status as gridengine_status
from gridbridge.batch.gridengine import submit as gridengine_submit
from gridbridge.batch.gridengine import tasks as gridengine_tasks
from gridbridge.batch.gridengine import user_job_queries as gridengine_tools
from gridbridge.batch.oar import node_power as oar_nodes
from gridbridge.batch.oar import oar_demand
from gridbridge.batch.oar import oar_job_end_listener as oar_ends
from gridbridge.batch.oar import site as oar_site
from gridbridge.batch.oar import status as oar_status
from gridbridge.batch.oar import submit as oar_submit
from gridbridge.model.cluster import ClusterKind
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
from gridbridge.batch.batch_adapter_protocols import (
    ClusterStatusReader,
    JobSubmissionAndControl,
    StarterHomeTaskControl,
    WaitingRemoteJobRecaller,
)

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
    accounts=gridengine_records,
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
    listens=oar_ends,
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
