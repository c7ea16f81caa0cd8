"""Makes a set-up's edits, one by one, and remembers what shared settings were before."""

import json
from dataclasses import asdict
from typing import Any

from gridbridge.batch.adapters import adapter_of
from gridbridge.batch.clusters import away
from gridbridge.batch.gridengine import qconf
from gridbridge.errors import StateError
from gridbridge.model.places import FORMER
from gridbridge.model.policy import Policy
from gridbridge.model.site.setup_findings import EditVerb, SetupEdit, SharedSettingUndo
from gridbridge.shell import files
from gridbridge.shell.runner import run

MAX_BYTES = 1 << 20
HERE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
RESTART_S = 120  # an execd that stops reports first, and a shared disk may be slow


def make(edit: SetupEdit, policy: Policy) -> None:
    """Run the very line that was printed; CommandFailed with its last words."""
    limit_s: float = RESTART_S
    if edit.verb != EditVerb.SHELL and environment(edit, policy):
        limit_s = away(policy, edit.cell).timeout_s
    run(("/bin/sh", "-c", standalone(edit, policy)), HERE, limit_s).checked()


def command(edit: SetupEdit) -> str:
    """Return the line that makes an edit, in a shell with its cluster's environment."""
    return qconf.command(edit)


def environment(edit: SetupEdit, policy: Policy) -> str:
    """Return the line that points a shell at an edit's cluster; empty for an edit of this host."""
    cluster = away(policy, edit.cell) if edit.cell else None
    makes = adapter_of(cluster).makes_queues if cluster else None
    return makes.environment(cluster) if cluster and makes else ""


def standalone(edit: SetupEdit, policy: Policy) -> str:
    """Return a line that makes an edit from any shell of root's."""
    before = environment(edit, policy)
    return f"({before}; {command(edit)})" if before else command(edit)


def remember(undo: tuple[SharedSettingUndo, ...], path: str = FORMER) -> None:
    """Write down how to take shared settings back; what is known already stays as it is."""
    earlier = recall(path)
    keys = {_key(setting.done) for setting in earlier}
    new = [setting for setting in undo if _key(setting.done) not in keys]
    if new:
        _write([*earlier, *new], path)


def recall(path: str = FORMER) -> list[SharedSettingUndo]:
    """Return what was written down, oldest first."""
    try:
        data, _ = files.read(path, MAX_BYTES, owner=0)
        return [
            SharedSettingUndo(done=_edit(row["done"]), undo=_edit(row["undo"]))
            for row in json.loads(data)
        ]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path}: not what setup wrote: {error}") from error


def forget(path: str = FORMER) -> None:
    """Remove the notes: everything has been taken back."""
    files.remove(path)


def _key(edit: SetupEdit) -> tuple[str, ...]:
    return (edit.verb, edit.cell, edit.kind, edit.name, edit.attribute)


def _write(undo: list[SharedSettingUndo], path: str) -> None:
    files.replace(
        path, json.dumps([asdict(setting) for setting in undo], indent=1).encode() + b"\n"
    )


def _edit(row: dict[str, Any]) -> SetupEdit:
    return SetupEdit(**{**row, "verb": EditVerb(row["verb"])})
