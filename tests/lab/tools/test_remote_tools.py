"""A job's owner alone sees, changes and deletes its remote job, under the local id."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests.lab.away import QUIET, SLEEP, qmaster, remote_of, wait_for
from tests.lab.grid import Done, Grid

pytestmark = pytest.mark.lab

DELTA_SLOTS = 2


def tool(grid: Grid, name: str, *words: str, user: str = "alice") -> Done:
    return grid.on("alpha-master", name, *words, user=user)


def listed(grid: Grid, job: str, *words: str) -> Mapping[str, Any]:
    done = tool(grid, "qstat_remote", "-u", "*", *words, "--json")
    assert done.status == 0, done
    rows: list[Mapping[str, Any]] = json.loads(done.out)["transfers"]
    return next((one["transfer"] for one in rows if one["job"] == job), {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Jobs submitted together: jobs that fill beta, jobs that wait there, and delta's jobs."""

    remotes: Mapping[str, str]  # of the jobs below, by local id
    running: str
    mine: list[str]
    others: str
    waiting: str  # of two tasks
    delta: str  # of three tasks


@pytest.fixture(scope="module")
def sent(grid: Grid, open_to_delta: None) -> Iterator[Sent]:
    """Fill beta's slots, add two waiting tasks, and send delta one job more than fits."""
    delta = grid.submit("-q", "transfer-delta", "-t", "1-3", *QUIET, script=SLEEP)
    running, *mine = (grid.transfer(*QUIET, script=SLEEP) for _ in range(3))
    others = grid.transfer(*QUIET, script=SLEEP, user="bob")
    remotes = {job: grid.remote_id(job) for job in (running, *mine, others)}
    for remote in remotes.values():
        wait_for(grid, remote, "r")
    waiting = grid.transfer("-N", "waits", "-t", "1-2", *QUIET, script=SLEEP)
    remotes[waiting] = remote_of(grid, waiting, 1)
    remote_of(grid, waiting, 2)
    wait_for(grid, remotes[waiting], "qw")
    yield Sent(remotes=remotes, running=running, mine=mine, others=others, waiting=waiting, delta=delta)
    grid.cell("alpha", "qdel", *remotes, delta, user="root")
    for job in (*remotes, delta):
        grid.until_gone(job)


@pytest.fixture
def waiting(sent: Sent) -> tuple[str, str]:
    """Return the local id of the job whose tasks wait at beta, and its first task's remote id."""
    return sent.waiting, sent.remotes[sent.waiting]


def test_a_list_has_the_remote_half_and_a_detail_asks_why_it_waits(grid: Grid, waiting: tuple[str, str]) -> None:
    job, remote = waiting
    shown = grid.until(lambda: (one := listed(grid, f"{job}.1", "-s", "p")) and one["remote_state"] and one, "it")
    told = grid.until(
        lambda: (out := tool(grid, "qstat_remote", "-j", f"{job}.1").out).count("dropped") and out,
        "the scheduler's reason",
    )

    assert (str(shown["remote_id"]), shown["remote_state"]) == (remote, "qw")
    assert listed(grid, f"{job}.1", "-s", "r") == {}
    assert f"job {job}.1 of alice is at beta as job {remote}\n" in told
    assert "  beta       queue instance " in told


def test_an_unreachable_cluster_is_reported_and_published_data_shown(grid: Grid, waiting: tuple[str, str]) -> None:
    job, remote = waiting
    with qmaster(grid, "freeze", "thaw"):
        done = tool(grid, "qstat_remote", "-j", job)

    assert f"job {job}.1 of alice is at beta as job {remote}\n" in done.out
    assert done.out.count("  beta       no answer: qstat: no answer in time; the state above") == 2


def test_a_change_affects_only_the_remote_job(grid: Grid, waiting: tuple[str, str]) -> None:
    job, remote = waiting
    changes = (("-p", "-50"), ("-l", "h_rt=1:0:0"), ("-h", "u"))
    done = [tool(grid, "qalter_remote", f"{job}.1", *change) for change in changes]
    there = grid.cell("beta", "qstat", "-j", remote).out
    held = grid.states("beta")[remote]
    back = tool(grid, "qalter_remote", job, "-h", "U")

    assert [one.status for one in (*done, back)] == [0] * 4, (done, back)
    assert held == "hqw"
    assert "hard resource_list:         h_rt=3600" in there
    assert "priority:                   -50" in there
    assert "h_rt" not in grid.cell("alpha", "qstat", "-j", job).out
    wait_for(grid, remote, "qw")


@pytest.mark.parametrize("name", ["qalter_remote", "qdel_remote"])
def test_nobody_can_change_or_delete_another_users_job(grid: Grid, waiting: tuple[str, str], name: str) -> None:
    job, remote = waiting
    words = ("-p", "-1") if name == "qalter_remote" else ()

    done = tool(grid, name, job, *words, user="bob")

    assert (done.status, len(done.err.splitlines())) == (1, 2)
    assert "owned by alice, not by you" in done.err
    assert grid.states("beta")[remote] == "qw"


def test_a_dry_run_prints_its_action_and_changes_nothing(grid: Grid, waiting: tuple[str, str]) -> None:
    job, remote = waiting

    altered = tool(grid, "qalter_remote", f"{job}.1", "--dry-run", "-p", "-70").out
    deleted = tool(grid, "qdel_remote", f"{job}.1", "--dry-run").out

    assert altered == f"/usr/lib/gridengine/qalter -p -70 {remote}\n"
    assert deleted == f"job {job}.1: would be deleted at home, and job {remote} at beta with it\n"
    assert "-70" not in grid.cell("beta", "qstat", "-j", remote).out


def test_a_task_that_waits_is_deleted_on_both_sides_and_its_neighbour_is_not(
    grid: Grid, waiting: tuple[str, str]
) -> None:
    job, remote = waiting

    done = tool(grid, "qdel_remote", f"{job}.1")

    assert done.out == f"job {job}.1: deleted at home, and job {remote} at beta with it\n"
    wait_for(grid, remote, "")
    wait_for(grid, f"{job}.1", "", "alpha")
    assert grid.states("beta")[remote_of(grid, job, 2)] == "qw"


def test_a_running_job_is_deleted_but_not_altered(grid: Grid, sent: Sent) -> None:
    job, remote = sent.running, sent.remotes[sent.running]

    refused = tool(grid, "qalter_remote", job, "-p", "-1")
    done = tool(grid, "qdel_remote", job)

    assert refused.status == 1
    assert refused.err == (f"qalter_remote: job {job}: job {remote} at beta is r; expected waiting\n")
    assert done.status == 0
    wait_for(grid, remote, "")
    assert grid.accounting_of_end(job)["exit_status"].split()[0] == "137"


def test_a_job_by_ssh_is_changed_and_deleted_with_its_owners_own_key(grid: Grid, sent: Sent) -> None:
    job = sent.delta

    def pending() -> str:
        told = tool(grid, "qstat_remote", "--cluster", "delta", "--json").out
        states = {one["job"]: one["transfer"]["remote_state"] for one in json.loads(told)["transfers"]}
        waiting = [task for task, state in states.items() if state == "qw"]
        return waiting[0] if list(states.values()).count("r") == DELTA_SLOTS else ""

    task = grid.until(pending, "a task that waits at delta, which is full")
    altered = tool(grid, "qalter_remote", task, "-p", "-9")
    # First the one that waits: else it starts in a slot of the others while it is deleted, and then
    # Grid Engine may list it as deleted and running for five minutes.
    alone = tool(grid, "qdel_remote", task)
    grid.until(lambda: not listed(grid, task), "the transfer to be over")
    done = tool(grid, "qdel_remote", job)

    assert (altered.status, altered.out.endswith("at delta changed: -p -9\n")) == (0, True), altered
    assert (alone.status, alone.out.count(" at delta with it\n")) == (0, 1), alone
    assert (done.status, done.out.count(" at delta with it\n")) == (0, 2), done
    grid.until_gone(job)


@pytest.mark.long
def test_a_user_deletes_all_own_jobs_and_no_other_users_job(grid: Grid, sent: Sent) -> None:
    remotes = [sent.remotes[job] for job in sent.mine]

    done = tool(grid, "qdel_remote", "-u", "alice")

    told = {
        f"job {job}: deleted at home, and job {away} at beta with it"
        for job, away in zip(sent.mine, remotes, strict=True)
    }
    assert done.status == 0
    assert told <= set(done.out.splitlines())  # of a job deleted before it may say: gone
    for remote in remotes:
        wait_for(grid, remote, "")
    assert listed(grid, sent.others)
