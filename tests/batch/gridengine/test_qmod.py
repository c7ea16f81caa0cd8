"""Tests of qmod: a host's queue instances are suspended and opened, and its tasks are rescheduled."""

import re
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import task_rescheduling
from gridbridge.batch.gridengine.host_membership import GridEngineHostMembership
from gridbridge.batch.gridengine.machine_bootstrap import NewMachineBootstrap
from gridbridge.errors import CommandFailed
from gridbridge.model.elastic.balancer_config_sections import MachineBootstrapSection
from gridbridge.model.elastic.elastic_nodes import HostJoinStep
from gridbridge.model.elastic.grid_engine_cell import JobAccessIdentity, TaskResourceRequests
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.transfer_route import GridEngineCellAccessSettings
from tests.batch.gridengine.cells import cell_of_scripts, fake_cell
from tests.builders.qstat import job_list, job_row, queue_row, resource

NONE = frozenset[str]()
NOW_S = 1_800_000_000.0
NO_PROJECT = JobAccessIdentity(project="")
QSTAT = 'cd "${0%/*}"; case "$*" in *" -j "*) cat jobs ;; *) cat rows ;; esac'


@pytest.fixture
def cell(tmp_path: Path) -> GridEngineCellAccessSettings:
    """Return a cell whose qstat prints two files; its qmod changes the file of queue instances."""
    return cell_of_scripts(tmp_path, qstat=QSTAT, qmod=fake_cell("qmod"))


def membership(cell: GridEngineCellAccessSettings, *queues: tuple[str, str, int, int]) -> GridEngineHostMembership:
    """Return a host with queues; each queue has a name, state, used slots, and whether it is best-effort."""
    rows = (
        queue_row(f"{name}@n1", used, 1, resource(BEST_EFFORT, best), "\n", state=state)
        for name, state, used, best in queues
    )
    (Path(cell.binaries) / "rows").write_bytes(job_list(queues=rows))
    return GridEngineHostMembership(
        cell=cell, preparing=NewMachineBootstrap(settings=MachineBootstrapSection(), cell=cell), root=lambda *_: None
    )


def called(cell: GridEngineCellAccessSettings) -> list[str]:
    path = Path(cell.binaries) / "called"
    return path.read_text().splitlines() if path.exists() else []


def test_only_best_effort_queues_are_suspended_and_each_once(cell: GridEngineCellAccessSettings) -> None:
    host = membership(cell, ("all.q", "d", 0, 0), ("be1", "d", 1, 1), ("be2", "d", 0, 1))

    assert [host.preempt_best_effort_tasks("n1"), host.preempt_best_effort_tasks("n1")] == [False, False]
    assert called(cell) == ["-sq be1@n1"]


def test_a_host_without_tasks_is_not_suspended(cell: GridEngineCellAccessSettings) -> None:
    assert membership(cell, ("all.q", "d", 0, 0), ("be1", "ds", 0, 1)).preempt_best_effort_tasks("n1")
    assert called(cell) == []


def test_opening_a_host_resumes_its_best_effort_queues(cell: GridEngineCellAccessSettings) -> None:
    host = membership(cell, ("all.q", "ds", 1, 0), ("be1", "ds", 1, 1), ("be2", "d", 0, 1))
    host.open_host_to_tasks("n1", NONE)

    assert called(cell) == ["-usq be1@n1", "-e *@n1"]


def test_opening_a_host_leaves_deliberately_closed_queues_disabled(cell: GridEngineCellAccessSettings) -> None:
    rows = ("all.q", "d", 0, 0), ("long.q", "d", 0, 0), ("be1", "ds", 1, 1), ("free.q", "", 0, 0)
    step = membership(cell, *rows).open_host_to_tasks("n1", frozenset(("all.q", "free.q")))

    assert (step, called(cell)) == (HostJoinStep.CLOSED, ["-usq be1@n1", "-e long.q@n1 be1@n1"])


BUSY = """#!/bin/sh
cd "${0%/*}" || exit
left=$(cat left) && echo $((left - 1)) >left
[ "$left" -ne 0 ] || { echo 'unable to send message to qmaster' >&2; exit 1; }
"""


@pytest.mark.parametrize("at", range(7))
def test_opening_a_host_can_be_repeated_after_any_failed_call(cell: GridEngineCellAccessSettings, at: int) -> None:
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


def job(number: int, *more: str, restart: int = 1, kind: int = 64, at: int = 0) -> str:
    return (
        f"<element><JB_job_number>{number}</JB_job_number>{''.join(more)}"
        f"<JB_execution_time>{at}</JB_execution_time><JB_restart>{restart}</JB_restart>"
        f"<JB_type>{kind}</JB_type></element>"
    )


def jobs(*some: str) -> bytes:
    body = "".join(some)
    return f"<detailed_job_info><djob_info>{body}</djob_info></detailed_job_info>".encode()


def row(number: int, state: str = "r", task: int = 0, slots: int = 1) -> str:
    return job_row(number, state, slots=slots, **({"tasks": task} if task else {}))


def queue(name: str, *rows: str, best: int = 0) -> str:
    return queue_row(name, 0, 1, resource(BEST_EFFORT, best), *rows)


@pytest.mark.parametrize(
    ("told", "is_movable"),
    [
        (job(7), True),
        (job(7, restart=0), False),
        (job(7, restart=2), False),
        (job(7, "<JB_checkpoint_name>blcr</JB_checkpoint_name>", restart=0), True),
        (job(7, "<JB_pe>mpi</JB_pe>"), False),
        (job(7, kind=0x4), False),
        (job(7, kind=64 | 0x80), True),
        (job(7, at=int(NOW_S) + 60), False),
        (job(7, at=int(NOW_S) - 60), True),
    ],
    ids=["y", "as-the-queue", "n", "checkpoint", "parallel", "qrsh", "array", "later", "due"],
)
def test_only_rerunnable_serial_batch_jobs_may_move(told: str, is_movable: bool) -> None:
    found = task_rescheduling.parse_reschedulable_jobs(jobs(told), NOW_S)

    assert list(found) == (["7"] if is_movable else [])


def test_a_movable_jobs_request_is_parsed_even_after_a_qalter() -> None:
    asks = "<CE_name>{0}</CE_name><CE_valtype>4</CE_valtype><CE_stringval>{1}</CE_stringval>"
    memory, licence = asks.format("h_vmem", "2G"), asks.format("lic", "1")
    queues = "<JB_hard_queue_list><destin_ident_list><QR_name>all.q@@big</QR_name>"
    whole = f"{queues}</destin_ident_list></JB_hard_queue_list><JB_hard_resource_list>"
    inner = f"<qstat_l_requests>{memory}</qstat_l_requests><a>{licence}</a>"
    told = (
        job(7, f"{whole}{inner}</JB_hard_resource_list>"),
        job(8, f"<JB_hard_resource_list>{memory}{licence}</JB_hard_resource_list>"),
    )
    found = task_rescheduling.parse_reschedulable_jobs(jobs(*told), NOW_S)

    requests = (("h_vmem", "2G"), ("lic", "1"))
    assert found == {
        "7": TaskResourceRequests(requests=requests, queues=("all.q@@big",), identity=NO_PROJECT),
        "8": TaskResourceRequests(requests=requests, identity=NO_PROJECT),
    }


def test_tasks_of_best_effort_queues_are_not_listed() -> None:
    ours, low = queue("all.q@n1", row(1, task=3, slots=2), row(2)), queue("low.q@n1", row(3), best=1)

    found = task_rescheduling.parse_tasks_on_hosts(job_list(queues=(ours, low, queue("all.q@n2"))))
    assert [(one.qmod_task_id, one.slots) for one in found["n1"]] == [("1.3", 2), ("2", 1)]
    assert found["n2"] == ()


def show(cell: GridEngineCellAccessSettings, jobs_of_qstat: bytes, *rows: str) -> None:
    """Let qstat print these jobs, and list these tasks on n1."""
    (Path(cell.binaries) / "jobs").write_bytes(jobs_of_qstat)
    (Path(cell.binaries) / "rows").write_bytes(job_list(queues=[queue("all.q@n1", *rows)]))


def test_all_tasks_of_a_host_are_rescheduled_except_starting_and_ending_tasks(
    cell: GridEngineCellAccessSettings,
) -> None:
    show(cell, jobs(job(1), job(2)), row(1, task=3), row(1, "t", task=4), row(2, "Rr"), row(2, "dr"))

    assert task_rescheduling.reschedule_host_tasks(cell, "n1", NOW_S)
    assert called(cell) == ["-rj 1.3", "-rj 2"]


def test_no_task_is_rescheduled_beside_an_unmovable_task(cell: GridEngineCellAccessSettings) -> None:
    show(cell, jobs(job(1)), row(1), row(2))

    assert not task_rescheduling.reschedule_host_tasks(cell, "n1", NOW_S)
    assert task_rescheduling.query_reschedulable_tasks(cell, ["n1"], NOW_S) == {
        "n1": (TaskResourceRequests(identity=NO_PROJECT),)
    }
    assert called(cell) == []


@pytest.mark.parametrize(
    ("state", "is_moved"),
    [("r", True), ("Rr", True), ("dr", True), ("t", True), ("ds", True)]
    + [(one, False) for one in ("s", "S", "T", "hr", "Rs", "N", "P")],
)
def test_a_suspended_or_held_task_keeps_its_host(
    cell: GridEngineCellAccessSettings, state: str, is_moved: bool
) -> None:
    show(cell, jobs(job(1), job(2)), row(1), row(2, state, slots=2))

    found = task_rescheduling.query_reschedulable_tasks(cell, ["n1"], NOW_S)["n1"]
    assert [one.slots for one in found] == ([1, 2] if is_moved else [1])
    assert task_rescheduling.reschedule_host_tasks(cell, "n1", NOW_S) is is_moved


def test_a_movable_job_has_the_identity_that_access_lists_check() -> None:
    own = "<JB_owner>alice</JB_owner><JB_project>p1</JB_project><JB_checkpoint_name>blcr</JB_checkpoint_name>"
    (found,) = task_rescheduling.parse_reschedulable_jobs(jobs(job(7, own)), NOW_S).values()

    assert found.identity == JobAccessIdentity(owner="alice", project="p1", checkpoint="blcr")
