"""Findings about a transfer queue's section in gridbridge.toml."""

import json
import shlex
from dataclasses import fields, replace

from gridbridge.model.fixed_paths import CONFIG, PYTHON
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings_and_edits import (
    CheckFinding,
    FindingSeverity,
    SetupEdit,
    SetupEditVerb,
    WantedTransferQueue,
)
from gridbridge.model.status_report import number_with_noun
from gridbridge.model.transfer.transfer_config_sections import TransferQueueSection

MESSAGES_A_SLOT = 4  # record, intent, end and closing of a job may be in the spool at once
EDITOR = "gridbridge.config.edit"
FEWER = "or give the queues fewer slots"


def queue_section_findings(policy: Policy, request: WantedTransferQueue) -> tuple[CheckFinding, ...]:
    """Check the values of a transfer queue's section; other keys are kept."""
    section = policy.queues.get(request.queue)
    unset = TransferQueueSection(cluster="", pending_limit=-1, slots=0)
    right = replace(
        section or unset,
        cluster=request.remote,
        pending_limit=request.pending_limit,
        slots=request.slots,
        remote_usage=request.remote_usage,
    )
    item = f"file {CONFIG}: [queue.{request.queue}]"
    if section == right:
        return (CheckFinding(item=item, state=FindingSeverity.OK, found=_shown(right)),)
    return (
        CheckFinding(
            item=item,
            state=FindingSeverity.BROKEN,
            found=_shown(section) if section else "missing",
            right=_shown(right),
            mend=(_section_edit("put", request.queue, *_changes(section or unset, right)),),
        ),
    )


def user_spool_limit_finding(policy: Policy, slots: int) -> CheckFinding:
    """Check that spool_files_per_uid lets one user fill all transfer slots."""
    needed, limit = MESSAGES_A_SLOT * slots, policy.poller.spool_files_per_uid
    item, limit_text = f"file {CONFIG}: spool_files_per_uid", f"{limit}"
    if needed <= limit:
        return CheckFinding(item=item, state=FindingSeverity.OK, found=limit_text)
    return CheckFinding(
        item=item,
        state=FindingSeverity.WARNING,
        found=f"{limit_text}, too few for {slots} transfer slots of one user",
        right=f"{needed} at least",
        hint=f"set it in [poller], {FEWER}",
    )


def total_transfer_slots(policy: Policy, request: WantedTransferQueue | None = None) -> int:
    """Return the slots of all transfer queues, including the requested queue."""
    slots = {name: queue.slots for name, queue in policy.queues.items()}
    return sum({**slots, **({request.queue: request.slots} if request else {})}.values())


def queue_section_removal_edits(policy: Policy, request: WantedTransferQueue) -> tuple[SetupEdit, ...]:
    """Return the edit that removes a transfer queue's section from gridbridge.toml."""
    return (_section_edit("drop", request.queue),) if request.queue in policy.queues else ()


def _shown(queue: TransferQueueSection) -> str:
    return f"{number_with_noun(queue.slots, 'slot')}, pending_limit {queue.pending_limit}"


def _changes(actual: TransferQueueSection, right: TransferQueueSection) -> tuple[str, ...]:
    """Return the changed keys of a queue's section, one line of TOML each."""
    pairs = ((key.name, getattr(actual, key.name), getattr(right, key.name)) for key in fields(right))
    return tuple(f"{name} = {json.dumps(new)}" for name, old, new in pairs if old != new)


def _section_edit(verb: str, queue: str, *lines: str) -> SetupEdit:
    """Return the edit that changes gridbridge.toml and keeps the file's comments."""
    program = (PYTHON, "-I", "-m", EDITOR, CONFIG)
    return SetupEdit(verb=SetupEditVerb.SHELL, value=shlex.join((*program, verb, "queue", queue, *lines)))
