"""The table from a cluster's kind to its adapter, with abilities that only some adapters have."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from gridbridge.batch.embedded import site as embedded_site
from gridbridge.batch.embedded import status as embedded_status
from gridbridge.batch.embedded import submit as embedded_submit
from gridbridge.batch.embedded import tasks as embedded_tasks
from gridbridge.batch.gridengine import accounting_file as gridengine_records
from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine import crowded_cell_reader as gridengine_crowd
from gridbridge.batch.gridengine import demand as gridengine_demand
from gridbridge.batch.gridengine import site as gridengine_site
from gridbridge.batch.gridengine import status as gridengine_status
from gridbridge.batch.gridengine import submit as gridengine_submit
from gridbridge.batch.gridengine import tasks as gridengine_tasks
from gridbridge.batch.gridengine import users_commands as gridengine_tools
from gridbridge.batch.gridengine.standby import gb_tags as gridengine_tags
from gridbridge.batch.oar import node_power as oar_nodes
from gridbridge.batch.oar import notified_ends as oar_ends
from gridbridge.batch.oar import oar_demand
from gridbridge.batch.oar import site as oar_site
from gridbridge.batch.oar import status as oar_status
from gridbridge.batch.oar import submit as oar_submit
from gridbridge.model.cluster import ClusterKind
from gridbridge.model.route import Away, EmbeddedFolder, GridEngineCell, Home, OarServer

if TYPE_CHECKING:
    from gridbridge.batch.optional_abilities import (
        AccountingSource,
        AnswersCheck,
        EndStream,
        EndWatcher,
        GuardsTasks,
        JobAlterer,
        KeepsTags,
        ListsQueues,
        MakesQueues,
        SetsUp,
        ShowsCrowd,
        ShowsDemand,
        ShowsRequests,
        SubmissionExplainer,
        TellsAccounts,
        TellsArrayEnds,
    )
from gridbridge.batch.protocol import AtHome, RecallsJobs, Status, Submit

Where = TypeVar("Where")


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter(Generic[Where]):
    """A batch system's adapter: abilities that each has, and those that one may lack (None)."""

    submit: "Submit[Where]"
    status: "Status[Where]"
    answers: "AnswersCheck[Where]"
    explains: "SubmissionExplainer[Where]"
    at_home: "AtHome[Where] | None" = None
    guards_tasks: "GuardsTasks[Where] | None" = None
    sets_up: "SetsUp[Where] | None" = None
    watches: "EndWatcher[Where] | None" = None
    listens: "EndStream[Where] | None" = None
    recalls: "RecallsJobs[Where] | None" = None
    tells_accounts: "TellsAccounts[Where] | None" = None
    accounts: "AccountingSource[Where] | None" = None
    array_ends: "TellsArrayEnds[Where] | None" = None
    shows_requests: "ShowsRequests[Where] | None" = None
    alters: "JobAlterer[Where] | None" = None
    makes_queues: "MakesQueues[Where] | None" = None
    lists_queues: "ListsQueues[Where] | None" = None
    keeps_tags: "KeepsTags[Where] | None" = None
    shows_demand: "ShowsDemand[Where] | None" = None
    shows_crowd: "ShowsCrowd[Where] | None" = None
    shows_suspension: bool = False  # its list tells that a job was suspended there
    has_fixed_nodes: bool = False  # none is made; they rest by root's word, unless it does that


GRIDENGINE: Adapter[GridEngineCell] = Adapter(
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
OAR: Adapter[OarServer] = Adapter(
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
EMBEDDED: Adapter[EmbeddedFolder] = Adapter(
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
    "Mapping[str, Adapter[Away]]",  # each is only asked about clusters of its kind
    {ClusterKind.GRIDENGINE: GRIDENGINE, ClusterKind.OAR: OAR, ClusterKind.EMBEDDED: EMBEDDED},
)


def adapter_of(where: Away) -> Adapter[Away]:
    """Return the adapter of a cluster."""
    return ADAPTERS[where.kind]


def tasks_of(home: Home) -> "GuardsTasks[Away]":
    """Return what the service does to the tasks of the cluster that has the transfer queues."""
    tasks = adapter_of(home).guards_tasks
    assert tasks  # of every kind that can be a home
    return tasks


def status_of(where: Away) -> "Status[Away]":
    """Return the cold half of a cluster's adapter."""
    return adapter_of(where).status
