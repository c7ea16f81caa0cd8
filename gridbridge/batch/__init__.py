"""Loads only the adapter module of a cluster's batch system: each job's starter pays for imports.

Services use batch/batch_adapter_table, which imports all adapters.
"""

from gridbridge.model.transfer_route import EMBEDDED, GRIDENGINE, OAR, Away, Home

TYPE_CHECKING = False  # defined here, because importing the module typing would be slow
if TYPE_CHECKING:
    from types import ModuleType

    from gridbridge.batch.batch_adapter_table import (
        CampaignArrayJobControl,
        JobSubmissionAndControl,
        RefusedJobMarker,
        StarterHomeTaskControl,
        WaitingRemoteJobRecaller,
    )


def load_submit_adapter(cluster: Away) -> "JobSubmissionAndControl[Away]":
    return SUBMIT_ADAPTER_LOADERS[cluster.kind]()


def load_campaign_array_adapter(cluster: Away) -> "CampaignArrayJobControl[Away]":
    return SUBMIT_ADAPTER_LOADERS[cluster.kind]()


def load_home_job_control(home: Home) -> "StarterHomeTaskControl[Home]":
    """Load the module that controls a home cluster's local tasks; an OAR cluster can't be a home cluster."""
    return SUBMIT_ADAPTER_LOADERS[home.kind]()


def load_refused_job_marker(home: Home) -> "RefusedJobMarker[Home]":
    return REFUSED_JOB_MARKER_LOADERS[home.kind]()


def load_job_recaller(cluster: Away) -> "WaitingRemoteJobRecaller[Away] | None":
    return JOB_RECALLER_LOADERS[cluster.kind]() if cluster.kind in JOB_RECALLER_LOADERS else None


def _import_gridengine_submit() -> "ModuleType":
    from gridbridge.batch.gridengine import submit

    return submit


def _import_oar_submit() -> "ModuleType":
    from gridbridge.batch.oar import submit

    return submit


def _import_embedded_submit() -> "ModuleType":
    from gridbridge.batch.embedded import submit

    return submit


def _import_gridengine_refused_job_marker() -> "ModuleType":
    from gridbridge.batch.gridengine import home_job_runnability_check as home

    return home


def _import_embedded_refused_job_marker() -> "ModuleType":
    from gridbridge.batch.embedded import embedded_task_guards as home

    return home


SUBMIT_ADAPTER_LOADERS = {
    GRIDENGINE: _import_gridengine_submit,
    OAR: _import_oar_submit,
    EMBEDDED: _import_embedded_submit,
}
JOB_RECALLER_LOADERS = {
    GRIDENGINE: _import_gridengine_submit
}  # batch systems whose delete command reports whether the job was still waiting
REFUSED_JOB_MARKER_LOADERS = {
    GRIDENGINE: _import_gridengine_refused_job_marker,
    EMBEDDED: _import_embedded_refused_job_marker,
}
