"""Checks a running site's poller, clocks, versions and queues; embedded sites have no rights to check."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from gridbridge.decisions.site import service_fault_findings
from gridbridge.decisions.site.account_and_file_findings import UNSEEN
from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh
from gridbridge.model.fixed_paths import CONFIG, HOME, METHODS, PYTHON
from gridbridge.model.job_and_queue_states import QueueInstanceState, QueueStartBlocker
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    CheckSubject,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    findings_about,
)
from gridbridge.model.site.site_check_facts import ClusterFacts, PollerProcessFacts, StageDirFacts, TransferHostFacts
from gridbridge.model.site_configuration import ClusterKind, Policy, has_qmaster
from gridbridge.model.transfer_route import ACCESS

MAX_SKEW_S = 5.0  # largest accepted clock difference: load values from the future are rejected
TriedVersion = tuple[re.Pattern[str], str, str]  # pattern, expected version, and advice about other versions
TRIED_SGE: TriedVersion = (
    re.compile(r"SGE 8\.1\."),
    "SGE 8.1.x: other versions run methods under the job's own shell (-S)",
    "jobs with -S other than sh can't be suspended or deleted; tested on 8.1.9",
)
TRIED_OAR = (re.compile(r"OAR 2\.5\."), "OAR 2.5.x", "OAR 3 prints other JSON; tested on 2.5.9 only")
MAX_WORDS = 160  # limit of characters of a quoted log line
BY_SSH = "ssh: "
DENIED = "denied: host"
NEEDS_SOMEBODY = frozenset((QueueStartBlocker.ERROR, QueueStartBlocker.DISABLED, QueueStartBlocker.UNREACHABLE))


def running_site_findings(facts: TransferHostFacts, policy: Policy) -> Iterator[CheckFinding]:
    """Check the poller, clusters, keys, rsync and queues of a running site."""
    poller = _poller_process_and_load_value_finding(facts.poller, policy)
    stale = service_fault_findings.stale_configuration_findings(facts.poller)
    yield from findings_about(CheckSubject.SERVICE, (poller, *stale))
    yield from findings_about(CheckSubject.CLUSTERS, _cluster_findings(facts, policy))
    for queue, state in facts.queues.items():
        yield from findings_about(CheckSubject.QUEUES, _transfer_queue_state_findings(queue, state, policy))


def _cluster_findings(facts: TransferHostFacts, policy: Policy) -> Iterator[CheckFinding]:
    for name, cell in facts.cells.items():
        cluster = policy.clusters.get(name)
        if cell.is_shut and not facts.is_root:
            yield CheckFinding.warning_finding(name, UNSEEN)
        else:
            kind = cluster.kind if cluster else ClusterKind.GRIDENGINE
            is_unanswered = _may_answer_later(cell, kind)
            for finding in JUDGES[kind](name, cell, facts.name):
                yield replace(finding, is_unanswered=is_unanswered and finding.state is FindingSeverity.BROKEN)
    for key in facts.keys:
        item, right = f"{key.cluster}: {key.means} of {key.person}", f"logs in to account {key.account}"
        hint = f"until the {key.means} works, jobs of {key.person} for this cluster wait, or come home when refused"
        yield (
            CheckFinding.warning_finding(item, key.trouble, right, hint=hint)
            if key.trouble
            else CheckFinding.ok_finding(item, right)
        )
    for name, host in facts.without_rsync.items():
        hint = f"apt-get install rsync on {host}; until then jobs with stage_in or stage_out wait"
        missing = CheckFinding.warning_finding(f"{name}: rsync", f"missing on {host}", "on both hosts", hint=hint)
        yield missing if host else CheckFinding.ok_finding(f"{name}: rsync", "on both hosts")
    yield from (stage_dir_finding(name, stage) for name, stage in facts.stages.items())


def _may_answer_later(cell: ClusterFacts, kind: ClusterKind) -> bool:
    """Say whether a cluster is silent, although gridbridge.toml and the host's rights seem right."""
    if ACCESS[kind].IS_OF_ONE_USER or cell.is_shut or cell.other_port or DENIED in cell.trouble:
        return False
    return bool(cell.trouble) and (not has_qmaster(kind) or bool(cell.master) or cell.trouble.startswith(BY_SSH))


def worst_finding_state(findings: tuple[CheckFinding, ...]) -> FindingSeverity:
    """Return BROKEN, WARNING or OK, the worst state of the findings; a NOTE counts as OK."""
    severities = {finding.state for finding in findings}
    worst_first = (FindingSeverity.BROKEN, FindingSeverity.WARNING)
    return next((severity for severity in worst_first if severity in severities), FindingSeverity.OK)


def no_transfer_queue_findings(policy: Policy) -> Iterator[CheckFinding]:
    if policy.queues:
        return
    item = f"file {CONFIG}: transfer queues"
    remotes = [name for name in policy.clusters if name != policy.site.cluster]
    if why := policy.why_no_transfer_queues:
        yield CheckFinding.ok_finding(item, f"none: {why}")
    elif remotes:
        mend = SetupEdit.shell_command_edit(f"gridbridge setup transfer {remotes[0]} --apply")
        yield CheckFinding.warning_finding(item, "no [queue.NAME]", "at least one", mend)
    else:
        hint = "add a [cluster.NAME] for the remote cluster"
        yield CheckFinding.warning_finding(item, "no [queue.NAME]", "at least one", hint=hint)


def _poller_process_and_load_value_finding(poller: PollerProcessFacts, policy: Policy) -> CheckFinding:
    age, is_fresh = _age_of_load_values(poller, policy)
    first = ""
    if poller.is_running is False:
        actual = "not running" + (f"; the log ends: {poller.last_words[:MAX_WORDS]}" if poller.last_words else "")
    elif is_fresh:
        return CheckFinding.ok_finding("poller", age)
    elif poller.pid:
        wait = f"while kill -0 {poller.pid} 2>/dev/null; do sleep 0.1; done"
        actual, first = age, f"kill -9 {poller.pid}; {wait}; "
    else:
        actual = f"{age}, and the poller's process is not visible"
    program = f"{PYTHON} -I -c 'from gridbridge.transfer.poller.program import main; main()'"
    account = policy.site.service_account
    become = f"setpriv --reuid {account} --regid {account} --init-groups"
    line = f"{first}cd / && setsid --fork {become} {program} </dev/null >>{HOME}/poller.log 2>&1"
    right = f"values no older than {policy.poller.stale_s:g} s"
    return CheckFinding.fault_finding("poller", actual, right, SetupEdit.shell_command_edit(line))


def _age_of_load_values(poller: PollerProcessFacts, policy: Policy) -> tuple[str, bool]:
    if poller.age_s is None:
        return "no values", False
    return f"values of {poller.age_s:.0f} s ago", are_load_values_fresh(poller.age_s, policy.poller.stale_s)


def _cluster_answer_version_and_clock_findings(
    name: str, cell: ClusterFacts, answer: CheckFinding, tried_version: TriedVersion
) -> Iterator[CheckFinding]:
    yield answer
    if not cell.trouble:
        tried, right, hint = tried_version
        outdated = CheckFinding.warning_finding(f"{name}: version", cell.version or "unknown", right, hint=hint)
        yield CheckFinding.ok_finding(f"{name}: version", cell.version) if tried.match(cell.version) else outdated
        yield _qmaster_clock_finding(name, cell)


JUDGES: Mapping[ClusterKind, Callable[[str, ClusterFacts, str], Iterator[CheckFinding]]] = {
    ClusterKind.GRIDENGINE: lambda name, cell, host: _cluster_answer_version_and_clock_findings(
        name, cell, _qmaster_answer_finding(name, cell, host), TRIED_SGE
    ),
    ClusterKind.OAR: lambda name, cell, _: _cluster_answer_version_and_clock_findings(
        name, cell, _oar_server_answer_finding(name, cell), TRIED_OAR
    ),
    ClusterKind.EMBEDDED: lambda name, cell, _: iter((embedded_cluster_finding(name, cell),)),
}


def _qmaster_answer_finding(name: str, cell: ClusterFacts, host: str) -> CheckFinding:
    item, ports = f"{name}: qmaster", f"compare the ports of [cluster.{name}]"
    if not cell.trouble:
        return CheckFinding.ok_finding(item, f"answers from {cell.master}")
    if DENIED in cell.trouble:
        item, hint = f"{name}: admin host {host}", ""
        edit = SetupEdit(verb=SetupEditVerb.ADMIT, cell=name, kind="admin", name=host)
    elif cell.other_port:
        actual = f"{cell.trouble}, but a qmaster answers on port {cell.other_port} of {cell.master}"
        right = f"qmaster_port = {cell.other_port}, if this qmaster belongs to the cell"
        return CheckFinding.fault_finding(item, actual, right, hint=f"{ports} in {CONFIG} first; start no qmaster")
    else:
        edit = SetupEdit.shell_command_edit("sge_qmaster", name)
        # a second qmaster would harm the cell
        hint = f"run this command only if no qmaster runs on {cell.master}; {ports} first"
    if not cell.master:
        return CheckFinding.fault_finding(item, cell.trouble, "an answer", hint=_cluster_access_hint(name, cell))
    return CheckFinding.fault_finding(item, cell.trouble, "an answer", edit, where=cell.master, hint=hint)


def _oar_server_answer_finding(name: str, cell: ClusterFacts) -> CheckFinding:
    item = f"{name}: OAR server"
    if not cell.trouble:
        return CheckFinding.ok_finding(item, f"answers on {cell.master}, {number_with_noun(cell.slots or 0, 'slot')}")
    is_login = cell.trouble.startswith(BY_SSH)
    hint = _cluster_access_hint(name, cell) if is_login else f"check the server of [cluster.{name}] and its database"
    return CheckFinding.fault_finding(item, cell.trouble, "an answer", hint=hint)


def _cluster_access_hint(name: str, cell: ClusterFacts) -> str:
    return f"correct the {'login' if cell.trouble.startswith(BY_SSH) else 'cell'} in [cluster.{name}] of {CONFIG}"


def _qmaster_clock_finding(name: str, cell: ClusterFacts) -> CheckFinding:
    item, right = f"{name}: clock", f"within {MAX_SKEW_S:g} s"
    if cell.ahead_s is None:
        hint = f"compare `date` here and on {cell.master}"
        return CheckFinding.warning_finding(item, "qping does not report the clock", right, hint=hint)
    actual, mend = f"{cell.ahead_s:+.0f} s", SetupEdit.shell_command_edit("chronyc makestep")
    if abs(cell.ahead_s) <= MAX_SKEW_S:
        return CheckFinding.ok_finding(item, actual)
    return CheckFinding.warning_finding(item, f"{actual} from this host's", right, mend, where=cell.master)


def stage_dir_finding(name: str, stage: StageDirFacts) -> CheckFinding:
    item = f"{name}: stage_dir"
    if not stage.wrong:
        return CheckFinding.ok_finding(item, stage.place)
    right = "a folder that is sticky, or that no other user can write to"
    hint = "until the folder is right, jobs with staged files for this cluster wait"
    return CheckFinding.fault_finding(
        item, stage.wrong, right, SetupEdit.shell_command_edit(stage.mend), where=stage.host, hint=hint
    )


def _transfer_queue_state_findings(queue: str, state: QueueInstanceState, policy: Policy) -> Iterator[CheckFinding]:
    item, home = f"queue {queue}: state", policy.site.cluster
    if QueueStartBlocker.ERROR in state.facts:
        clear = SetupEdit(verb=SetupEditVerb.CLEAR, cell=home, name=queue)
        yield CheckFinding.fault_finding(item, "in error state (E)", "open", clear)
    if QueueStartBlocker.DISABLED in state.facts:
        enable = SetupEdit(verb=SetupEditVerb.ENABLE, cell=home, name=queue)
        yield CheckFinding.warning_finding(item, "disabled by hand (d)", "open", enable)
    if QueueStartBlocker.UNREACHABLE in state.facts:
        hint = f"start sge_execd on {queue.rpartition('@')[2]}"
        yield CheckFinding.fault_finding(item, "execd does not answer (u)", hint=hint)
    if not state.facts & NEEDS_SOMEBODY:
        is_loaded = QueueStartBlocker.LOADED in state.facts
        actual = f"closed by load ({state.text})" if is_loaded else state.text or "open"
        yield CheckFinding.ok_finding(item, actual)


PROGRAM = f"{PYTHON} -I -m gridbridge.batch.embedded"
START = f"echo | {METHODS}/sensor >/dev/null"  # the load sensor starts the service if the service does not run


def embedded_site_findings(
    poller: PollerProcessFacts, cells: Mapping[str, ClusterFacts], slots: Mapping[str, int], policy: Policy
) -> Iterator[CheckFinding]:
    """Check an embedded site's poller, clusters and queues; `slots` maps queue names to slots."""
    age, is_fresh = _age_of_load_values(poller, policy)
    right = f"values no older than {policy.poller.stale_s:g} s"
    values = CheckFinding.finding_by_condition(is_fresh, "poller", age, right, SetupEdit.shell_command_edit(START))
    stale = service_fault_findings.stale_configuration_findings(poller)
    yield from findings_about(CheckSubject.SERVICE, (values, *stale))
    clusters = (embedded_cluster_finding(name, cell) for name, cell in cells.items())
    yield from findings_about(CheckSubject.CLUSTERS, clusters)
    if not cells[policy.site.cluster].trouble:
        queues = (_embedded_queue_slots_finding(name, slots, policy) for name in policy.queues)
        yield from findings_about(CheckSubject.QUEUES, queues)


def embedded_cluster_finding(name: str, cell: ClusterFacts) -> CheckFinding:
    """Check that an embedded cluster answers; the finding's edit creates a missing cluster."""
    make = SetupEdit.shell_command_edit(f"{PROGRAM} {cell.master} create --slots=4")
    actual = cell.trouble or f"answers, {number_with_noun(cell.slots or 0, 'slot')}"
    return CheckFinding.finding_by_condition(not cell.trouble, f"{name}: cluster", actual, "an answer", make)


def _embedded_queue_slots_finding(name: str, slots: Mapping[str, int], policy: Policy) -> CheckFinding:
    section = policy.queues[name]
    actual = number_with_noun(slots[name], "slot") if name in slots else "missing"
    right = number_with_noun(section.slots, "slot")
    options = f"--slots={section.slots} --remote={section.cluster} --pending-limit={section.pending_limit}"
    make = SetupEdit.shell_command_edit(
        f"{PROGRAM} {policy.clusters[policy.site.cluster].folder} queue {name} {options}"
    )
    return CheckFinding.finding_by_condition(slots.get(name) == section.slots, f"queue {name}", actual, right, make)
