"""Users see where their jobs are, and are warned when that information is old."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.grid import Grid

pytestmark = pytest.mark.lab


def status(grid: Grid, user: str = "alice") -> Mapping[str, Any]:
    done = grid.on("alpha-master", "gridbridge", "status", "--json", user=user)
    assert done.status == 0, done
    report: Mapping[str, Any] = json.loads(done.out)
    return report


def transfer(grid: Grid, job: str, remote_state: str) -> Mapping[str, Any]:
    def find() -> list[Mapping[str, Any]]:
        rows = status(grid, "bob")["transfers"]
        states = (one for one in rows if one["transfer"]["remote_state"] == remote_state)
        return [one for one in states if one["job"] == job]

    return grid.until(find, f"job {job} to be shown as {remote_state}")[0]


def why(grid: Grid, job: str) -> str:
    done = grid.on("alpha-master", "gridbridge", "why", job, user="bob")
    assert done.status == 0, done
    return done.out


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    end: Mapping[str, str]
    waiting: str
    state: str
    queue: Mapping[str, Any]


@pytest.fixture(scope="module")
def sleeper(grid: Grid) -> str:
    return grid.transfer("-b", "y", "sleep", "600")


@pytest.fixture(scope="module")
def drained(grid: Grid, sleeper: str) -> Drained:
    go = grid.sh("alpha-master", "mktemp -u /home/alice/go.XXXXXX", user="alice").strip()
    there = grid.transfer(script=f"until [ -e {go} ]; do sleep 0.2; done; exit 4\n")
    grid.remote_id(there)
    grid.sh("alpha-master", "gridbridge drain beta --reason 'new disks'")
    try:
        grid.until(lambda: not grid.is_open(), "the queue to be closed", 30)
        waiting = grid.transfer("-b", "y", "true")
        queue = next(one for one in status(grid)["queues"] if one["cluster"] == "beta")
        grid.sh("alpha-master", f"touch {go}", user="alice")
        end = grid.accounting_of_end(there)
        state = grid.states()[waiting]
    finally:
        grid.sh("alpha-master", "gridbridge undrain beta")
    return Drained(end=end, waiting=waiting, state=state, queue=queue)


def test_a_job_is_explained_while_it_runs_while_suspended_and_when_it_is_over(
    grid: Grid, sleeper: str, drained: Drained
) -> None:
    del drained  # which is over: what waited for it runs meanwhile
    job, remote_id = sleeper, grid.remote_id(sleeper)

    running = transfer(grid, job, "r")
    assert str(running["transfer"]["remote_id"]) == remote_id
    assert running["waits_for"] == "its end"
    assert why(grid, job).startswith(f"job {job} of alice is at beta as job {remote_id}\n")

    grid.cell("alpha", "qmod", "-sj", job)
    assert grid.until(
        lambda: f"a resume (qmod -usj {job}): your suspend also suspended the job at" in why(grid, job),
        "why to tell of the suspension",
    )

    grid.cell("alpha", "qdel", job)
    told = grid.until(lambda: "; the transfer has ended\n" in why(grid, job) and why(grid, job), "its end")
    assert told.startswith(f"job {job} of alice was sent to beta as job {remote_id}; the transfer has ended")
    assert f"submitted to beta as {remote_id}, " in told


def test_why_shows_what_a_job_at_home_waits_for_and_which_cluster_would_take_it(grid: Grid) -> None:
    """The output quotes the scheduler. It also says when a job requests home only."""

    def submit(*words: str) -> str:
        done = grid.on("alpha-master", "qsub", "-terse", "-b", "y", *words, "sleep", "60", user="alice")
        return done.out.strip()

    held = submit("-h", "-q", "all.q")
    nowhere = submit("-l", "arch=none")
    lost = submit("-wd", "/nonexistent", "-q", "all.q@alpha-n1")
    try:
        told = grid.until(lambda: "error:" in why(grid, lost) and why(grid, lost), "its error")
        of_held, of_nowhere = why(grid, held), why(grid, nowhere)
    finally:
        grid.cell("alpha", "qdel", held, nowhere, lost)

    assert told.startswith(f"job {lost} of alice is at home: ")
    assert "can't chdir to /nonexistent" in told
    assert f"qmod -cj {lost}" in told
    assert "the job waits, held" in of_held
    assert "transfer-beta (to beta) would not take the job: " in of_held
    assert 'cannot run at host "alpha-n1"' in of_nowhere
    assert "transfer-beta (to beta) would" in of_nowhere


@pytest.mark.long
def test_a_drained_cluster_ends_its_jobs_and_takes_no_new_ones(grid: Grid, drained: Drained) -> None:
    end_of_waiting = grid.accounting_of_end(drained.waiting)
    refused = grid.on("alpha-master", "gridbridge", "drain", "beta", "--reason", "x", user="bob")

    ends = (drained.end["exit_status"], end_of_waiting["exit_status"])
    assert (ends, drained.state) == (("4", "0"), "qw")
    assert drained.queue["why"].startswith("drained by root ")
    assert drained.queue["why"].endswith("ago: new disks")
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    assert "only gridbridge and root may do this: sudo -u gridbridge" in refused.err


def test_a_saved_decision_is_replayed_with_the_same_result(grid: Grid, drained: Drained) -> None:
    """Another process replays the decision from the state file, under the service's account."""
    grid.accounting_of_end(drained.waiting)
    name = f"gb.alpha.{drained.waiting}.0.1"
    listed = json.loads(grid.sh("alpha-master", "gridbridge replay --json"))
    numbers = [one["decision"] for one in listed if name in one["sentence"]]
    again = [grid.on("alpha-master", "gridbridge", "replay", str(each)) for each in numbers]
    refused = grid.on("alpha-master", "gridbridge", "replay", user="bob")

    assert [done.status for done in again] == [0] * len(numbers)
    assert any(f"{name}: telling the starter: exit status 0" in done.out for done in again)
    assert (refused.status, refused.err) == (
        2,
        "gridbridge: only gridbridge and root may do this: sudo -u gridbridge ...\n",
    )


@pytest.mark.long
def test_a_silent_poller_is_reported_first_and_its_queues_stay_closed(grid: Grid) -> None:
    grid.sh("alpha-master", "pkill -STOP -f [g]ridbridge.transfer.poller.program")
    try:
        grid.until(lambda: status(grid)["alarm"], "the alarm", limit_s=60)
        report = status(grid)
        grid.until(lambda: not grid.is_open(), "the queue to be closed", limit_s=60)
        job = grid.transfer("-N", "hung", script="exit 3\n")
        sent_meanwhile = grid.remote_ids(job)
    finally:
        grid.sh("alpha-master", "pkill -CONT -f [g]ridbridge.transfer.poller.program")

    assert report["alarm"].startswith("gridbridge-poller is silent for ")
    assert {one["is_open"] for one in report["queues"]} == {False}
    grid.until(lambda: not status(grid)["alarm"], "the poller to be heard again")
    grid.require_ready()
    assert grid.accounting(job)["exit_status"] == "3"
    assert (sent_meanwhile, len(grid.remote_ids(job))) == ([], 1)


def test_a_user_needs_only_published_files(grid: Grid) -> None:
    state = grid.on("alpha-master", "cat", "/var/lib/gridbridge/state.db", user="alice")
    pages = grid.sh("alpha-master", "echo $MANPATH; ls /opt/gridbridge/share/man/*", user="alice")

    assert state.status != 0
    assert "/opt/gridbridge/share/man:" in pages
    assert {"gridbridge-why.1", "gridbridge.toml.5", "gridbridge-poller.8"} <= set(pages.split())
