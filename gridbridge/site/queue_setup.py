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


def transfer_steps(policy: Policy, asked: AskedQueue) -> tuple[SetupStep, ...]:
    """Return what is missing of a transfer queue, in the order in which it is to be made."""
    wanted = choose(policy, asked)
    situation = _own_situation(policy, wanted)
    found = (*queue_section.findings(policy, wanted), *decisions.findings(situation))
    return steps(policy, possible(found))


def warnings(policy: Policy, asked: AskedQueue) -> tuple[str, ...]:
    """Say what a transfer queue would lack that no step of ours can add."""
    wanted = choose(policy, asked)
    stages = stage_facts(policy, asked.cluster).items()
    found = (
        queue_section.room(policy, queue_section.all_slots(policy, wanted)),
        *(stage_finding(name, stage) for name, stage in stages),
    )
    return tuple(map(_warning, (each for each in found if each.state != FindingState.OK)))


def _warning(found: CheckFinding) -> str:
    lines = "; ".join(edit.value for edit in found.mend)
    there = f"; on {found.where}: {lines}" if lines else ""
    return f"{found.item}: {found.found}; {found.right} ({found.hint}){there}"


def closed(asked: AskedQueue) -> str:
    """Say why a queue that was set up on this host is closed as long as its service is no other."""
    return configuration_wait.left() if asked.host in (None, host.name()) else ""


def removal_steps(
    policy: Policy, asked: AskedQueue, warn: Callable[[str], None]
) -> tuple[SetupStep, ...]:
    """Return the steps that remove a transfer queue's set-up; refuse one that is not there.

    A remote cluster that does not answer may be gone for ever: then the set-up at home is removed,
    and a warning says that nothing was changed at the other.
    """
    wanted = choose(policy, asked, must_exist=True)
    situation = _own_situation(policy, wanted, warn)
    others = [name for name, queue in policy.queues.items() if queue.cluster == asked.cluster]
    if others and wanted.queue not in {*others, *situation.home.queues}:
        raise GridbridgeError(
            f"no queue {wanted.queue}; to {asked.cluster} lead: {', '.join(others)}"
        )
    if used := _slots_used(policy, wanted):
        told = f"jobs are in {used} of its slots; qmod -d {wanted.queue}, then wait or qdel them"
        warn(f"queue {wanted.queue} can't be removed yet: {told}")
    return _removal(policy, situation)


def _slots_used(policy: Policy, wanted: QueueRequest) -> int:
    home = away(policy, wanted.home)
    seen = makes_queues(home).queue_instances(home, wanted.home)
    return sum(each.slots_used for each in seen if each.queue == wanted.queue)


def left_steps(policy: Policy, asked: AskedQueue) -> tuple[SetupStep, ...]:
    """Return what a removal has left of a transfer queue's set-up."""
    wanted = choose(policy, asked, must_exist=True)
    return _removal(policy, _own_situation(policy, wanted, unheard=lambda _: None))


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
    found = transfer_host.host_findings(host_facts(policy), policy.site)
    for each in found:
        if each.found == UNSEEN:
            raise GridbridgeError(f"{each.item}: {each.found}; run it as root")
    return steps(policy, found)


def apply(steps: Iterable[SetupStep], policy: Policy, tell: Callable[[SetupStep], None]) -> None:
    """Make the steps one by one; stop at the first that fails: the next run goes on there."""
    for step in steps:
        if step.where:
            raise GridbridgeError(f"to be run on {step.where}: {step.environment}; {step.line}")
        changes.remember(step.undo)
        _make(step, policy)
        tell(step)


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
    made: dict[SetupEdit, SetupStep] = {}
    for each in findings:
        if each.state == FindingState.OK:
            continue
        for edit in each.mend:
            made.pop(edit, None)
            what = f"{each.item}: {each.found} -> {each.right}"
            what = AWAITED if edit == stale_configuration.AWAIT else what
            made[edit] = replace(
                _step(policy, edit, what),
                where=each.where,
                undo=tuple(undo for undo in each.undo if undo.done == edit),
            )
    return tuple(made.values())


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
    wanted: QueueRequest,
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
        there = _away(policy, wanted, home.setup)
    except GridbridgeError as error:
        if unheard is None:
            raise
        unheard(f"{wanted.remote} was not asked and nothing is changed there: {error}")
        there = CellSetup.bare("", {})
    return SetupSituation(
        wanted=wanted,
        home=home.setup,
        away=there,
        gids=host.gids(),
        execd=host.daemon("sge_execd") if wanted.host == host.name() else None,
        other_slots=sum(count for queue, count in slots.items() if queue != wanted.queue),
    )


def _away(policy: Policy, wanted: QueueRequest, home: CellSetup) -> CellSetup:
    """Look at the remote cluster."""
    there = away(policy, wanted.remote)
    return sets_up(there).remote_setup(there, wanted.host, home)


def _own_situation(
    policy: Policy, wanted: QueueRequest, unheard: Callable[[str], None] | None = None
) -> SetupSituation:
    """Look at both cells; refuse to change a queue that the site has made."""
    keep_connections(policy)
    situation = observe(policy, wanted, see_home(policy, wanted.host), unheard)
    if wanted.queue not in policy.queues and is_foreign(situation):
        raise GridbridgeError(f"queue {wanted.queue} is no transfer queue; give another --queue")
    return situation


def possible(found: Iterable[CheckFinding]) -> Iterable[CheckFinding]:
    """Return the findings; refuse if no command of ours can correct one of them."""
    listed = tuple(found)
    hopeless = (each for each in listed if each.state == FindingState.BROKEN and not each.mend)
    for each in hopeless:
        raise GridbridgeError(f"{each.item}: {each.found}; {each.hint}")
    return listed


def _named(edit: SetupEdit) -> str:
    """Say what an edit does that has no finding to explain it."""
    words = (edit.cell, edit.verb.value, edit.kind, edit.name, edit.attribute)
    if edit.verb == EditVerb.SHELL and edit.name:
        return f"take away {edit.name}"
    if edit.verb == EditVerb.SHELL:
        return "wait until nothing is left of it" if edit.cell else "take the section out"
    return " ".join(word for word in words if word)


def _step(policy: Policy, edit: SetupEdit, what: str) -> SetupStep:
    return SetupStep(
        what=what,
        line=changes.command(edit),
        environment=changes.environment(edit, policy),
        where="",
        edit=edit,
    )
