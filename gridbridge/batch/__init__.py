"""Loads only the adapter module of a cluster's batch system: each job's starter pays for imports.

A batch system's folder has the name of its clusters' `kind`. Services use batch/batch_adapter_table, which imports all
adapters.
"""

import sys

from gridbridge.model.transfer_route import AnyClusterAccessSettings, HomeClusterAccessSettings

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


def load_submit_adapter(cluster: AnyClusterAccessSettings) -> "JobSubmissionAndControl[AnyClusterAccessSettings]":
    return _import_job_control_module(cluster)


def load_campaign_array_adapter(
    cluster: AnyClusterAccessSettings,
) -> "CampaignArrayJobControl[AnyClusterAccessSettings]":
    return _import_job_control_module(cluster)


def load_home_job_control(home: HomeClusterAccessSettings) -> "StarterHomeTaskControl[HomeClusterAccessSettings]":
    """Load the module that controls a home cluster's local tasks; an OAR cluster can't be a home cluster."""
    return _import_job_control_module(home)


def load_refused_job_marker(home: HomeClusterAccessSettings) -> "RefusedJobMarker[HomeClusterAccessSettings]":
    marker: ModuleType = _import_job_control_module(home).load_refused_job_marker()
    return marker


def load_job_recaller(cluster: AnyClusterAccessSettings) -> "WaitingRemoteJobRecaller[AnyClusterAccessSettings] | None":
    """Load the module that recalls jobs; None if the batch system can't say whether a deleted job still waited."""
    control = _import_job_control_module(cluster)
    return control if hasattr(control, "delete_waiting_job") else None


def read_root_login(cluster: AnyClusterAccessSettings) -> None:
    """Read, as root, a login that the jobs' owner can't read; most adapters have none, as ssh uses the owner's key."""
    control = _import_job_control_module(cluster)
    if hasattr(control, "read_root_login"):
        control.read_root_login(cluster)


def _import_job_control_module(cluster: AnyClusterAccessSettings) -> "ModuleType":
    name = f"gridbridge.batch.{cluster.kind}.job_submission_and_control"
    __import__(name)
    return sys.modules[name]
