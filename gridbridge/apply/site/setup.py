"""Makes a set-up's edits, one by one, and remembers what shared settings were before."""

import json
from dataclasses import asdict
from typing import Any

from gridbridge.batch.gridengine import qconf
from gridbridge.errors import StateError
from gridbridge.model.places import FORMER
from gridbridge.model.route import Cell
from gridbridge.model.site.setup import Edit, Undo, Verb
from gridbridge.shell import files
from gridbridge.shell.runner import run

MAX_BYTES = 1 << 20
HERE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
RESTART_S = 120  # an execd that stops reports first, and a shared disk may be slow


def make(edit: Edit, cell: Cell | None) -> None:
    """Run the very line that was printed; CommandFailed with its last words."""
    env = cell.environment() if cell else dict(HERE)
    if cell:
        env["PATH"] = f"{cell.binaries}:{HERE['PATH']}"
    limit_s = RESTART_S if edit.verb == Verb.SHELL or cell is None else cell.timeout_s
    run(("/bin/sh", "-c", qconf.command(edit)), env, limit_s).checked()


def remember(undo: tuple[Undo, ...], path: str = FORMER) -> None:
    """Write down how to take shared settings back; what is known already stays as it is."""
    known = recall(path)
    seen = {_key(each.done) for each in known}
    new = [each for each in undo if _key(each.done) not in seen]
    if new:
        _write([*known, *new], path)


def recall(path: str = FORMER) -> list[Undo]:
    """Return what was written down, oldest first."""
    try:
        data, _ = files.read(path, MAX_BYTES, owner=0)
        return [Undo(done=_edit(row["done"]), undo=_edit(row["undo"])) for row in json.loads(data)]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{path}: not what setup wrote: {error}") from error


def forget(path: str = FORMER) -> None:
    """Remove the notes: everything has been taken back."""
    files.remove(path)


def _key(edit: Edit) -> tuple[str, ...]:
    return (edit.verb, edit.cell, edit.kind, edit.name, edit.attribute)


def _write(undo: list[Undo], path: str) -> None:
    files.replace(path, json.dumps([asdict(each) for each in undo], indent=1).encode() + b"\n")


def _edit(row: dict[str, Any]) -> Edit:
    return Edit(**{**row, "verb": Verb(row["verb"])})
