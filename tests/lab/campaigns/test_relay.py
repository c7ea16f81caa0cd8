"""A campaign's tasks stay at the cluster they were sent to, although it has transfer queues to others."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, PROGRAM, published, start, stop, submit, until_state
from tests.lab.campaigns.together import USUAL_SLOTS, have_slots
from tests.lab.configured import configured
from tests.lab.grid import BACK, Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

MAY_WAIT = "s|^#flood_rate = .*|flood_rate = 1|"  # at beta, four tasks
FILL = ("-N", "fill", "-t", "1-4", "-q", "all.q", "-o", "/dev/null", "-j", "y")
LEDGER = "sed -n 's/^job [0-9]* //p' /var/lib/gridbridge-ledger/c.{}"
FILES = """cd /var/lib/gridbridge/published
find /var/spool/gridbridge/campaigns campaign* taken |
    sort | while read -r file; do ls -di "$file"; cat "$file" 2>/dev/null; done"""
ROWS = """/opt/gridbridge/venv/bin/python3 -I -c 'import sqlite3
for line in sqlite3.connect("file:/var/lib/gridbridge/state.db?mode=ro", uri=True).iterdump():
    if "campaign" in line or "alembic" in line: print(line)'"""
LEFT = f"{FILES}; {ROWS}"  # the poller writes the rest


@pytest.fixture(scope="module")
def waiting(site: Grid, open_back: None) -> Iterator[tuple[int, str]]:
    """Return a campaign that waits at full beta, and the job number of its array there."""
    del open_back
    grid = site
    with configured(grid, MAY_WAIT):
        stop(grid)
        start(grid)
        have_slots(grid, USUAL_SLOTS)  # other tests of the folder have more
        fill = grid.submit(*FILL, user="bob", cluster="beta", script="sleep 600\n")
        grid.until(lambda: list(grid.states("beta").values()) == ["r"] * 4, "beta to be full")
        jdl = {"name": "relay", "type": "normal", "exec_file": "sleep 1", "walltime": "0:5"}
        number = submit(grid, {**jdl, "nb_jobs": 3, "clusters": {"beta": {}}})
        grid.until(lambda: _waiting(grid, number) == [3], "its tasks to wait", 90)
        yield number, grid.sh(HOST, LEDGER.format(number)).split()[0]
        grid.cell("beta", "qdel", fill, user="bob")
    stop(grid)
    start(grid)


def _waiting(grid: Grid, number: int) -> list[int]:
    return [one["waiting"] for one in published(grid, number)["at"]]


def test_an_array_requests_only_queues_that_are_no_transfer_queues(grid: Grid, waiting: tuple[int, str]) -> None:
    told = grid.cell("beta", "qstat", "-j", waiting[1]).out

    assert "remote=false" in next(line for line in told.splitlines() if "hard resource" in line)


def test_no_campaign_task_starts_in_a_transfer_queue(grid: Grid, waiting: tuple[int, str]) -> None:
    """Beta's transfer queue is open and free while the tasks wait. Later each task runs once at beta."""
    number, array = waiting
    assert grid.is_open("beta")
    rows = grid.cell("beta", "qstat", "-f", "-q", BACK).out
    assert BACK in rows
    grid.cell("beta", "qdel", "-u", "bob", user="bob")

    found = until_state(grid, number, "terminated")

    assert (found["ended"], found["failed"]) == (3, 0)
    queues = [one["qname"] for one in grid.records(array, "beta")]
    assert queues == ["all.q"] * 3


def test_a_campaign_that_requests_only_a_transfer_queue_is_refused(site: Grid) -> None:
    grid = site
    jdl = {"name": "relay", "type": "normal", "exec_file": "true", "walltime": "0:5"}
    number = submit(grid, {**jdl, "nb_jobs": 1, "clusters": {"beta": {"queue": BACK}}})

    def told() -> bool:
        events = json.loads(grid.on(HOST, "gridevents", "-c", str(number), "--json").out or "[]")
        return "RUNNER_SUBMIT_ERROR" in {one["code"] for one in events}

    grid.until(told, "the refusal to be told", CAMPAIGN_S)
    grid.on(HOST, "griddel", str(number), user="alice")


@pytest.mark.long
def test_a_dry_run_changes_nothing_and_runs_beside_the_runner(site: Grid) -> None:
    """The dry run counts campaigns that no runner has accepted yet."""
    grid = site
    stop(grid)
    jdl = json.dumps({"name": "dry", "nb_jobs": 1, "exec_file": "true", "clusters": {"beta": {}}})
    grid.sh(HOST, f"setsid gridsub -j '{jdl}' >dry.out 2>&1 </dev/null &", user="alice")
    grid.until(lambda: "/new." in grid.sh(HOST, LEFT), "the campaign to be brought")
    before = grid.sh(HOST, LEFT)

    said = grid.sh(HOST, f"runuser -u gridbridge -- {PROGRAM} --dry-run", timeout_s=120)

    assert "inbox files, which a dry run ignores" in said
    assert grid.sh(HOST, LEFT).splitlines() == before.splitlines()
    start(grid)
    done = f"runuser -u gridbridge -- {PROGRAM} --dry-run"
    assert grid.on(HOST, "sh", "-c", done, timeout_s=120).status == 0
    grid.until(lambda: "CAMPAIGN_ID" in grid.sh(HOST, "cat dry.out", user="alice"), "its number")
    grid.sh(HOST, "rm dry.out", user="alice")
