"""Best-effort queues of a Grid Engine cell: what is missing, what check says, and their removal."""

import os
from collections.abc import Iterator

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.decisions.site import check_findings as decisions
from gridbridge.decisions.site.besteffort import besteffort_findings as rules
from gridbridge.decisions.site.besteffort.besteffort_removal import removal
from gridbridge.decisions.site.besteffort.queue_blocks import (
    HOSTLIST,
    BestEffortQueues,
    local_queues,
    model_of,
    strangers,
)
from gridbridge.errors import ConfigError, GridbridgeError, NotAdmitted
from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy
from gridbridge.model.site.besteffort_cell import AskedBestEffort, BestEffortCell
from gridbridge.model.site.setup_findings import CheckFinding, FindingState
from gridbridge.site.queue_request import makes_queues
from gridbridge.site.queue_setup import SetupStep, named_steps, possible, steps


def besteffort_steps(policy: Policy, request: AskedBestEffort) -> tuple[SetupStep, ...]:
    """Return what is missing of a cell's best-effort queues, in the order to make it in."""
    cell = look(policy, request.cluster)
    model = _model(cell, request)
    findings = possible(rules.findings(request.cluster, cell, model, request.most))
    return steps(policy, findings)


def warnings(policy: Policy, request: AskedBestEffort) -> tuple[str, ...]:
    """Name the consumables by which tasks can keep a local job from starting."""
    cell = look(policy, request.cluster)
    blocks = BestEffortQueues(cell, _model(cell, request), request.most)
    findings = rules.taken_findings(request.cluster, cell, blocks)
    return tuple(f"{finding.item}: {finding.found}: {finding.hint}" for finding in findings)


def removal_steps(policy: Policy, request: AskedBestEffort) -> tuple[SetupStep, ...]:
    """Return the steps that take the best-effort queues away; their tasks run elsewhere."""
    cell = look(policy, request.cluster)
    return named_steps(policy, removal(request.cluster, cell))


def check(policy: Policy, cluster: str) -> Iterator[CheckFinding]:
    """Judge the best-effort queues of a cell, if this host may ask for its objects."""
    if not _can_have(policy, cluster):
        return
    try:
        cell = look(policy, cluster)
    except GridbridgeError as error:
        item = f"{cluster}: best-effort queues"
        is_shut = isinstance(error, NotAdmitted) and os.geteuid() != 0
        text = f"not judged: {error}"
        yield (
            decisions.shut(item)
            if is_shut
            else CheckFinding(item=item, state=FindingState.WARNING, found=text)
        )
        return
    if strange := strangers(cell):
        yield from (rules.stranger(cluster, name) for name in strange)
    elif not rules.is_set_up(cell):
        yield rules.none(cluster)
    elif model := model_of(cell, None):
        yield from rules.findings(cluster, cell, model, None)


def look(policy: Policy, cluster: str) -> BestEffortCell:
    """Look at a cell; refuse one where this host can't make queues."""
    if cluster not in policy.clusters:
        defined = ", ".join(policy.clusters)
        raise ConfigError((f"{CONFIG}: no [cluster.{cluster}]; there are {defined}",))
    if not _can_have(policy, cluster):
        raise ConfigError((_why_not(policy, cluster),))
    cell_access = away(policy, cluster)
    return makes_queues(cell_access).besteffort_cell(cell_access)


def _can_have(policy: Policy, cluster: str) -> bool:
    return _makes_queues(policy, cluster) and not policy.clusters[cluster].ssh


def _makes_queues(policy: Policy, cluster: str) -> bool:
    return adapter_of(away(policy, cluster)).makes_queues is not None


def _why_not(policy: Policy, cluster: str) -> str:
    if _makes_queues(policy, cluster):
        return f"{cluster} is reached by ssh: its administrators run this on a host of their own"
    kind = policy.clusters[cluster].kind
    return f"{cluster} is of kind {kind}: nothing is set up (OAR has best-effort jobs of its own)"


def _model(cell: BestEffortCell, request: AskedBestEffort) -> str:
    """Return the queue that the best-effort queues are like; refuse what can't be one."""
    if strange := strangers(cell):
        finding = rules.stranger(request.cluster, strange[0])
        raise GridbridgeError(f"queue {strange[0]} has {finding.found}: {finding.hint}")
    model = model_of(cell, request.like)
    if not model:
        local = ", ".join(local_queues(cell)) or "none"
        raise ConfigError((f"--like {request.like}: the local queues are {local}",))
    if cell.queues[model].get(HOSTLIST, "NONE") == "NONE":
        raise GridbridgeError(f"queue {model} is on no host; give another --like")
    return model
