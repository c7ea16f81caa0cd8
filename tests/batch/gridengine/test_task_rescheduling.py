"""Tests of the tasks that may be rerun on other hosts, and of rescheduling a host."""

from pathlib import Path

import pytest

from gridbridge.batch.gridengine import task_rescheduling
from gridbridge.model.elastic.grid_engine_cell import JobAccessIdentity, TaskResourceRequests
from gridbridge.model.fixed_paths import BEST_EFFORT
from gridbridge.model.transfer_route import GridEngineCellAccess
from tests.batch.gridengine.cells import cell_of_scripts
from tests.builders.qstat import job_list, job_row, queue_row, resource

NOW_S = 1_800_000_000.0
NO_PROJECT = JobAccessIdentity(project="")


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


@pytest.fixture
def cell(tmp_path: Path) -> GridEngineCellAccess:
    beside = 'cd "${0%/*}"'
    qstat = f'{beside}; case "$*" in *" -j "*) cat jobs ;; *) cat rows ;; esac'
    return cell_of_scripts(tmp_path, qstat=qstat, qmod=f'{beside}; echo "$@" >>called')


def show(cell: GridEngineCellAccess, jobs_of_qstat: bytes, *rows: str) -> None:
    """Let qstat print these jobs, and list these tasks on n1."""
    (Path(cell.binaries) / "jobs").write_bytes(jobs_of_qstat)
    (Path(cell.binaries) / "rows").write_bytes(job_list(queues=[queue("all.q@n1", *rows)]))


def called(cell: GridEngineCellAccess) -> str:
    path = Path(cell.binaries) / "called"
    return path.read_text() if path.exists() else ""


def test_all_tasks_of_a_host_are_rescheduled_except_starting_and_ending_tasks(cell: GridEngineCellAccess) -> None:
    show(cell, jobs(job(1), job(2)), row(1, task=3), row(1, "t", task=4), row(2, "Rr"), row(2, "dr"))

    assert task_rescheduling.reschedule_host_tasks(cell, "n1", NOW_S)
    assert called(cell) == "-rj 1.3\n-rj 2\n"


def test_no_task_is_rescheduled_beside_an_unmovable_task(cell: GridEngineCellAccess) -> None:
    show(cell, jobs(job(1)), row(1), row(2))

    assert not task_rescheduling.reschedule_host_tasks(cell, "n1", NOW_S)
    assert task_rescheduling.query_reschedulable_tasks(cell, ["n1"], NOW_S) == {
        "n1": (TaskResourceRequests(identity=NO_PROJECT),)
    }
    assert called(cell) == ""


@pytest.mark.parametrize(
    ("state", "is_moved"),
    [("r", True), ("Rr", True), ("dr", True), ("t", True), ("ds", True)]
    + [(one, False) for one in ("s", "S", "T", "hr", "Rs", "N", "P")],
)
def test_a_suspended_or_held_task_keeps_its_host(cell: GridEngineCellAccess, state: str, is_moved: bool) -> None:
    show(cell, jobs(job(1), job(2)), row(1), row(2, state, slots=2))

    found = task_rescheduling.query_reschedulable_tasks(cell, ["n1"], NOW_S)["n1"]
    assert [one.slots for one in found] == ([1, 2] if is_moved else [1])
    assert task_rescheduling.reschedule_host_tasks(cell, "n1", NOW_S) is is_moved


def test_a_movable_job_has_the_identity_that_access_lists_check() -> None:
    own = "<JB_owner>alice</JB_owner><JB_project>p1</JB_project><JB_checkpoint_name>blcr</JB_checkpoint_name>"
    (found,) = task_rescheduling.parse_reschedulable_jobs(jobs(job(7, own)), NOW_S).values()

    assert found.identity == JobAccessIdentity(owner="alice", project="p1", checkpoint="blcr")
