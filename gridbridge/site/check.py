"""gridbridge check: looks at everything that a transfer queue needs, and judges it."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from gridbridge.batch.clusters import open_sessions
from gridbridge.config import policy_file
from gridbridge.decisions.site import check_findings as decisions
from gridbridge.decisions.site import (
    disk_space_findings,
    embedded_site,
    queue_section,
    setup,
    stale_configuration,
    tmpdir_safety,
    transfer_host,
    unconfigured_queues,
)
from gridbridge.decisions.site.setup.execution_host import value_findings
from gridbridge.decisions.transfer import dropped_clusters
from gridbridge.errors import ConfigError, GridbridgeError, NotAdmitted, UntrustedFile, plain_words
from gridbridge.model.attributes import Settings, words
from gridbridge.model.places import CONFIG, PUBLISHED
from gridbridge.model.policy import Policy
from gridbridge.model.site.host_facts import CellFacts, PollerFacts, StageFacts
from gridbridge.model.site.setup_findings import CheckFinding, FindingState, SetupSituation
from gridbridge.model.states import QueueState
from gridbridge.model.status_report import printable
from gridbridge.program import late_rounds
from gridbridge.program.configuration import digest
from gridbridge.program.watch.disk_space_watch import rooms_of
from gridbridge.shell import host
from gridbridge.shell.clock import Clock
from gridbridge.site import (
    admission_rule_check,
    area_name_check,
    balancer_setup,
    besteffort_setup,
    query_cache,
    queue_order_setup,
    runner_check,
    version_check,
)
from gridbridge.site import setup_edits as changes
from gridbridge.site.inspection import (
    cell_facts,
    folder_queues,
    host_facts,
    is_written,
    poller_facts,
    queue_states,
    rooms,
)
from gridbridge.site.login_check import key_facts, rsync_facts, stage_facts
from gridbridge.site.queue_request import AskedQueue, choose
from gridbridge.site.queue_setup import HomeSeen, observe, see_home
from gridbridge.state import published_json

AT_ONCE = 12  # questions to all clusters together
NO_ROOT = CheckFinding(
    item="user",
    state=FindingState.WARNING,
    found="not root",
    hint="run it as root: others can't see every file, nor change what is wrong",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """Every item with the commands that correct it, and the worst state of all."""

    items: tuple["CheckItem", ...]
    worst: FindingState


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckItem:
    """One item as it is shown."""

    name: str
    state: FindingState
    found: str
    right: str
    commands: tuple[str, ...]
    where: str
    hint: str


def check(clock: Clock, path: str = CONFIG) -> CheckReport:
    """Check the site that a configuration describes; a wrong file is the only finding.

    So is a file that the service refuses, with the account that a new service would need for it:
    other findings would correct something that is not in force. Only for the usual file the check
    judges whether programs read it.
    """
    sha256 = "" if path == CONFIG else None
    try:
        raw = policy_file.read(path)
        sha256 = digest(raw) if path == CONFIG else None
        policy = policy_file.parse(path, raw)
    except ConfigError as error:
        poller = poller_facts(sha256, clock.now_s())
        return _report(
            (*_unreadable(error), *stale_configuration.findings(poller, is_right=False)), None
        )
    if stale_configuration.is_refused(poller := poller_facts(sha256, clock.now_s())):
        return _report((*stale_configuration.findings(poller), *_account(policy)), policy)
    open_sessions(policy)
    return _report(tuple(findings(policy, sha256, clock)), policy)


def _account(policy: Policy) -> Iterator[CheckFinding]:
    if not policy.is_personal:
        uid = host.uid_of(policy.site.service_account)
        yield transfer_host.account_finding(uid, policy.site)


def findings(policy: Policy, sha256: str | None, clock: Clock) -> Iterator[CheckFinding]:
    """Look at everything and judge it, this host first; the digest is the configuration's."""
    with query_cache.kept():  # transfer and best-effort queues ask a cell for much of the same
        yield from (_folders if policy.is_personal else _site)(policy, sha256, clock)


def _site(policy: Policy, sha256: str | None, clock: Clock) -> Iterator[CheckFinding]:
    """Look at a site whose clusters are not folders, and judge it."""
    if os.geteuid() != 0:
        yield NO_ROOT
    with ThreadPoolExecutor(AT_ONCE) as threads:  # most of it is waiting for answers
        home = threads.submit(see_home, policy, host.name())  # the first: situations wait for it
        cell_futures = {
            name: threads.submit(cell_facts, name, policy, clock) for name in policy.clusters
        }
        keys = threads.submit(key_facts, policy)
        situations = {
            queue: threads.submit(_situation, policy, queue, home) for queue in policy.queues
        }
        best = {name: threads.submit(_besteffort, policy, name) for name in policy.clusters}
        states = threads.submit(_states, policy, cell_futures)
        files = threads.submit(_files, policy)
        own = threads.submit(lambda: tuple(balancer_setup.findings(policy, clock)))
        account = policy.site.service_account
        admitting = threads.submit(lambda: tuple(admission_rule_check.findings(account)))
        facts = host_facts(policy)  # while the cells are asked
    cells = {name: cell.result() for name, cell in cell_futures.items()}
    yield from transfer_host.program_findings(facts)
    yield from transfer_host.host_findings(facts, policy.site)
    yield transfer_host.state_finding(facts, policy.site)
    yield from disk_space_findings.findings(facts.room)
    facts = replace(facts, cells=cells, poller=poller_facts(sha256, clock.now_s()))
    without_rsync, stages, names = files.result()
    facts = replace(facts, keys=keys.result(), without_rsync=without_rsync)
    facts = replace(facts, stages=stages, queues=states.result())
    yield from decisions.no_queue(policy)
    yield from _dropped(policy)
    yield from decisions.running_findings(facts, policy)
    queues = _queues(home)
    yield from unconfigured_queues.findings(queues, policy)
    yield from queue_order_setup.findings(policy, queues)
    answering = (name for name, cell in cells.items() if not cell.trouble)
    yield from (finding for name in answering for finding in best[name].result())
    yield from own.result()
    yield from admitting.result()
    yield from runner_check.findings(clock)
    yield from late_rounds.findings(clock.now())
    yield from names
    yield version_check.finding()
    yield from _tmpdirs(queues, policy)
    if policy.queues:
        yield queue_section.room(policy, queue_section.all_slots(policy))
    has_values = facts.poller.age_s is not None and facts.poller.age_s <= policy.poller.stale_s
    for queue, situation in situations.items():
        yield from _queue(queue, situation, facts.poller if has_values else None)


def _dropped(policy: Policy, folder: str = PUBLISHED) -> Iterator[CheckFinding]:
    """Judge what is published of transfers; a file that can't be read hides no other finding."""
    try:
        transfers = published_json.read_transfers(folder)
    except (GridbridgeError, OSError) as error:
        hint = "gridbridge-poller publishes it again when a transfer changes, or when it is started"
        yield CheckFinding(
            item="published", state=FindingState.BROKEN, found=plain_words(error), hint=hint
        )
        return
    yield from dropped_clusters.findings(transfers, policy.clusters)


def _files(
    policy: Policy,
) -> tuple[dict[str, str], dict[str, StageFacts], tuple[CheckFinding, ...]]:
    """Ask for what concerns files one after the other: each further session is a login."""
    return rsync_facts(policy), stage_facts(policy), area_name_check.findings(policy)


def _besteffort(policy: Policy, cluster: str) -> tuple[CheckFinding, ...]:
    return tuple(besteffort_setup.check(policy, cluster))


def _states(policy: Policy, cells: Mapping[str, Future[CellFacts]]) -> Mapping[str, QueueState]:
    """Return the state of each transfer queue; none where the site's own cluster is silent.

    A site without transfer queues may have no cluster of its own.
    """
    if policy.why_no_queues or cells[policy.site.cluster].result().trouble:
        return {}
    return queue_states(policy)


def _queues(home: Future[HomeSeen]) -> Mapping[str, Settings]:
    """Return the local cluster's queues; none while it is silent, or of a kind without them."""
    try:
        return home.result().setup.queues
    except GridbridgeError:
        return {}


def _tmpdirs(queues: Mapping[str, Settings], policy: Policy) -> Iterator[CheckFinding]:
    """Judge where execd makes TMPDIR for the queues here; by this host for all."""
    written = frozenset(folder for folder in tmpdir_safety.folders(queues) if is_written(folder))
    yield from tmpdir_safety.findings(policy.site.cluster, queues, written)
    ours = {name: queue for name, queue in queues.items() if name in policy.queues}
    yield from disk_space_findings.findings(rooms_of(tmpdir_safety.folders(ours)))


def _folders(policy: Policy, sha256: str | None, clock: Clock) -> Iterator[CheckFinding]:
    """Look at a site of embedded clusters and judge it."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        cells = _cells(policy, threads, clock)
    home = policy.site.cluster
    slots = {} if cells[home].trouble else folder_queues(policy)
    yield from decisions.no_queue(policy)
    yield from disk_space_findings.findings(rooms())
    yield from embedded_site.findings(poller_facts(sha256, clock.now_s()), cells, slots, policy)
    yield from admission_rule_check.findings("")
    yield from runner_check.findings(clock)
    yield from late_rounds.findings(clock.now())
    yield version_check.finding()


def _cells(policy: Policy, threads: ThreadPoolExecutor, clock: Clock) -> dict[str, CellFacts]:
    """Ask every cluster of the file, even if no queue leads to it yet."""
    names = tuple(policy.clusters)
    facts = threads.map(lambda name: cell_facts(name, policy, clock), names)
    return dict(zip(names, facts, strict=True))


def _queue(
    queue: str, future: Future[SetupSituation], poller: PollerFacts | None
) -> Iterator[CheckFinding]:
    """Judge a transfer queue's set-up; unknown while one of its cells is silent."""
    try:
        situation = future.result()
        yield from setup.findings(situation)
        yield from value_findings(situation, poller) if poller else ()
    except GridbridgeError as error:
        if isinstance(error, NotAdmitted) and os.geteuid() != 0:
            yield decisions.shut(f"queue {queue}")
            return
        yield CheckFinding(
            item=f"queue {queue}",
            state=FindingState.BROKEN,
            found=f"not judged: {error}",
            hint="mend the qmasters' answers first",
        )


def _situation(policy: Policy, queue: str, home: Future[HomeSeen]) -> SetupSituation:
    """Look at both cells; the queue's own host is the one that counts, once it has one."""
    options = AskedQueue(cluster=policy.queues[queue].cluster, queue=queue)
    request = choose(policy, options)
    situation = observe(policy, request, home.result())
    hosts = words(situation.home.queues.get(queue, {}).get("hostlist", ""))
    if len(hosts) == 1 and not hosts[0].startswith("@") and hosts[0] != request.host:
        return observe(policy, replace(request, host=hosts[0]), see_home(policy, hosts[0]))
    return situation


def _unreadable(error: ConfigError) -> Iterator[CheckFinding]:
    if isinstance(error, UntrustedFile):
        yield transfer_host.untrusted(error.path, error.wrong, error.mend)
        return
    for problem in error.problems:
        path, _, wrong = problem.partition(": ")
        hint = "edit the file" if os.path.exists(path) else ""  # a missing one says what to do
        yield CheckFinding(item=f"file {path}", state=FindingState.BROKEN, found=wrong, hint=hint)


def _report(findings: tuple[CheckFinding, ...], policy: Policy | None) -> CheckReport:
    return CheckReport(
        items=tuple(_item(finding, policy) for finding in findings), worst=decisions.worst(findings)
    )


def _item(finding: CheckFinding, policy: Policy | None) -> CheckItem:
    """Make a finding safe for root's terminal: it may have people's own words."""
    return CheckItem(
        name=printable(finding.item),
        state=finding.state,
        found=printable(finding.found),
        right=printable(finding.right),
        commands=tuple(
            changes.standalone(edit, policy) if policy else changes.command(edit)
            for edit in (() if finding.state == FindingState.OK else finding.mend)
        ),
        where=finding.where,
        hint=printable(finding.hint),
    )
