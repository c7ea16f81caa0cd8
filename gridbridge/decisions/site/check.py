"""What a running site shows: the poller, clocks, versions and the queue's own state."""

import re
from collections.abc import Iterator

from gridbridge.decisions.site import folders, reload
from gridbridge.decisions.site.paths import UNSEEN
from gridbridge.model.cluster import Kind
from gridbridge.model.places import CONFIG, HOME, PYTHON
from gridbridge.model.policy import Policy
from gridbridge.model.report import count
from gridbridge.model.site.host import CellFacts, HostFacts, KeyFacts, PollerFacts, StageFacts
from gridbridge.model.site.setup import Edit, Finding, State, Verb
from gridbridge.model.states import QueueFact, QueueState

MAX_SKEW_S = 5.0  # published values are refused when they seem to come from the future
TRIED_OAR = re.compile(r"OAR 2\.5\.")
TRIED = re.compile(r"SGE 8\.1\.")  # where methods run under /bin/sh, whatever shell a job asks for
MAX_WORDS = 160  # characters of a log line
BY_SSH = "ssh: "  # how ssh's own trouble begins
DENIED = "denied: host"
NEEDED_SECTION = "[queue.NAME]"
NEEDS_SOMEBODY = frozenset((QueueFact.ERROR, QueueFact.DISABLED, QueueFact.UNREACHABLE))


def running_findings(facts: HostFacts, policy: Policy) -> Iterator[Finding]:
    """Judge everything that changes while a site runs."""
    yield _poller(facts.poller, policy)
    yield from reload.findings(facts.poller)
    for name, cell in facts.cells.items():
        if cell.is_shut and not facts.is_root:
            yield shut(name)
            continue
        cluster = policy.clusters.get(name)
        judge = JUDGES[cluster.kind if cluster else Kind.GRIDENGINE]
        yield from judge(name, cell, facts.name)
    yield from map(_key, facts.keys)
    for name, place in facts.without_rsync.items():
        yield _rsync(name, place)
    for name, stage in facts.stages.items():
        yield stage_finding(name, stage)
    for queue, state in facts.queues.items():
        yield from _queue(queue, state, policy)


def shut(item: str) -> Finding:
    """Return the finding about what whoever asks has no account for: others may well have one."""
    return Finding(item=item, state=State.WARNING, found=UNSEEN)


def worst(findings: tuple[Finding, ...]) -> State:
    """Return the worst state of all, OK for none."""
    for state in (State.BROKEN, State.WARNING):
        if any(each.state == state for each in findings):
            return state
    return State.OK


def no_queue(policy: Policy) -> Iterator[Finding]:
    """Report a site without a transfer queue: there is nothing to check."""
    if policy.queues:
        return
    if why := policy.why_no_queues:
        yield Finding(item=f"file {CONFIG}: transfer queues", state=State.OK, found=f"none: {why}")
        return
    remotes = [name for name in policy.clusters if name != policy.site.cluster]
    right = f"gridbridge setup transfer {remotes[0] if remotes else 'CLUSTER'} --apply"
    yield Finding(
        item=f"file {CONFIG}: transfer queues",
        state=State.WARNING,
        found=f"no {NEEDED_SECTION}",
        right="one at least",
        mend=(Edit(verb=Verb.SHELL, value=right),) if remotes else (),
        hint="" if remotes else "add a [cluster.NAME] for the remote cluster",
    )


def _poller(poller: PollerFacts, policy: Policy) -> Finding:
    right = f"values no older than {policy.poller.stale_s:g} s"
    if poller.is_running is False:
        words = f"; its log ends: {poller.last_words[:MAX_WORDS]}" if poller.last_words else ""
        return _stopped(f"not running{words}", right, policy)
    if poller.age_s is not None and -1 <= poller.age_s <= policy.poller.stale_s:
        return Finding(item="poller", state=State.OK, found=f"values of {poller.age_s:.0f} s ago")
    age = f"values of {poller.age_s:.0f} s ago" if poller.age_s is not None else "no values"
    if not poller.pid:
        return _stopped(f"{age}, and its process is not ours to see", right, policy)
    gone = f"while kill -0 {poller.pid} 2>/dev/null; do sleep 0.1; done"
    return _stopped(age, right, policy, f"kill -9 {poller.pid}; {gone}; ")


def _stopped(found: str, right: str, policy: Policy, first: str = "") -> Finding:
    """Return the finding whose mend starts the poller; the load sensor would do so as well."""
    program = f"{PYTHON} -I -c 'from gridbridge.services.poller import main; main()'"
    account = policy.site.service_account
    become = f"setpriv --reuid {account} --regid {account} --init-groups"
    start = f"setsid --fork {become} {program}"
    line = f"{first}cd / && {start} </dev/null >>{HOME}/poller.log 2>&1"
    edit = Edit(verb=Verb.SHELL, value=line)
    return Finding(item="poller", state=State.BROKEN, found=found, right=right, mend=(edit,))


def _cell(name: str, cell: CellFacts, host: str) -> Iterator[Finding]:
    yield _answer(name, cell, host)
    if not cell.trouble:
        yield _version(name, cell)
        yield _clock(name, cell)


def _server(name: str, cell: CellFacts, _host: str) -> Iterator[Finding]:
    yield _oar_answer(name, cell)
    if not cell.trouble:
        yield _oar_version(name, cell)
        yield _clock(name, cell)


def _folder(name: str, cell: CellFacts, _host: str) -> Iterator[Finding]:
    yield folders.cluster_finding(name, cell)


def _answer(name: str, cell: CellFacts, host: str) -> Finding:
    """Judge a qmaster's answer; it answers qconf only on its admin hosts."""
    item = f"{name}: qmaster"
    if not cell.trouble:
        return Finding(item=item, state=State.OK, found=f"answers from {cell.master}")
    is_refused = DENIED in cell.trouble
    if is_refused:
        edit = Edit(verb=Verb.ADMIT, cell=name, kind="admin", name=host)
        item = f"{name}: admin host {host}"
    elif cell.other_port:
        return _wrong_port(name, cell)
    else:
        edit = Edit(verb=Verb.SHELL, cell=name, value="sge_qmaster")
    return Finding(
        item=item,
        state=State.BROKEN,
        found=cell.trouble,
        right="an answer",
        mend=(edit,) if cell.master else (),
        where=cell.master,
        hint=_first(name, cell, is_refused=is_refused) if cell.master else _hint(name, cell),
    )


def _first(name: str, cell: CellFacts, *, is_refused: bool) -> str:
    """Say what to look at before anybody starts a qmaster: a second one does harm."""
    if is_refused:
        return ""
    ports = f"compare the ports of [cluster.{name}] first"
    return f"run this only if no qmaster runs on {cell.master}; {ports}"


def _wrong_port(name: str, cell: CellFacts) -> Finding:
    """Judge a qmaster that answers on another port: a second one would do harm."""
    return Finding(
        item=f"{name}: qmaster",
        state=State.BROKEN,
        found=f"{cell.trouble}, but one answers on port {cell.other_port} of {cell.master}",
        right=f"qmaster_port = {cell.other_port}, if that is the cell's",
        hint=f"compare the ports of [cluster.{name}] in {CONFIG} first; start no qmaster",
    )


def _oar_answer(name: str, cell: CellFacts) -> Finding:
    """Judge an OAR server's answer."""
    item = f"{name}: OAR server"
    if not cell.trouble:
        found = f"answers on {cell.master}, {count(cell.slots or 0, 'slot')}"
        return Finding(item=item, state=State.OK, found=found)
    login = cell.trouble.startswith(BY_SSH)
    hint = _hint(name, cell) if login else f"the server of [cluster.{name}], or its database"
    return Finding(item=item, state=State.BROKEN, found=cell.trouble, right="an answer", hint=hint)


def _oar_version(name: str, cell: CellFacts) -> Finding:
    item = f"{name}: version"
    if TRIED_OAR.match(cell.version):
        return Finding(item=item, state=State.OK, found=cell.version)
    hint = "OAR 3 prints other JSON; tried on 2.5.9 alone"
    found = cell.version or "unknown"
    return Finding(item=item, state=State.WARNING, found=found, right="OAR 2.5.x", hint=hint)


def _hint(name: str, cell: CellFacts) -> str:
    if cell.trouble.startswith(BY_SSH):
        return f"mend the login of [cluster.{name}] of {CONFIG}"
    return f"[cluster.{name}] of {CONFIG} has to name its cell"


def _version(name: str, cell: CellFacts) -> Finding:
    item = f"{name}: version"
    if TRIED.match(cell.version):
        return Finding(item=item, state=State.OK, found=cell.version)
    return Finding(
        item=item,
        state=State.WARNING,
        found=cell.version or "unknown",
        right="SGE 8.1.x: elsewhere methods run under the job's own shell (-S)",
        hint="jobs with -S of no sh can't be suspended or deleted there; tried on 8.1.9 alone",
    )


def _clock(name: str, cell: CellFacts) -> Finding:
    item = f"{name}: clock"
    if cell.ahead_s is None:
        return Finding(
            item=item,
            state=State.WARNING,
            found="qping does not tell it",
            right=f"within {MAX_SKEW_S:g} s",
            hint=f"compare `date` here and on {cell.master}",
        )
    found = f"{cell.ahead_s:+.0f} s"
    if abs(cell.ahead_s) <= MAX_SKEW_S:
        return Finding(item=item, state=State.OK, found=found)
    return Finding(
        item=item,
        state=State.WARNING,
        found=f"{found} from this host's",
        right=f"within {MAX_SKEW_S:g} s",
        mend=(Edit(verb=Verb.SHELL, value="chronyc makestep"),),
        where=cell.master,
    )


def _key(key: KeyFacts) -> Finding:
    """Judge a person's key; what is sent without it comes home."""
    item, right = f"{key.cluster}: key of {key.person}", f"leads into the account {key.account}"
    if not key.trouble:
        return Finding(item=item, state=State.OK, found=right)
    hint = f"until then jobs of {key.person} that are sent there wait, or come home when refused"
    return Finding(item=item, state=State.WARNING, found=key.trouble, right=right, hint=hint)


def _rsync(name: str, place: str) -> Finding:
    """Judge rsync, which carries the files that jobs declare (docs/how-to/staging.md)."""
    item = f"{name}: rsync"
    if not place:
        return Finding(item=item, state=State.OK, found="here and there")
    return Finding(
        item=item,
        state=State.WARNING,
        found=f"missing on {place}",
        right="here and there",
        hint=f"apt-get install rsync on {place}; until then jobs with stage_in or stage_out wait",
    )


def stage_finding(name: str, stage: StageFacts) -> Finding:
    """Judge where accounts have their folders for carried files; none is made for them there."""
    item = f"{name}: stage_dir"
    if not stage.wrong:
        return Finding(item=item, state=State.OK, found=stage.place)
    return Finding(
        item=item,
        state=State.BROKEN,
        found=stage.wrong,
        right="a sticky folder, or one where nobody else writes",
        mend=(Edit(verb=Verb.SHELL, value=stage.mend),),
        where=stage.host,
        hint="until then jobs that are sent there with files to carry wait",
    )


def _queue(queue: str, state: QueueState, policy: Policy) -> Iterator[Finding]:
    """Judge a queue's state: error and disabled need a person, others pass by themselves."""
    item, home = f"queue {queue}: state", policy.site.cluster
    if QueueFact.ERROR in state.facts:
        clear = Edit(verb=Verb.CLEAR, cell=home, name=queue)
        yield _closed(item, State.BROKEN, "in error state (E)", clear)
    if QueueFact.DISABLED in state.facts:
        enable = Edit(verb=Verb.ENABLE, cell=home, name=queue)
        yield _closed(item, State.WARNING, "disabled by hand (d)", enable)
    if QueueFact.UNREACHABLE in state.facts:
        hint = f"start sge_execd on {queue.rpartition('@')[2]}"
        yield Finding(item=item, state=State.BROKEN, found="its execd is silent (u)", hint=hint)
    if not state.facts & NEEDS_SOMEBODY:
        is_loaded = QueueFact.LOADED in state.facts
        found = f"closed by load ({state.text})" if is_loaded else state.text or "open"
        yield Finding(item=item, state=State.OK, found=found)


def _closed(item: str, state: State, found: str, mend: Edit) -> Finding:
    return Finding(item=item, state=state, found=found, right="open", mend=(mend,))


JUDGES = {Kind.GRIDENGINE: _cell, Kind.OAR: _server, Kind.EMBEDDED: _folder}
