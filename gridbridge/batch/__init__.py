"""Loads the adapter module for a cluster's batch system, and imports no other adapter.

Each job's starter uses this module. Services use batch/batch_adapter_table, which lists all adapters.
"""

from gridbridge.model.transfer_route import EMBEDDED, GRIDENGINE, OAR, Away, Home

TYPE_CHECKING = False  # importing typing takes as long as importing json
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
    """Load the module that submits and controls jobs on a cluster."""
    return _load(HOT[cluster.kind])


def load_campaign_array_adapter(cluster: Away) -> "CampaignArrayJobControl[Away]":
    """Load the module that submits and controls a campaign's arrays on a cluster."""
    return _load(HOT[cluster.kind])


def load_home_job_control(home: Home) -> "StarterHomeTaskControl[Home]":
    """Load the module that controls local tasks of a home cluster; OAR can't be a home."""
    return _load(HOT[home.kind])


def load_refused_job_marker(home: Home) -> "RefusedJobMarker[Home]":
    """Load the module that marks a job as refused by all remote clusters."""
    return _load(MARKERS[home.kind])


def load_job_recaller(cluster: Away) -> "WaitingRemoteJobRecaller[Away] | None":
    """Load the module that recalls waiting remote jobs; return None if the batch system can't recall."""
    return _load(RECALLERS[cluster.kind]) if cluster.kind in RECALLERS else None


def _load(module: str) -> "ModuleType":
    return __import__(f"gridbridge.batch.{module}", fromlist=("any name",))


HOT = {GRIDENGINE: "gridengine.submit", OAR: "oar.submit", EMBEDDED: "embedded.submit"}
RECALLERS = {GRIDENGINE: "gridengine.submit"}  # adapters whose delete command reports whether the job still waited
MARKERS = {GRIDENGINE: "gridengine.home_job_verification", EMBEDDED: "embedded.tasks"}
