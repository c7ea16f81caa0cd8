"""Checks a running site: the poller, clocks, versions and queue states.

One user owns a whole site of embedded clusters, so no rights are checked there, and `gridbridge setup` changes nothing.
"""

import re
from collections.abc import Iterator, Mapping

from gridbridge.decisions.site import service_fault_findings
from gridbridge.decisions.site.account_and_file_findings import UNSEEN
from gridbridge.decisions.transfer.transfer_queue_closing import are_load_values_fresh
from gridbridge.model.fixed_paths import CONFIG, HOME, METHODS, PYTHON
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.site.setup_findings_and_edits import CheckFinding, FindingSeverity, SetupEdit, SetupEditVerb
from gridbridge.model.site.site_check_facts import (
    ClusterFacts,
    PollerProcessFacts,
    SshKeyLoginFacts,
    StageDirFacts,
    TransferHostFacts,
)
from gridbridge.model.site_configuration import ClusterKind, Policy
from gridbridge.model.states import QueueInstanceState, QueueStartBlocker

MAX_SKEW_S = 5.0  # load values with a timestamp in the future are rejected
TRIED_OAR = re.compile(r"OAR 2\.5\.")
TRIED = re.compile(r"SGE 8\.1\.")  # in these versions queue methods run under /bin/sh, not under the job's shell
MAX_WORDS = 160  # limit of characters of a quoted log line
BY_SSH = "ssh: "  # prefix of errors from ssh itself
DENIED = "denied: host"
NEEDED_SECTION = "[queue.NAME]"
NEEDS_SOMEBODY = frozenset((QueueStartBlocker.ERROR, QueueStartBlocker.DISABLED, QueueStartBlocker.UNREACHABLE))


def running_site_findings(facts: TransferHostFacts, policy: Policy) -> Iterator[CheckFinding]:
    """Check the poller, clusters, keys, rsync and queues of a running site."""
    yield _poller(facts.poller, policy)
    yield from service_fault_findings.stale_configuration_findings(facts.poller)
    for name, cell in facts.cells.items():
        if cell.is_shut and not facts.is_root:
            yield CheckFinding.warning(name, UNSEEN)
            continue
        cluster = policy.clusters.get(name)
        judge = JUDGES[cluster.kind if cluster else ClusterKind.GRIDENGINE]
        yield from judge(name, cell, facts.name)
    yield from map(_key, facts.keys)
    for name, host in facts.without_rsync.items():
        yield _rsync(name, host)
    for name, stage in facts.stages.items():
        yield stage_dir_finding(name, stage)
    for queue, state in facts.queues.items():
        yield from _queue(queue, state, policy)


def worst_finding_state(findings: tuple[CheckFinding, ...]) -> FindingSeverity:
    """Return the worst state of findings, BROKEN, WARNING or OK; a NOTE is as good as OK."""
    for state in (FindingSeverity.BROKEN, FindingSeverity.WARNING):
        if any(finding.state == state for finding in findings):
            return state
    return FindingSeverity.OK


def no_transfer_queue_findings(policy: Policy) -> Iterator[CheckFinding]:
    """Report a site whose gridbridge.toml has no transfer queue to check."""
    if policy.queues:
        return
    if why := policy.why_no_queues:
        yield CheckFinding.ok(f"file {CONFIG}: transfer queues", f"none: {why}")
        return
    remotes = [name for name in policy.clusters if name != policy.site.cluster]
    right = f"gridbridge setup transfer {remotes[0] if remotes else 'CLUSTER'} --apply"
    yield CheckFinding.warning(
        f"file {CONFIG}: transfer queues",
        f"no {NEEDED_SECTION}",
        "at least one",
        *((SetupEdit.shell(right),) if remotes else ()),
        hint="" if remotes else "add a [cluster.NAME] for the remote cluster",
    )


def _poller(poller: PollerProcessFacts, policy: Policy) -> CheckFinding:
    right = f"values no older than {policy.poller.stale_s:g} s"
    if poller.is_running is False:
        words = f"; the log ends: {poller.last_words[:MAX_WORDS]}" if poller.last_words else ""
        return _stopped(f"not running{words}", right, policy)
    if poller.age_s is not None and are_load_values_fresh(poller.age_s, policy.poller.stale_s):
        return CheckFinding.ok("poller", f"values of {poller.age_s:.0f} s ago")
    age = f"values of {poller.age_s:.0f} s ago" if poller.age_s is not None else "no values"
    if not poller.pid:
        return _stopped(f"{age}, and the poller's process is not visible", right, policy)
    wait = f"while kill -0 {poller.pid} 2>/dev/null; do sleep 0.1; done"
    return _stopped(age, right, policy, f"kill -9 {poller.pid}; {wait}; ")


def _stopped(actual: str, right: str, policy: Policy, first: str = "") -> CheckFinding:
    program = f"{PYTHON} -I -c 'from gridbridge.transfer.poller.program import main; main()'"
    account = policy.site.service_account
    become = f"setpriv --reuid {account} --regid {account} --init-groups"
    start = f"setsid --fork {become} {program}"
    line = f"{first}cd / && {start} </dev/null >>{HOME}/poller.log 2>&1"
    edit = SetupEdit.shell(line)
    return CheckFinding.broken("poller", actual, right, edit)


def _cell(name: str, cell: ClusterFacts, host: str) -> Iterator[CheckFinding]:
    yield _answer(name, cell, host)
    if not cell.trouble:
        yield _version(name, cell)
        yield _clock(name, cell)


def _server(name: str, cell: ClusterFacts, _host: str) -> Iterator[CheckFinding]:
    yield _oar_answer(name, cell)
    if not cell.trouble:
        yield _oar_version(name, cell)
        yield _clock(name, cell)


def _folder(name: str, cell: ClusterFacts, _host: str) -> Iterator[CheckFinding]:
    yield embedded_cluster_finding(name, cell)


def _answer(name: str, cell: ClusterFacts, host: str) -> CheckFinding:
    """Check that a qmaster answers this host, which must be an admin host for qconf."""
    item = f"{name}: qmaster"
    if not cell.trouble:
        return CheckFinding.ok(item, f"answers from {cell.master}")
    is_refused = DENIED in cell.trouble
    if is_refused:
        edit = SetupEdit(verb=SetupEditVerb.ADMIT, cell=name, kind="admin", name=host)
        item = f"{name}: admin host {host}"
    elif cell.other_port:
        return _wrong_port(name, cell)
    else:
        edit = SetupEdit.shell("sge_qmaster", name)
    return CheckFinding.broken(
        item,
        cell.trouble,
        "an answer",
        *((edit,) if cell.master else ()),
        where=cell.master,
        hint=_first(name, cell, is_refused=is_refused) if cell.master else _hint(name, cell),
    )


def _first(name: str, cell: ClusterFacts, *, is_refused: bool) -> str:
    """Return the advice to look for a running qmaster before starting another, because a second qmaster does harm."""
    if is_refused:
        return ""
    ports = f"compare the ports of [cluster.{name}] first"
    return f"run this command only if no qmaster runs on {cell.master}; {ports}"


def _wrong_port(name: str, cell: ClusterFacts) -> CheckFinding:
    return CheckFinding.broken(
        f"{name}: qmaster",
        f"{cell.trouble}, but a qmaster answers on port {cell.other_port} of {cell.master}",
        f"qmaster_port = {cell.other_port}, if this qmaster belongs to the cell",
        hint=f"compare the ports of [cluster.{name}] in {CONFIG} first; start no qmaster",
    )


def _oar_answer(name: str, cell: ClusterFacts) -> CheckFinding:
    item = f"{name}: OAR server"
    if not cell.trouble:
        actual = f"answers on {cell.master}, {number_with_noun(cell.slots or 0, 'slot')}"
        return CheckFinding.ok(item, actual)
    login = cell.trouble.startswith(BY_SSH)
    hint = _hint(name, cell) if login else f"check the server of [cluster.{name}] and its database"
    return CheckFinding.broken(item, cell.trouble, "an answer", hint=hint)


def _oar_version(name: str, cell: ClusterFacts) -> CheckFinding:
    item = f"{name}: version"
    if TRIED_OAR.match(cell.version):
        return CheckFinding.ok(item, cell.version)
    hint = "OAR 3 prints other JSON; tested on 2.5.9 only"
    actual = cell.version or "unknown"
    return CheckFinding.warning(item, actual, "OAR 2.5.x", hint=hint)


def _hint(name: str, cell: ClusterFacts) -> str:
    if cell.trouble.startswith(BY_SSH):
        return f"correct the login in [cluster.{name}] of {CONFIG}"
    return f"correct the cell in [cluster.{name}] of {CONFIG}"


def _version(name: str, cell: ClusterFacts) -> CheckFinding:
    item = f"{name}: version"
    if TRIED.match(cell.version):
        return CheckFinding.ok(item, cell.version)
    return CheckFinding.warning(
        item,
        cell.version or "unknown",
        "SGE 8.1.x: other versions run methods under the job's own shell (-S)",
        hint="jobs with -S other than sh can't be suspended or deleted; tested on 8.1.9",
    )


def _clock(name: str, cell: ClusterFacts) -> CheckFinding:
    item = f"{name}: clock"
    if cell.ahead_s is None:
        return CheckFinding.warning(
            item,
            "qping does not report the clock",
            f"within {MAX_SKEW_S:g} s",
            hint=f"compare `date` here and on {cell.master}",
        )
    actual = f"{cell.ahead_s:+.0f} s"
    if abs(cell.ahead_s) <= MAX_SKEW_S:
        return CheckFinding.ok(item, actual)
    return CheckFinding.warning(
        item,
        f"{actual} from this host's",
        f"within {MAX_SKEW_S:g} s",
        SetupEdit.shell("chronyc makestep"),
        where=cell.master,
    )


def _key(key: SshKeyLoginFacts) -> CheckFinding:
    """Check a user's ssh key for a cluster; without a key, the user's jobs wait or come home."""
    item, right = f"{key.cluster}: key of {key.person}", f"logs in to account {key.account}"
    if not key.trouble:
        return CheckFinding.ok(item, right)
    hint = f"until then jobs of {key.person} for this cluster wait, or come home when refused"
    return CheckFinding.warning(item, key.trouble, right, hint=hint)


def _rsync(name: str, host: str) -> CheckFinding:
    item = f"{name}: rsync"
    if not host:
        return CheckFinding.ok(item, "on both hosts")
    return CheckFinding.warning(
        item,
        f"missing on {host}",
        "on both hosts",
        hint=f"apt-get install rsync on {host}; until then jobs with stage_in or stage_out wait",
    )


def stage_dir_finding(name: str, stage: StageDirFacts) -> CheckFinding:
    """Check a cluster's stage_dir, the folder of the accounts' staged files."""
    item = f"{name}: stage_dir"
    if not stage.wrong:
        return CheckFinding.ok(item, stage.place)
    return CheckFinding.broken(
        item,
        stage.wrong,
        "a folder that is sticky, or that no other user can write to",
        SetupEdit.shell(stage.mend),
        where=stage.host,
        hint="until then jobs with staged files for this cluster wait",
    )


def _queue(queue: str, state: QueueInstanceState, policy: Policy) -> Iterator[CheckFinding]:
    item, home = f"queue {queue}: state", policy.site.cluster
    if QueueStartBlocker.ERROR in state.facts:
        clear = SetupEdit(verb=SetupEditVerb.CLEAR, cell=home, name=queue)
        yield _closed(item, FindingSeverity.BROKEN, "in error state (E)", clear)
    if QueueStartBlocker.DISABLED in state.facts:
        enable = SetupEdit(verb=SetupEditVerb.ENABLE, cell=home, name=queue)
        yield _closed(item, FindingSeverity.WARNING, "disabled by hand (d)", enable)
    if QueueStartBlocker.UNREACHABLE in state.facts:
        hint = f"start sge_execd on {queue.rpartition('@')[2]}"
        yield CheckFinding.broken(item, "execd does not answer (u)", hint=hint)
    if not state.facts & NEEDS_SOMEBODY:
        is_loaded = QueueStartBlocker.LOADED in state.facts
        actual = f"closed by load ({state.text})" if is_loaded else state.text or "open"
        yield CheckFinding.ok(item, actual)


def _closed(item: str, state: FindingSeverity, actual: str, mend: SetupEdit) -> CheckFinding:
    return CheckFinding(item=item, state=state, found=actual, right="open", mend=(mend,))


JUDGES = {ClusterKind.GRIDENGINE: _cell, ClusterKind.OAR: _server, ClusterKind.EMBEDDED: _folder}


PROGRAM = f"{PYTHON} -I -m gridbridge.batch.embedded"
START = f"echo | {METHODS}/sensor >/dev/null"  # the load sensor starts a missing service


def embedded_site_findings(
    poller: PollerProcessFacts, cells: Mapping[str, ClusterFacts], slots: Mapping[str, int], policy: Policy
) -> Iterator[CheckFinding]:
    """Check an embedded site's poller, clusters and queues; `slots` has the slots of each queue."""
    yield _embedded_poller(poller, policy.poller.stale_s)
    yield from service_fault_findings.stale_configuration_findings(poller)
    for name, cell in cells.items():
        yield embedded_cluster_finding(name, cell)
    if not cells[policy.site.cluster].trouble:
        for name in policy.queues:
            yield _embedded_queue(name, slots, policy)


def _embedded_poller(poller: PollerProcessFacts, stale_s: float) -> CheckFinding:
    if poller.age_s is not None and are_load_values_fresh(poller.age_s, stale_s):
        return CheckFinding.ok("poller", f"values of {poller.age_s:.0f} s ago")
    actual = "no values" if poller.age_s is None else f"values of {poller.age_s:.0f} s ago"
    return _broken("poller", actual, f"values no older than {stale_s:g} s", START)


def embedded_cluster_finding(name: str, cell: ClusterFacts) -> CheckFinding:
    """Check that an embedded cluster answers; the finding's edit creates a missing cluster."""
    if not cell.trouble:
        actual = f"answers, {number_with_noun(cell.slots or 0, 'slot')}"
        return CheckFinding.ok(f"{name}: cluster", actual)
    make = f"{PROGRAM} {cell.master} create --slots=4"
    return _broken(f"{name}: cluster", cell.trouble, "an answer", make)


def _embedded_queue(name: str, slots: Mapping[str, int], policy: Policy) -> CheckFinding:
    section = policy.queues[name]
    actual = number_with_noun(slots[name], "slot") if name in slots else "missing"
    if slots.get(name) == section.slots:
        return CheckFinding.ok(f"queue {name}", actual)
    options = f"--slots={section.slots} --remote={section.cluster}"
    options += f" --pending-limit={section.pending_limit}"
    make = f"{PROGRAM} {policy.clusters[policy.site.cluster].folder} queue {name} {options}"
    return _broken(f"queue {name}", actual, number_with_noun(section.slots, "slot"), make)


def _broken(item: str, actual: str, right: str, line: str) -> CheckFinding:
    mend = (SetupEdit.shell(line),)
    return CheckFinding.broken(item, actual, right, *mend)
