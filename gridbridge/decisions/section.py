"""The queue's section of gridbridge.toml, which the poller and the starters go by."""

import json
import shlex

from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy, TransferQueue
from gridbridge.model.setup import Edit, Finding, State, Verb, Wanted

MESSAGES_A_SLOT = 4  # a record, an intent, an end and its closing may lie there at once
FEWER = "or give the queues fewer slots"


def findings(policy: Policy, wanted: Wanted) -> tuple[Finding, ...]:
    """Judge the section; one that was written in another style is left to people."""
    known = policy.queues.get(wanted.queue)
    right = TransferQueue(
        cluster=wanted.remote,
        pending_limit=wanted.pending_limit,
        slots=wanted.slots,
        remote_usage=wanted.remote_usage,
    )
    item = f"file {CONFIG}: [queue.{wanted.queue}]"
    if known == right:
        return (Finding(item=item, state=State.OK, found=_shown(right)),)
    without = f"{_without(wanted)} && " if known else ""
    lines = " ".join(shlex.quote(line) for line in _lines(wanted.queue, right))
    edit = Edit(verb=Verb.SHELL, value=f"{without}printf '%s\\n' '' {lines} >>{CONFIG}")
    return (
        Finding(
            item=item,
            state=State.BROKEN,
            found=_shown(known) if known else "missing",
            right=_shown(right),
            mend=(edit,),
        ),
    )


def room(policy: Policy, slots: int) -> Finding:
    """Judge whether one user may fill all transfer slots: what is over the limit is removed."""
    needed, limit = MESSAGES_A_SLOT * slots, policy.poller.spool_files_per_uid
    item, found = f"file {CONFIG}: spool_files_per_uid", f"{limit}"
    if needed <= limit:
        return Finding(item=item, state=State.OK, found=found)
    return Finding(
        item=item,
        state=State.WARNING,
        found=f"{found}, too few for {slots} transfer slots of one user",
        right=f"{needed} at least",
        hint=f"set it in [poller], then end the poller, so that it starts anew; {FEWER}",
    )


def all_slots(policy: Policy, wanted: Wanted | None = None) -> int:
    """Return the slots of all transfer queues, the wanted one as it will be."""
    slots = {name: queue.slots for name, queue in policy.queues.items()}
    return sum({**slots, **({wanted.queue: wanted.slots} if wanted else {})}.values())


def removal(policy: Policy, wanted: Wanted) -> tuple[Edit, ...]:
    """Return what takes the section out of the file."""
    if wanted.queue not in policy.queues:
        return ()
    return (Edit(verb=Verb.SHELL, value=_without(wanted)),)


def _shown(queue: TransferQueue) -> str:
    return f"{queue.slots} slots, pending_limit {queue.pending_limit}"


def _lines(name: str, queue: TransferQueue) -> tuple[str, ...]:
    return (
        _title(name),
        f'cluster = "{queue.cluster}"',
        f"pending_limit = {queue.pending_limit}",
        f"slots = {queue.slots}",
        *(("remote_usage = true",) if queue.remote_usage else ()),
    )


def _title(name: str) -> str:
    is_bare = name.replace("-", "").replace("_", "").isalnum()
    return f"[queue.{name if is_bare else json.dumps(name)}]"


def _without(wanted: Wanted) -> str:
    """Return the line that takes the section out, and does nothing unless it finds it."""
    title = _title(wanted.queue)
    pattern = "".join(f"\\{letter}" if letter in "[]." else letter for letter in title)
    script = f"/^{pattern}$/,/^\\[/{{/^{pattern}$/d;/^\\[/!d}}"
    found = f"grep -qxF {shlex.quote(title)} {CONFIG}"
    return f"{found} && sed -i {shlex.quote(script)} {CONFIG}"
