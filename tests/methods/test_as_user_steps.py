"""Root takes a prologue's lines, and what hosts are asked for, from the owner's file."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gridbridge.methods.arrays.content import Content
from gridbridge.methods.arrays.order import Order
from gridbridge.methods.owner import Refused
from gridbridge.model.campaigns.names import ArrayId
from gridbridge.model.request import JobSpec
from gridbridge.state.campaign_brought import Brought
from gridbridge.state.ledger import Ledger

AT: dict[str, Any] = {"exec_file": "run", "slots": 8, "environment": "mpi", "walltime_s": 60}
PROPERTIES = {"properties": "mem>=2,arch=lx-*,a=1;b=2"}
ASKED = (("mem>=", "2"), ("arch", "lx-*"))
STEPS = {"prologue": "make\nls", "prologue_walltime_s": 900, "epilogue": ""}
HEADER = {
    "name": "n",
    "clusters": {"gamma": AT, "beta": AT | STEPS | PROPERTIES},
    "is_idempotent": True,
}


def read(folder: Path, *tasks: str, is_of_copies: bool = False) -> tuple[JobSpec, ...]:
    """Return the jobs that arrays at beta are."""
    (folder / "c.12").write_text(f"{json.dumps(HEADER)}\na 1\n")
    arrays = tuple(ArrayId("alpha", 12, number) for number, _ in enumerate(tasks, start=1))
    order = SimpleNamespace(
        arrays=arrays,
        tasks=tasks,
        cluster="beta",
        campaign=12,
        file="c.12",
        section={},
        is_of_copies=is_of_copies,
    )
    with Ledger(12, str(folder / "ledger")) as ledger:
        found = Content(cast("Order", order), Brought(12, str(folder)), ledger)
        pairs = zip(arrays, found.tasks, strict=True)
        return tuple(found.spec(array, each, "alice") for array, each in pairs)


def test_a_prologue_is_one_task_of_one_slot(tmp_path: Path) -> None:
    """With its own walltime, beside tasks in the same call; both ask the same of hosts."""
    prologue, tasks = read(tmp_path, "990000000:2", "0:1")

    assert (prologue.slots, prologue.pe, tasks.slots, tasks.pe) == (1, "", 8, "mpi")
    assert prologue.request.hard == (("h_rt", "900"), *ASKED)
    assert tasks.request.hard == (("h_rt", "60"), *ASKED)
    assert prologue.request.either == tasks.request.either == ((("a", "1"), ("b", "2")),)
    assert b"gb_number=prologue gb_attempt=2 gb_copy=0 gb_name='prologue'" in prologue.script
    assert b"set -- 'make\nls'" in prologue.script
    assert b"gb_number=0 gb_attempt=1" in tasks.script


@pytest.mark.parametrize(
    "tasks",
    ["990000002:1", "990000001:1", "990000000:1,0:1", "990000000-990000001:1", "999999999:1"],
    ids=["another cluster's", "none there", "with a task", "two", "no cluster's"],
)
def test_what_the_file_does_not_have_is_refused(tmp_path: Path, tasks: str) -> None:
    """As is a copy."""
    with pytest.raises(Refused):
        read(tmp_path, tasks)
    with pytest.raises(Refused, match="no prologue at beta"):
        read(tmp_path, "990000000:1", is_of_copies=True)
