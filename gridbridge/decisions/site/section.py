"""The queue's section of gridbridge.toml, which the poller and the starters go by."""

import json
import shlex
from dataclasses import Field, fields, replace

from gridbridge.model.places import CONFIG
from gridbridge.model.policy import Policy, TransferQueue
from gridbridge.model.site.setup import Edit, Finding, State, Verb, Wanted

MESSAGES_A_SLOT = 4  # a record, an intent, an end and its closing may lie there at once
ANY_TITLE = r"""^\[\|^[[:blank:]]*\[[[:blank:]]*["'[:alpha:]]"""  # of sed; TOML lets it be indented
_BLANK = "[[:space:]]*"  # a carriage return too
FEWER = "or give the queues fewer slots"


def findings(policy: Policy, wanted: Wanted) -> tuple[Finding, ...]:
    """Judge the section; one that was written in another style is left to people."""
    known = policy.queues.get(wanted.queue)
    unset = TransferQueue(cluster=wanted.remote, pending_limit=0, slots=1)
    right = replace(  # what people wrote there of the rest is theirs
        known or unset,
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
        hint=f"set it in [poller], {FEWER}",
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
    said = ((key.name, getattr(queue, key.name)) for key in fields(queue) if _is_said(queue, key))
    return (_title(name), *(f"{key} = {_toml(value)}" for key, value in said))


def _is_said(queue: TransferQueue, key: "Field[object]") -> bool:
    """Say whether a key has to stand there, for it has no default or another value."""
    usual = TransferQueue(cluster="", pending_limit=-1, slots=0)
    return bool(getattr(queue, key.name) != getattr(usual, key.name))


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_key(name)} = {_toml(each)}' for name, each in value.items())} }}"
    return json.dumps(value)


def _title(name: str) -> str:
    return f"[queue.{_key(name)}]"


def _key(name: str) -> str:
    is_bare = name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else json.dumps(name)


def _without(wanted: Wanted) -> str:
    """Return the line that takes the section out, and does nothing unless it finds it."""
    found = f"grep -q {shlex.quote(_pattern(wanted.queue))} {CONFIG}"
    return f"{found} && sed -i {shlex.quote(_cut(wanted.queue))} {CONFIG}"


def _cut(name: str) -> str:
    """Return the sed script that takes a section and its asks out, up to the next one's title.

    The comment right above that title is the next one's: the hold space keeps comment lines until
    another line shows whose they are.
    """
    pattern = _pattern(name, rf"\({_BLANK}\.{_BLANK}[\"']\?asks[\"']\?\)\?")
    forget, go_on = "s/.*//;h;ba;", "$d;N;s/^.*\\n//"
    ours = f"/{pattern}/{{{forget}}};/^[[:blank:]]*#/{{H;ba;}};/{ANY_TITLE}/!{{{forget}}}"
    return f"/{pattern}/{{s/.*//;h;:a;{go_on};{ours};x;s/^\\n//;/./p;x;}}"


def _pattern(name: str, more: str = "") -> str:
    """Match the line of a title however TOML lets it be written, with a comment or none."""
    letters = name.replace(".", r"\.")
    key = rf"[\"']\?{letters}[\"']\?"
    title = _BLANK.join((r"\[", "queue", r"\.", f"{key}{more}", r"\]", r"\(#.*\)\?"))
    return f"^{_BLANK}{title}$"
