"""Sets up, checks and removes the best-effort queues of a Grid Engine cell."""

from collections.abc import Iterator

from gridbridge.batch.batch_adapter_table import batch_adapter_of_cluster
from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.decisions.site import besteffort_findings
from gridbridge.decisions.site.besteffort_findings import (
    HOSTLIST,
    BestEffortQueueLayout,
    besteffort_removal_edits,
    choose_besteffort_model_queue,
    foreign_queues_named_besteffort,
    gridbridge_besteffort_queues,
    non_gridbridge_queue_names,
)
from gridbridge.errors import ConfigError, GridbridgeError
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.site.setup_findings_and_edits import BestEffortCellFacts, BestEffortSetupRequest, CheckFinding
from gridbridge.model.site_configuration import Policy
from gridbridge.site import storage_provider_and_runner_checks
from gridbridge.site.transfer_queue_request import home_queue_setup_adapter, require_configured_cluster
from gridbridge.site.transfer_queue_setup import (
    SetupStep,
    require_correctable_findings,
    setup_steps_of_edits,
    setup_steps_of_findings,
)


def plan_besteffort_setup(policy: Policy, request: BestEffortSetupRequest) -> tuple[SetupStep, ...]:
    """Return the ordered steps that make a cell's missing best-effort queues."""
    cell = read_besteffort_setup(policy, request.cluster)
    model = _besteffort_model_queue(cell, request)
    findings = require_correctable_findings(
        besteffort_findings.besteffort_queue_findings(request.cluster, cell, model, request.most)
    )
    return setup_steps_of_findings(policy, findings)


def besteffort_consumable_warnings(policy: Policy, request: BestEffortSetupRequest) -> tuple[str, ...]:
    """Return warnings about consumables that best-effort tasks may use up, so that local jobs wait."""
    cell = read_besteffort_setup(policy, request.cluster)
    blocks = BestEffortQueueLayout(cell, _besteffort_model_queue(cell, request), request.most)
    findings = besteffort_findings.besteffort_consumable_findings(request.cluster, cell, blocks)
    return tuple(f"{finding.item}: {finding.found}: {finding.hint}" for finding in findings)


def plan_besteffort_queue_removal(policy: Policy, request: BestEffortSetupRequest) -> tuple[SetupStep, ...]:
    """Return the steps that remove the best-effort queues; running tasks are preempted and run again."""
    cell = read_besteffort_setup(policy, request.cluster)
    return setup_steps_of_edits(policy, besteffort_removal_edits(request.cluster, cell))


def check_grid_engine_besteffort_queues(policy: Policy, cluster: str) -> Iterator[CheckFinding]:
    """Check the best-effort queues of a cell, if this host may query the cell's objects."""
    if _why_no_besteffort_setup(policy, cluster):
        return
    try:
        cell = read_besteffort_setup(policy, cluster)
    except GridbridgeError as error:
        yield storage_provider_and_runner_checks.unchecked_part_finding(f"{cluster}: best-effort queues", error)
        return
    if strange := foreign_queues_named_besteffort(cell):
        yield from (besteffort_findings.foreign_besteffort_name_finding(cluster, name) for name in strange)
    elif not (gridbridge_besteffort_queues(cell) or BEST_EFFORT in cell.complexes):
        actual = "none: best-effort tasks are ordinary jobs of the lowest priority"
        yield CheckFinding.ok_finding(f"{cluster}: best-effort queues", actual)
    elif model := choose_besteffort_model_queue(cell, None):
        yield from besteffort_findings.besteffort_queue_findings(cluster, cell, model, None)


def read_besteffort_setup(policy: Policy, cluster: str) -> BestEffortCellFacts:
    """Read a cell's queues; raise ConfigError if this host can't make queues in the cell."""
    require_configured_cluster(policy, cluster)
    if why := _why_no_besteffort_setup(policy, cluster):
        raise ConfigError((why,))
    cell_access = configured_cluster_access(policy, cluster)
    return home_queue_setup_adapter(cell_access).read_besteffort_queue_setup(cell_access)


def _why_no_besteffort_setup(policy: Policy, cluster: str) -> str:
    section = policy.clusters[cluster]
    if batch_adapter_of_cluster(configured_cluster_access(policy, cluster)).makes_queues is None:
        right = "expected a Grid Engine cluster (OAR has its own best-effort jobs)"
        return f"{cluster}: no set-up for kind {section.kind}; {right}"
    return f"{cluster}: reached by ssh; expected this command on a host of {cluster}" if section.ssh else ""


def _besteffort_model_queue(cell: BestEffortCellFacts, request: BestEffortSetupRequest) -> str:
    if strange := foreign_queues_named_besteffort(cell):
        finding = besteffort_findings.foreign_besteffort_name_finding(request.cluster, strange[0])
        raise GridbridgeError(f"queue {strange[0]} has {finding.found}: {finding.hint}")
    model = choose_besteffort_model_queue(cell, request.like)
    if not model:
        local = ", ".join(non_gridbridge_queue_names(cell)) or "none"
        raise ConfigError((f"--like {request.like}: no local queue; expected one of: {local}",))
    if cell.queues[model].get(HOSTLIST, "NONE") == "NONE":
        raise GridbridgeError(f"queue {model}: no hosts; expected another --like")
    return model
