"""The queue's section of gridbridge.toml, which the poller and the starters obey."""

import json
import shlex
from dataclasses import fields, replace

from gridbridge.model.places import CONFIG, PYTHON
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings import (
    CheckFinding,
    EditVerb,
    FindingState,
    SetupEdit,
    TransferQueueSetup,
)
from gridbridge.model.status_report import with_noun
from gridbridge.model.transfer.transfer_sections import TransferQueue

MESSAGES_A_SLOT = 4  # a record, an intent, an end and its closing may lie there at once
EDITOR = "gridbridge.config.edit"
FEWER = "or give the queues fewer slots"


def queue_section_findings(policy: Policy, request: TransferQueueSetup) -> tuple[CheckFinding, ...]:
    """Judge the section; other keys that people wrote there are left alone."""
    section = policy.queues.get(request.queue)
    unset = TransferQueue(cluster="", pending_limit=-1, slots=0)
    right = replace(
        section or unset,
        cluster=request.remote,
        pending_limit=request.pending_limit,
        slots=request.slots,
        remote_usage=request.remote_usage,
    )
    item = f"file {CONFIG}: [queue.{request.queue}]"
    if section == right:
        return (CheckFinding(item=item, state=FindingState.OK, found=_shown(right)),)
    return (
        CheckFinding(
            item=item,
            state=FindingState.BROKEN,
            found=_shown(section) if section else "missing",
            right=_shown(right),
            mend=(_edit("put", request.queue, *_changes(section or unset, right)),),
        ),
    )


def spool_limit_finding(policy: Policy, slots: int) -> CheckFinding:
    """Judge whether one user may fill all transfer slots; messages over the limit are removed."""
    needed, limit = MESSAGES_A_SLOT * slots, policy.poller.spool_files_per_uid
    item, limit_text = f"file {CONFIG}: spool_files_per_uid", f"{limit}"
    if needed <= limit:
        return CheckFinding(item=item, state=FindingState.OK, found=limit_text)
    return CheckFinding(
        item=item,
        state=FindingState.WARNING,
        found=f"{limit_text}, too few for {slots} transfer slots of one user",
        right=f"{needed} at least",
        hint=f"set it in [poller], {FEWER}",
    )


def total_transfer_slots(policy: Policy, request: TransferQueueSetup | None = None) -> int:
    """Return the slots of all transfer queues, the wanted one as it will be."""
    slots = {name: queue.slots for name, queue in policy.queues.items()}
    return sum({**slots, **({request.queue: request.slots} if request else {})}.values())


def queue_section_removal_edits(
    policy: Policy, request: TransferQueueSetup
) -> tuple[SetupEdit, ...]:
    """Return the edit that takes the section out of the file."""
    return (_edit("drop", request.queue),) if request.queue in policy.queues else ()


def _shown(queue: TransferQueue) -> str:
    return f"{with_noun(queue.slots, 'slot')}, pending_limit {queue.pending_limit}"


def _changes(actual: TransferQueue, right: TransferQueue) -> tuple[str, ...]:
    """Return the keys that have to have another value, a line of TOML each."""
    pairs = (
        (key.name, getattr(actual, key.name), getattr(right, key.name)) for key in fields(right)
    )
    return tuple(f"{name} = {json.dumps(new)}" for name, old, new in pairs if old != new)


def _edit(verb: str, queue: str, *lines: str) -> SetupEdit:
    """Return the edit whose line changes the file and leaves people's comments as they are."""
    program = (PYTHON, "-I", "-m", EDITOR, CONFIG)
    return SetupEdit(
        verb=EditVerb.SHELL, value=shlex.join((*program, verb, "queue", queue, *lines))
    )
