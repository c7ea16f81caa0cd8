"""Servers stop and start again, and OAR resubmits tasks by itself: each task succeeds once."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.gamma import ACCOUNT, DISK, FAR, NODES
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

FOLDER = "~/faults"
AT = {"beta": (runner.HOST, "alice"), "gamma": (FAR, ACCOUNT)}
BOTH: dict[str, Any] = {"beta": {}, "gamma": {}}
TASKS, SOME = 40, 12
OUTAGE_S = 600
SILENT = "GET_JOBS"
TERMINATED = "terminated"


@pytest.fixture(scope="module")
def folders(site: Grid) -> Iterator[Grid]:
    for host, user in AT.values():
        site.sh(host, f"rm -rf {FOLDER} && mkdir {FOLDER}", user=user)
    yield site
    for host, user in AT.values():
        site.sh(host, f"rm -rf {FOLDER}", user=user)


def bring(grid: Grid, name: str, tasks: int, clusters: dict[str, Any], kind: str = "normal") -> int:
    run = f"sh -c 'echo $CIGRI_JOB_ID >>{name}; sleep 1'"
    known = {"name": name, "type": kind, "exec_file": run, "walltime": "0:5"}
    return runner.submit(grid, known | {"exec_directory": FOLDER, "nb_jobs": tasks, "clusters": clusters})


def ran(grid: Grid, number: int, name: str) -> Counter[str]:
    told = (grid.sh(host, f"cat {FOLDER}/{name} 2>/dev/null; :", user=user) for host, user in AT.values())
    return Counter(line for text in told for line in text.splitlines() if line.startswith(f"{number}."))


def each_once(number: int, tasks: int) -> Counter[str]:
    return Counter({f"{number}.{task}": 1 for task in range(tasks)})


def silent(grid: Grid) -> dict[str, bool]:
    told = json.loads(grid.on(runner.HOST, "gridevents", "-g", "-a", "--json", user="bob").out)
    return {one["cluster"]: bool(one["closed_at"]) for one in told if one["code"] == SILENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Away:
    number: int
    silent: dict[str, bool]
    failed: int


LOST = (  # with where each attempt was
    "select one.task, cluster, job_id, place from campaign_attempts one join campaign_arrays it"
    " on it.campaign = one.campaign and it.number = one.array"
    " where one.campaign = {number} and outcome = ?"
)


def judged_lost(grid: Grid, number: int) -> list[tuple[str, str, str, str]]:
    query = LOST.format(number=number)
    rows = f"sqlite3.connect('/var/lib/gridbridge/state.db').execute('{query}', ('site_fault',))"
    told = grid.sh(runner.HOST, f'python3 -c "import sqlite3; [print(*row) for row in {rows}]"')
    words = (line.split() for line in told.splitlines())
    return [(task, cluster, job, place) for task, cluster, job, place in words]


def unnoted(grid: Grid, number: int) -> Counter[str]:
    """Assert that OAR has recorded no end of any lost task; return the lost tasks."""
    lost = judged_lost(grid, number)

    assert all(one[1] == "gamma" and exit_codes(grid, *one[2:]) == [None] for one in lost), lost
    return Counter(f"{number}.{task}" for task, *_ in lost)


def exit_codes(grid: Grid, job: str, place: str) -> list[int | None]:
    """Return OAR's exit code of each task of an array; None where OAR recorded no end."""
    told = grid.sh(FAR, f'oarstat -f -J --sql "array_id = {job} AND array_index = {place}"')
    return [one["exit_code"] for one in json.loads(told or "{}").values()]


@contextmanager
def no_servers(grid: Grid) -> Iterator[None]:
    grid.on("beta-master", "labctl", "stop", "qmaster")
    grid.on(FAR, "labctl", "stop", "postgresql")
    try:
        yield
    finally:
        grid.on(FAR, "labctl", "start", "postgresql")
        grid.on("beta-master", "labctl", "start", "qmaster")


@pytest.fixture(scope="module")
def away(folders: Grid) -> Away:
    grid = folders
    number = bring(grid, "away", TASKS, BOTH)
    grid.until(lambda: runner.clusters_of(grid, number) == {*BOTH}, "both to have tasks", runner.CAMPAIGN_S)
    with no_servers(grid):
        none_answers = dict.fromkeys(BOTH, False)
        grid.until(lambda: silent(grid) == none_answers, "both to be silent", runner.CAMPAIGN_S)
        seen, failed = silent(grid), runner.published(grid, number)["failed"]
    runner.until_state(grid, number, TERMINATED)
    return Away(number=number, silent=seen, failed=failed)


@pytest.mark.long
def test_a_silent_cluster_opens_an_event_until_it_answers(site: Grid, away: Away) -> None:
    assert dict.fromkeys(BOTH, False) == away.silent
    assert dict.fromkeys(BOTH, True) == silent(site)


@pytest.mark.long
def test_no_task_is_lost_or_runs_twice_when_both_servers_stop(site: Grid, away: Away) -> None:
    assert 0 == away.failed
    require_whole(site, away.number, "away")


def require_whole(grid: Grid, number: int, name: str) -> None:
    """Assert that all tasks of a campaign succeeded.

    Only tasks whose end OAR did not record may have run twice.
    """
    found = runner.shown(grid, number)

    assert (TASKS, 0) == (found["ended"], found["failed"])
    once, there = each_once(number, TASKS), ran(grid, number, name)
    assert once <= there <= once + unnoted(grid, number)


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_no_task_is_lost_in_ten_minutes_without_servers(folders: Grid) -> None:
    grid = folders
    number = bring(grid, "long", TASKS, BOTH)
    grid.until(lambda: runner.clusters_of(grid, number) == {*BOTH}, "both to have tasks", runner.CAMPAIGN_S)
    with no_servers(grid):
        back_at = time.monotonic() + OUTAGE_S
        grid.until(lambda: time.monotonic() > back_at, "ten minutes to pass", OUTAGE_S + 60)
        failed = runner.published(grid, number)["failed"]
    runner.until_state(grid, number, TERMINATED)

    assert 0 == failed
    require_whole(grid, number, "long")


@pytest.fixture
def nodes_that_note_nothing(folders: Grid) -> Iterator[Grid]:
    """Let gamma's nodes refuse the file that OAR writes at a job's start.

    OAR then submits the job again.
    """
    for node in NODES:
        folders.sh(node, f"chmod 555 {DISK}")
    try:
        yield folders
    finally:
        heal(folders)


def heal(grid: Grid) -> None:
    for node in NODES:
        grid.sh(node, f"chmod 755 {DISK}")
        grid.sh(FAR, f"oarnodesetting -h {node} -s Alive")


@pytest.mark.long
@pytest.mark.parametrize("kind", ["normal", "best-effort"])
def test_a_task_that_oar_submits_again_by_itself_runs_once(nodes_that_note_nothing: Grid, kind: str) -> None:
    """The task runs at the other cluster. OAR's copy is no attempt of the service."""
    grid = nodes_that_note_nothing
    number = bring(grid, "copied", SOME, BOTH, kind)
    grid.until(lambda: runner.clusters_of(grid, number) == {*BOTH}, "both to have tasks", runner.CAMPAIGN_S)
    grid.until(lambda: copies(grid, number), "OAR to submit a task again", runner.CAMPAIGN_S)
    heal(grid)
    runner.until_state(grid, number, TERMINATED)
    found = runner.shown(grid, number)

    assert (SOME, 0) == (found["ended"], found["failed"])
    assert each_once(number, SOME) == ran(grid, number, "copied")
    assert [] == runner.arrays_at_gamma(grid)


def copies(grid: Grid, number: int) -> list[int]:
    told = grid.sh(FAR, f"oarstat -f -J --sql \"job_name like 'gc.alpha.{number}.%'\"")
    found = json.loads(told or "{}")
    return [int(job) for job, one in found.items() if one["resubmit_job_id"]]
