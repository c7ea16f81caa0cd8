"""Plans and applies `gridbridge setup` of this host, of transfer queues, and of the queues' order (seq_no)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access, keep_ssh_connections_open
from gridbridge.decisions.site import (
    account_and_file_findings,
    transfer_queue_findings,
    transfer_queue_order,
    transfer_queue_setup_findings,
)
from gridbridge.decisions.site.account_and_file_findings import UNSEEN
from gridbridge.decisions.site.running_site_findings import stage_dir_finding
from gridbridge.decisions.site.transfer_queue_findings import is_existing_non_transfer_queue
from gridbridge.decisions.site.transfer_queue_setup_findings import transfer_queue_removal_edits
from gridbridge.errors import CommandFailed, GridbridgeError, StateError
from gridbridge.model.fixed_paths import ORDERED, PUBLISHED
from gridbridge.model.qconf_attribute_parser import QconfSettings, is_transfer_queue
from gridbridge.model.site.setup_findings_and_edits import (
    CellQconfSettings,
    CheckFinding,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    SharedSettingUndo,
    TransferQueuePlan,
    TransferSetupSituation,
)
from gridbridge.model.site.site_section import QueueOrder, TransferQueueWithClusterLoad
from gridbridge.model.site_configuration import Policy
from gridbridge.shell import local_host_facts
from gridbridge.shell.clock import Clock
from gridbridge.site import setup_edits
from gridbridge.site.site_inspection import inspect_local_host, inspect_ssh_stage_dirs
from gridbridge.site.transfer_queue_request import (
    TransferQueueOptions,
    complete_queue_request,
    home_queue_setup_adapter,
    refuse_setup_of_embedded_site,
    remote_setup_adapter,
)
from gridbridge.state import published_json


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    what: str
    line: str
    environment: str  # shell line that selects the step's cell; empty: any cell
    where: str
    edit: SetupEdit
    undo: tuple[SharedSettingUndo, ...] = ()


def plan_transfer_queue_setup(policy: Policy, options: TransferQueueOptions) -> tuple[SetupStep, ...]:
    """Return the steps that make a transfer queue's missing parts, in order."""
    request = complete_queue_request(policy, options)
    situation = _read_setup_of_own_queue(policy, request)
    findings = (
        transfer_queue_findings.queue_section_finding(policy, request),
        *transfer_queue_setup_findings.transfer_setup_findings(situation),
    )
    return setup_steps_of_findings(policy, require_correctable_findings(findings))


def uncorrectable_queue_warnings(policy: Policy, options: TransferQueueOptions) -> tuple[str, ...]:
    request = complete_queue_request(policy, options)
    stages = inspect_ssh_stage_dirs(policy, options.cluster).items()
    findings = (
        transfer_queue_findings.user_spool_limit_finding(
            policy, transfer_queue_findings.total_transfer_slots(policy, request)
        ),
        *(stage_dir_finding(name, stage) for name, stage in stages),
    )
    wrong = [finding for finding in findings if finding.state != FindingSeverity.OK]
    lines = ["; ".join(edit.value for edit in finding.mend) for finding in wrong]
    return tuple(
        f"{finding.item}: {finding.found}; {finding.right} ({finding.hint})"
        + (f"; on {finding.where}: {line}" if line else "")
        for finding, line in zip(wrong, lines, strict=True)
    )


def plan_transfer_queue_removal(
    policy: Policy, options: TransferQueueOptions, warn: Callable[[str], None]
) -> tuple[SetupStep, ...]:
    """Return the steps that remove a transfer queue; raise GridbridgeError if the queue does not exist.

    If the remote cluster does not answer, only the set-up at home is removed, with a warning.
    """
    request = complete_queue_request(policy, options, must_exist=True)
    situation = _read_setup_of_own_queue(policy, request, warn)
    siblings = [name for name, queue in policy.queues.items() if queue.cluster == options.cluster]
    if siblings and request.queue not in {*siblings, *situation.home.queues}:
        raise GridbridgeError(f"queue {request.queue}: no such transfer queue; expected one of: {', '.join(siblings)}")
    home = configured_cluster_access(policy, request.home)
    instances = home_queue_setup_adapter(home).query_queue_instances(home, request.home)
    if used := sum(instance.slots_used for instance in instances if instance.queue_name == request.queue):
        reason = f"jobs use {used} of its slots; run qmod -d {request.queue}, then wait for the jobs or qdel them"
        warn(f"queue {request.queue} can't be removed yet: {reason}")
    return _queue_removal_steps(policy, situation)


def plan_queue_leftover_removal(policy: Policy, options: TransferQueueOptions) -> tuple[SetupStep, ...]:
    request = complete_queue_request(policy, options, must_exist=True)
    return _queue_removal_steps(policy, _read_setup_of_own_queue(policy, request, unheard=lambda _: None))


def _queue_removal_steps(policy: Policy, situation: TransferSetupSituation) -> tuple[SetupStep, ...]:
    edits = [
        *transfer_queue_removal_edits(situation, setup_edits.read_former_settings()),
        *transfer_queue_findings.queue_section_removal_edits(policy, situation.wanted),
    ]
    return setup_steps_of_edits(policy, edits)


def setup_steps_of_edits(policy: Policy, edits: Iterable[SetupEdit]) -> tuple[SetupStep, ...]:
    return tuple(_setup_step_of_edit(policy, edit, _describe_setup_edit(edit)) for edit in edits)


def plan_host_setup(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps that this host needs; raise GridbridgeError if this user can't see some files."""
    refuse_setup_of_embedded_site(policy)
    findings = account_and_file_findings.transfer_host_findings(inspect_local_host(policy), policy.site)
    for finding in (finding for finding in findings if finding.found == UNSEEN):
        raise GridbridgeError(f"{finding.item}: {finding.found}; run this command as root")
    return setup_steps_of_findings(policy, findings)


def apply_setup_steps(steps: Iterable[SetupStep], policy: Policy, report: Callable[[SetupStep], None]) -> None:
    """Apply the steps in order; stop at the first failure. A repeated run continues at the failed step."""
    for step in steps:
        if step.where:
            raise GridbridgeError(f"run on {step.where}: {step.environment}; {step.line}")
        setup_edits.record_former_settings(step.undo)
        try:
            setup_edits.run_setup_edit(step.edit, policy)
        except CommandFailed as error:
            raise GridbridgeError(f"{step.what}: {error.failure_in_words}") from error
        report(step)


def delete_unneeded_former_settings_record(policy: Policy) -> None:
    """Delete the record of former settings if home has no transfer queue left."""
    home = configured_cluster_access(policy, policy.site.cluster)
    if not any(map(is_transfer_queue, home_queue_setup_adapter(home).query_queue_settings(home).values())):
        setup_edits.delete_former_settings()


def setup_steps_of_findings(policy: Policy, findings: Iterable[CheckFinding]) -> tuple[SetupStep, ...]:
    """Turn findings into steps; an edit for several findings is one step, at the last finding's place."""
    steps_by_edit: dict[SetupEdit, SetupStep] = {}
    for finding in findings:
        if finding.state == FindingSeverity.OK:
            continue
        for edit in finding.mend:
            steps_by_edit.pop(edit, None)
            is_named = edit.verb is SetupEditVerb.RESTART or (edit.verb is SetupEditVerb.SHELL and edit.name)
            text = _describe_setup_edit(edit) if is_named else f"{finding.item}: {finding.found} -> {finding.right}"
            steps_by_edit[edit] = replace(
                _setup_step_of_edit(policy, edit, text),
                where=finding.where,
                undo=tuple(undo for undo in finding.undo if undo.done == edit),
            )
    return tuple(steps_by_edit.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeTransferQueueSettings:
    setup: CellQconfSettings
    slots: Mapping[str, int]  # slots of each queue on the host


def read_home_queue_setup(policy: Policy, of_host: str) -> HomeTransferQueueSettings:
    """Read the home cluster's settings for a queue; raise CommandFailed or StateError if home does not answer."""
    home = configured_cluster_access(policy, policy.site.cluster)
    makes = home_queue_setup_adapter(home)
    return HomeTransferQueueSettings(
        setup=makes.read_home_setup(home, of_host), slots=makes.count_queue_slots_on_host(home, of_host)
    )


def read_remote_side_of_transfer_queue_setup(
    policy: Policy,
    request: TransferQueuePlan,
    home: HomeTransferQueueSettings,
    unheard: Callable[[str], None] | None = None,
) -> TransferSetupSituation:
    """Read a remote cluster's settings for a transfer queue, and add them to the home cluster's.

    Raises CommandFailed or StateError if the remote cluster does not answer. If `unheard` is given, it gets the
    reason instead, and the remote cluster counts as empty.
    """
    slots = dict(home.slots)
    slots |= {name: queue.slots for name, queue in policy.queues.items() if name in slots}
    try:
        cluster = configured_cluster_access(policy, request.remote)
        remote = remote_setup_adapter(cluster).read_remote_setup(cluster, request.host, home.setup)
    except GridbridgeError as error:
        if unheard is None:
            raise
        unheard(f"{request.remote} was not queried and is not changed: {error}")
        remote = CellQconfSettings.settings_with_only_master("", {})
    is_here = request.host == local_host_facts.this_host_name()
    return TransferSetupSituation(
        wanted=request,
        home=home.setup,
        away=remote,
        gids=local_host_facts.all_group_ids(),
        execd=local_host_facts.find_root_daemon("sge_execd") if is_here else None,
        other_slots=sum(count for queue, count in slots.items() if queue != request.queue),
    )


def _read_setup_of_own_queue(
    policy: Policy, request: TransferQueuePlan, unheard: Callable[[str], None] | None = None
) -> TransferSetupSituation:
    keep_ssh_connections_open(policy)
    situation = read_remote_side_of_transfer_queue_setup(
        policy, request, read_home_queue_setup(policy, request.host), unheard
    )
    if request.queue not in policy.queues and is_existing_non_transfer_queue(situation):
        raise GridbridgeError(f"queue {request.queue}: not a transfer queue; expected another --queue")
    return situation


def require_correctable_findings(findings: Iterable[CheckFinding]) -> Iterable[CheckFinding]:
    """Return the findings; raise GridbridgeError for a finding that no edit can correct."""
    listed = tuple(findings)
    for finding in (finding for finding in listed if finding.state == FindingSeverity.BROKEN and not finding.mend):
        raise GridbridgeError(f"{finding.item}: {finding.found}; {finding.hint}")
    return listed


def _describe_setup_edit(edit: SetupEdit) -> str:
    if edit.verb is SetupEditVerb.SHELL:
        return edit.name or edit.value
    if edit.verb is SetupEditVerb.DROP_SECTION:
        return f"remove [{edit.kind}.{edit.name}] from gridbridge.toml"
    words = (edit.cell, edit.verb.value, edit.kind, edit.name, edit.attribute)
    return " ".join(word for word in words if word)


def _setup_step_of_edit(policy: Policy, edit: SetupEdit, text: str) -> SetupStep:
    return SetupStep(
        what=text,
        line=setup_edits.setup_edit_command(edit),
        environment=setup_edits.cell_environment_line_for_edit(edit, policy),
        where="",
        edit=edit,
    )


ATTRIBUTE = "seq_no"


def plan_queue_sequence_numbers(
    policy: Policy, folder: str = PUBLISHED, former: str = ORDERED
) -> tuple[SetupStep, ...]:
    """Return the steps that change transfer queues' seq_no, with a reason for each queue."""
    order = policy.site.queue_order
    queue_offers = queues_with_cluster_load(policy, folder)
    if order is QueueOrder.SEQ_NO:
        changed = transfer_queue_order.plan_queue_seq_no_restore(queue_offers, _former_queue_seq_numbers(former))
    else:
        changed = transfer_queue_order.plan_queue_seq_no_changes(queue_offers, order)
    findings = []
    for change in changed:
        edit = SetupEdit.queue_attribute_edit(
            SetupEditVerb.REPLACE, policy.site.cluster, change.queue, ATTRIBUTE, str(change.after)
        )
        right = f"{ATTRIBUTE} {change.after} ({change.why})"
        finding = CheckFinding.fault_finding(f"queue {change.queue}", f"{ATTRIBUTE} {change.before}", right, edit)
        undo = SharedSettingUndo(done=edit, undo=replace(edit, value=str(change.before)))
        findings.append(replace(finding, undo=(undo,)))
    return setup_steps_of_findings(policy, findings)


def check_queue_order(
    policy: Policy, queues: Mapping[str, QconfSettings], folder: str = PUBLISHED, former: str = ORDERED
) -> Iterator[CheckFinding]:
    """Check whether the queues' seq_no follow the configured order; only root can read former numbers."""
    queue_offers = tuple(_queues_with_published_load(policy, queues, folder))
    with suppress(OSError, StateError):
        if len(queue_offers) > 1:
            yield transfer_queue_order.queue_order_finding(
                queue_offers, policy.site.queue_order, _former_queue_seq_numbers(former)
            )


def _former_queue_seq_numbers(path: str) -> dict[str, int]:
    return {change.undo.name: int(change.undo.value) for change in setup_edits.read_former_settings(path)}


def apply_queue_sequence_numbers(
    steps: Sequence[SetupStep], policy: Policy, report: Callable[[SetupStep], None], former: str = ORDERED
) -> None:
    """Apply the steps that change seq_no; record the original numbers until they are restored."""
    is_back = policy.site.queue_order is QueueOrder.SEQ_NO
    if not is_back:
        setup_edits.record_former_settings(tuple(undo for step in steps for undo in step.undo), former)
    apply_setup_steps((replace(step, undo=()) for step in steps), policy, report)
    if is_back:
        setup_edits.delete_former_settings(former)


def queues_with_cluster_load(policy: Policy, folder: str = PUBLISHED) -> tuple[TransferQueueWithClusterLoad, ...]:
    """Return transfer queues and their clusters' published load; raise CommandFailed if the home cluster is silent."""
    home = configured_cluster_access(policy, policy.site.cluster)
    return tuple(_queues_with_published_load(policy, home_queue_setup_adapter(home).query_queue_settings(home), folder))


def _queues_with_published_load(
    policy: Policy, queues: Mapping[str, QconfSettings], folder: str = PUBLISHED
) -> Iterator[TransferQueueWithClusterLoad]:
    heard = {cluster.cluster: cluster for cluster in published_json.read_published_cluster_status(folder)}
    stale = timedelta(seconds=2 * policy.poller.stale_s)
    now = Clock().now()
    for name, queue in sorted(policy.queues.items()):
        if name not in queues:
            continue
        number, published = queues[name].get(ATTRIBUTE, ""), heard.get(queue.cluster)
        taken_at = published.taken_at if published else None
        yield TransferQueueWithClusterLoad(
            queue=name,
            cluster=queue.cluster,
            seq_no=int(number) if number.isdigit() else None,
            is_heard=taken_at is not None and taken_at >= now - stale,
            pending=(published.pending or 0) if published else 0,
            free_slots=(published.free_slots or 0) if published else 0,
            slots=(published.slots or 0) if published else 0,
            cost=policy.clusters[queue.cluster].cost,
        )
