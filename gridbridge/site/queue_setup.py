"""gridbridge setup: looks at both cells and this host, and makes what a transfer queue lacks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gridbridge.batch.clusters import away, keep_connections
from gridbridge.decisions.site import queue_section, stale_configuration, transfer_host
from gridbridge.decisions.site import setup as decisions
from gridbridge.decisions.site.check_findings import stage_finding
from gridbridge.decisions.site.file_modes import UNSEEN
from gridbridge.decisions.site.setup.queue_removal import removal
from gridbridge.decisions.site.setup.transfer_queue import is_foreign
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.attributes import is_transfer
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings import (
    CellSetup,
    CheckFinding,
    EditVerb,
    FindingState,
    QueueRequest,
    SetupEdit,
    SetupSituation,
    SharedSettingUndo,
)
from gridbridge.shell import host
from gridbridge.site import configuration_wait
from gridbridge.site import setup_edits as changes
from gridbridge.site.inspection import host_facts
from gridbridge.site.login_check import stage_facts
from gridbridge.site.queue_request import (
    AskedQueue,
    choose,
    makes_queues,
    refuse_embedded,
    sets_up,
)

AWAITED = "the service takes gridbridge.toml, if one runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupStep:
    """One edit as it is shown and made."""

    what: str
    line: str
    environment: str  # the line that points the shell at the step's cell; empty: any
    where: str
    edit: SetupEdit
    undo: tuple[SharedSettingUndo, ...] = ()


def transfer_steps(policy: Policy, options: AskedQueue) -> tuple[SetupStep, ...]:
    """Return what is missing of a transfer queue, in the order in which it is to be made."""
    request = choose(policy, options)
    situation = _own_situation(policy, request)
    findings = (*queue_section.findings(policy, request), *decisions.findings(situation))
    return steps(policy, possible(findings))


def warnings(policy: Policy, options: AskedQueue) -> tuple[str, ...]:
    """Say what a transfer queue would lack that no step of ours can add."""
    request = choose(policy, options)
    stages = stage_facts(policy, options.cluster).items()
    findings = (
        queue_section.room(policy, queue_section.all_slots(policy, request)),
        *(stage_finding(name, stage) for name, stage in stages),
    )
    return tuple(
        map(_warning, (finding for finding in findings if finding.state != FindingState.OK))
    )


def _warning(finding: CheckFinding) -> str:
    lines = "; ".join(edit.value for edit in finding.mend)
    suffix = f"; on {finding.where}: {lines}" if lines else ""
    return f"{finding.item}: {finding.found}; {finding.right} ({finding.hint}){suffix}"


def closed(options: AskedQueue) -> str:
    """Say why a queue that was set up on this host is closed as long as its service is no other."""
    return configuration_wait.left() if options.host in (None, host.name()) else ""


def removal_steps(
    policy: Policy, options: AskedQueue, warn: Callable[[str], None]
) -> tuple[SetupStep, ...]:
    """Return the steps that remove a transfer queue's set-up; refuse one that is not there.

    A remote cluster that does not answer may be gone for ever: then the set-up at home is removed,
    and a warning says that nothing was changed at the other.
    """
    request = choose(policy, options, must_exist=True)
    situation = _own_situation(policy, request, warn)
    siblings = [name for name, queue in policy.queues.items() if queue.cluster == options.cluster]
    if siblings and request.queue not in {*siblings, *situation.home.queues}:
        raise GridbridgeError(
            f"no queue {request.queue}; to {options.cluster} lead: {', '.join(siblings)}"
        )
    if used := _slots_used(policy, request):
        reason = f"jobs are in {used} of its slots; qmod -d {request.queue}, then wait or qdel them"
        warn(f"queue {request.queue} can't be removed yet: {reason}")
    return _removal(policy, situation)


def _slots_used(policy: Policy, request: QueueRequest) -> int:
    home = away(policy, request.home)
    instances = makes_queues(home).queue_instances(home, request.home)
    return sum(instance.slots_used for instance in instances if instance.queue == request.queue)


def left_steps(policy: Policy, options: AskedQueue) -> tuple[SetupStep, ...]:
    """Return what a removal has left of a transfer queue's set-up."""
    request = choose(policy, options, must_exist=True)
    return _removal(policy, _own_situation(policy, request, unheard=lambda _: None))


def _removal(policy: Policy, situation: SetupSituation) -> tuple[SetupStep, ...]:
    edits = [
        *removal(situation, changes.recall()),
        *queue_section.removal(policy, situation.wanted),
    ]
    return named_steps(policy, edits)


def named_steps(policy: Policy, edits: Iterable[SetupEdit]) -> tuple[SetupStep, ...]:
    """Turn edits into steps that say themselves what they do."""
    return tuple(_step(policy, edit, _named(edit)) for edit in edits)


def host_steps(policy: Policy) -> tuple[SetupStep, ...]:
    """Return the steps that this host needs; refuse if we can't see everything."""
    refuse_embedded(policy)
    findings = transfer_host.host_findings(host_facts(policy), policy.site)
    for finding in findings:
        if finding.found == UNSEEN:
            raise GridbridgeError(f"{finding.item}: {finding.found}; run it as root")
    return steps(policy, findings)


def apply(steps: Iterable[SetupStep], policy: Policy, report: Callable[[SetupStep], None]) -> None:
    """Make the steps one by one; stop at the first that fails: the next run goes on there."""
    for step in steps:
        if step.where:
            raise GridbridgeError(f"to be run on {step.where}: {step.environment}; {step.line}")
        changes.remember(step.undo)
        _make(step, policy)
        report(step)


def _make(step: SetupStep, policy: Policy) -> None:
    try:
        changes.make(step.edit, policy)
    except CommandFailed as error:
        raise GridbridgeError(f"{step.what}: {error.words}") from error


def without_undo(step: SetupStep) -> SetupStep:
    """Return a step that apply does not remember, for its maker does."""
    return replace(step, undo=())


def forget(policy: Policy) -> None:
    """Drop the notes of former values once the last transfer queue is gone."""
    home = away(policy, policy.site.cluster)
    if not any(map(is_transfer, makes_queues(home).queues(home).values())):
        changes.forget()


def steps(policy: Policy, findings: Iterable[CheckFinding]) -> tuple[SetupStep, ...]:
    """Turn findings into steps; the same edit is made once, where it comes last."""
    steps_by_edit: dict[SetupEdit, SetupStep] = {}
    for finding in findings:
        if finding.state == FindingState.OK:
            continue
        for edit in finding.mend:
            steps_by_edit.pop(edit, None)
            text = f"{finding.item}: {finding.found} -> {finding.right}"
            text = AWAITED if edit == stale_configuration.AWAIT else text
            steps_by_edit[edit] = replace(
                _step(policy, edit, text),
                where=finding.where,
                undo=tuple(undo for undo in finding.undo if undo.done == edit),
            )
    return tuple(steps_by_edit.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSeen:
    """What is set up in the local cluster for the transfer queues of a host."""

    setup: CellSetup
    slots: Mapping[str, int]  # of each queue on the host


def see_home(policy: Policy, of_host: str) -> HomeSeen:
    """Look at the local cluster; CommandFailed or StateError when it doesn't answer."""
    home = away(policy, policy.site.cluster)
    makes = makes_queues(home)
    return HomeSeen(setup=makes.home_setup(home, of_host), slots=makes.slots_on(home, of_host))


def observe(
    policy: Policy,
    request: QueueRequest,
    home: HomeSeen,
    unheard: Callable[[str], None] | None = None,
) -> SetupSituation:
    """Look at the remote cell, too; CommandFailed or StateError when it doesn't answer.

    With `unheard` it need not answer: `unheard` is called with the reason, and the cell counts as
    empty.
    """
    slots = dict(home.slots)
    slots |= {name: queue.slots for name, queue in policy.queues.items() if name in slots}
    try:
        remote = _away(policy, request, home.setup)
    except GridbridgeError as error:
        if unheard is None:
            raise
        unheard(f"{request.remote} was not asked and nothing is changed there: {error}")
        remote = CellSetup.bare("", {})
    return SetupSituation(
        wanted=request,
        home=home.setup,
        away=remote,
        gids=host.gids(),
        execd=host.daemon("sge_execd") if request.host == host.name() else None,
        other_slots=sum(count for queue, count in slots.items() if queue != request.queue),
    )


def _away(policy: Policy, request: QueueRequest, home: CellSetup) -> CellSetup:
    """Look at the remote cluster."""
    remote = away(policy, request.remote)
    return sets_up(remote).remote_setup(remote, request.host, home)


def _own_situation(
    policy: Policy, request: QueueRequest, unheard: Callable[[str], None] | None = None
) -> SetupSituation:
    """Look at both cells; refuse to change a queue that the site has made."""
    keep_connections(policy)
    situation = observe(policy, request, see_home(policy, request.host), unheard)
    if request.queue not in policy.queues and is_foreign(situation):
        raise GridbridgeError(f"queue {request.queue} is no transfer queue; give another --queue")
    return situation


def possible(findings: Iterable[CheckFinding]) -> Iterable[CheckFinding]:
    """Return the findings; refuse if no command of ours can correct one of them."""
    listed = tuple(findings)
    hopeless = (
        finding for finding in listed if finding.state == FindingState.BROKEN and not finding.mend
    )
    for finding in hopeless:
        raise GridbridgeError(f"{finding.item}: {finding.found}; {finding.hint}")
    return listed


def _named(edit: SetupEdit) -> str:
    """Say what an edit does that has no finding to explain it."""
    words = (edit.cell, edit.verb.value, edit.kind, edit.name, edit.attribute)
    if edit.verb == EditVerb.SHELL and edit.name:
        return f"take away {edit.name}"
    if edit.verb == EditVerb.SHELL:
        return "wait until nothing is left of it" if edit.cell else "take the section out"
    return " ".join(word for word in words if word)


def _step(policy: Policy, edit: SetupEdit, text: str) -> SetupStep:
    return SetupStep(
        what=text,
        line=changes.command(edit),
        environment=changes.environment(edit, policy),
        where="",
        edit=edit,
    )
