"""Tests of suspending and opening the queue instances of a host by qmod."""

import re
from pathlib import Path

import pytest

from gridbridge.elastic.host_membership_and_tags import GridEngineHostMembership
from gridbridge.elastic.machine_bootstrap import NewMachineBootstrap
from gridbridge.errors import CommandFailed
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import HostJoinStep
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.transfer_route import GridEngineCellAccess
from tests.batch.gridengine.cells import cell_of_scripts
from tests.builders.qstat import job_list, queue_row, resource

NONE = frozenset[str]()
QMOD = """\
cd "${0%/*}" && echo "$@" >>called
case $1 in
-e) shift && for one; do sed -i "/>${one%@*}@/s/<state>d/<state>/" rows; done ;;
-usq) sed -i 's/<state>ds/<state>d/' rows ;;
-sq) sed -i "/${2%@*}/s/<state>d/<state>ds/" rows ;;
esac
"""


@pytest.fixture
def cell(tmp_path: Path) -> GridEngineCellAccess:
    """Return a cell whose qstat prints a file that its qmod changes."""
    return cell_of_scripts(tmp_path, qstat='cat "${0%/*}/rows"', qmod=QMOD)


def membership(cell: GridEngineCellAccess, *queues: tuple[str, str, int, int]) -> GridEngineHostMembership:
    """Return a host with queues; each queue has a name, state, used slots, and whether it is best-effort."""
    rows = (
        queue_row(f"{name}@n1", used, 1, resource(BEST_EFFORT, best), "\n", state=state)
        for name, state, used, best in queues
    )
    (Path(cell.binaries) / "rows").write_bytes(job_list(queues=rows))
    return GridEngineHostMembership(
        cell=cell, preparing=NewMachineBootstrap(settings=MachineBootstrapSection(), cell=cell), root=lambda *_: None
    )


def called(cell: GridEngineCellAccess) -> list[str]:
    path = Path(cell.binaries) / "called"
    return path.read_text().splitlines() if path.exists() else []


def test_only_best_effort_queues_are_suspended_and_each_once(cell: GridEngineCellAccess) -> None:
    host = membership(cell, ("all.q", "d", 0, 0), ("be1", "d", 1, 1), ("be2", "d", 0, 1))

    assert [host.preempt_best_effort_tasks("n1"), host.preempt_best_effort_tasks("n1")] == [False, False]
    assert called(cell) == ["-sq be1@n1"]


def test_a_host_without_tasks_is_not_suspended(cell: GridEngineCellAccess) -> None:
    assert membership(cell, ("all.q", "d", 0, 0), ("be1", "ds", 0, 1)).preempt_best_effort_tasks("n1")
    assert called(cell) == []


def test_opening_a_host_resumes_its_best_effort_queues(cell: GridEngineCellAccess) -> None:
    host = membership(cell, ("all.q", "ds", 1, 0), ("be1", "ds", 1, 1), ("be2", "d", 0, 1))
    host.open_host_to_tasks("n1", NONE)

    assert called(cell) == ["-usq be1@n1", "-e *@n1"]


def test_opening_a_host_leaves_deliberately_closed_queues_disabled(cell: GridEngineCellAccess) -> None:
    rows = ("all.q", "d", 0, 0), ("long.q", "d", 0, 0), ("be1", "ds", 1, 1), ("free.q", "", 0, 0)
    step = membership(cell, *rows).open_host_to_tasks("n1", frozenset(("all.q", "free.q")))

    assert (step, called(cell)) == (HostJoinStep.CLOSED, ["-usq be1@n1", "-e long.q@n1 be1@n1"])


BUSY = """#!/bin/sh
cd "${0%/*}" || exit
left=$(cat left) && echo $((left - 1)) >left
[ "$left" -ne 0 ] || { echo 'unable to send message to qmaster' >&2; exit 1; }
"""


@pytest.mark.parametrize("at", range(7))
def test_opening_a_host_can_be_repeated_after_any_failed_call(cell: GridEngineCellAccess, at: int) -> None:
    host = membership(cell, ("all.q", "d", 0, 0), ("be1", "ds", 1, 1), ("be2", "ds", 0, 1))
    folder = Path(cell.binaries)
    for name in ("qstat", "qmod"):
        (folder / name).write_text(BUSY + (folder / name).read_text().partition("\n")[2])
    (folder / "left").write_text(str(at))
    try:
        host.open_host_to_tasks("n1", NONE)
        calls = at
    except CommandFailed:
        calls = at + 1
        host.open_host_to_tasks("n1", NONE)

    states = re.findall("<state>(.*?)</state>", (folder / "rows").read_text())
    assert states == ["", "", ""]
    assert calls in (at + 1, 6)
