"""What gridbridge data prints: datasets, replicas, and why areas got nothing."""

from collections.abc import Iterable
from datetime import datetime

from gridbridge.cli import output
from gridbridge.cli.options import clock
from gridbridge.model.rebalance.datasets import (
    Dataset,
    RefusedArea,
    Replica,
    ReplicaOutcome,
    bytes_text,
    shown,
)
from gridbridge.model.status_report import count, printable
from gridbridge.rebalance.replicas.dataset_report import DatasetReport
from gridbridge.rebalance.replicas.owner_replicas import DatasetOutcome

DONE, NOT_ALL = 0, 1


def outcome(one: DatasetOutcome) -> int:
    """Tell what a command did, and return its exit status."""
    output.progress("")
    output.line(sentence(one.dataset))
    for refused in one.refused:
        output.line(f"  not {printable(refused.what)}: {printable(refused.reason)}")
    return DONE if one.is_done else NOT_ALL


def drained(one: DatasetOutcome | RefusedArea) -> int:
    """Tell what became of a dataset in an area that is drained, and return the exit status."""
    if isinstance(one, DatasetOutcome):
        return outcome(one)
    output.line(f"not {one.what}: {one.reason}")
    return NOT_ALL


def sentence(one: Dataset) -> str:
    """Say how much there is of a dataset, and where."""
    where = f": {', '.join(map(printable, sorted(one.whole)))}" if one.whole else ""
    size = f"{count(one.files, 'file')}, {bytes_text(one.size_bytes)}"
    return f"{one.name}: {size}, {len(one.whole)} of {count(one.wished, 'replica')} whole{where}"


def dropped(one: DatasetOutcome, storage: str) -> int:
    """Tell what is left of a dataset."""
    if storage or not one.is_done:
        return outcome(one)
    output.line(f"{one.dataset.name}: dropped; {shown(one.dataset.path)} is as it was")
    return DONE


def datasets(all_of: Iterable[Dataset], *, is_json: bool) -> int:
    """Print a row for each dataset, as it was last seen."""
    found = list(all_of)
    if is_json:
        output.as_json([plain(one) for one in found])
        return DONE
    head = ("DATASET", "BYTES", "FILES", "WHOLE", "WISHED", "IN", "ORIGINAL")
    rows = [
        (
            one.name,
            str(one.size_bytes),
            str(one.files),
            str(len(one.whole)),
            str(one.wished),
            ",".join(map(printable, sorted(one.storages))) or "-",
            shown(one.path),
        )
        for one in found
    ]
    output.table(head, rows, numbers=("BYTES", "FILES", "WHOLE", "WISHED"))
    return DONE


def replicas(one: DatasetOutcome, now: datetime, *, is_json: bool) -> int:
    """Print a row for each replica."""
    if is_json:
        output.as_json(plain(one.dataset))
    else:
        output.line(sentence(one.dataset))
        rows = [_row(each, now) for each in _sorted(one.dataset)]
        output.table(("STORAGE", "BYTES", "WHOLE", "CHECKED", "WHY"), rows, numbers=("BYTES",))
    return DONE if one.is_done else NOT_ALL


def told(one: DatasetReport, now: datetime, *, is_json: bool) -> int:
    """Tell of a dataset, its replicas, and what the service had done about it, the newest last."""
    if is_json:
        known = plain(one.dataset) if one.dataset else {"name": one.name}
        output.as_json(known | {"busy": one.is_busy, "moves": [_done(each) for each in one.done]})
        return DONE
    output.line(sentence(one.dataset) if one.dataset else f"{one.name}: gone")
    if one.is_busy:
        output.line("  a command works on it just now")
    for each in _sorted(one.dataset) if one.dataset else ():
        state = "whole" if each.is_whole_now else f"not whole: {printable(each.why)}"
        storage = printable(each.storage)
        output.line(f"  {storage}: {state} (as of {clock(each.checked_at, now)})")
    for done in one.done:
        why = f": not done, {done.why}" if done.why else ""
        output.line(f"  {clock(done.at, now):<10} the service {_deed(done)}{why}")
    return DONE


def _deed(done: ReplicaOutcome) -> str:
    if not done.target:
        return f"removed it from {done.source}"
    return f"carried it to {done.target}" + (f" instead of {done.source}" if done.source else "")


def _done(done: ReplicaOutcome) -> dict[str, object]:
    return {
        "at": done.at.isoformat(),
        "to": done.target or None,
        "from": done.source or None,
        "why": done.why or None,
    }


def plain(one: Dataset) -> dict[str, object]:
    """Return a dataset as JSON has it."""
    return {
        "name": one.name,
        "path": one.path,
        "kind": "tree" if one.is_tree else "file",
        "files": one.files,
        "bytes": one.size_bytes,
        "sha256": one.sha256,
        "wished": one.wished,
        "replicas": [_plain(each) for each in _sorted(one)],
    }


def _plain(one: Replica) -> dict[str, object]:
    return {
        "storage": one.storage,
        "bytes": one.size_bytes,
        "whole": one.is_whole_now,
        "checked_at": one.checked_at.isoformat(),
        "why": one.why or None,
    }


def _row(one: Replica, now: datetime) -> tuple[str, ...]:
    size, whole = str(one.size_bytes), "yes" if one.is_whole_now else "no"
    storage, why = printable(one.storage), printable(one.why)
    return storage, size, whole, clock(one.checked_at, now), why


def _sorted(one: Dataset) -> list[Replica]:
    return sorted(one.replicas, key=lambda each: each.storage)
