"""Requests and kills while beta's qmaster is frozen, cut off or stopped, and does not answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.lab.away import (
    GONE_AT_HOME_S,
    GONE_AWAY_S,
    QUIET,
    SLEEP,
    Since,
    child,
    cut,
    ends,
    kill,
    lines,
    reachable,
    remote_of,
    starter,
    statuses,
    until_all_gone,
    wait_for,
)
from tests.lab.grid import Grid
from tests.lab.phases import Outcomes, Phases, Scenario, Steps, as_it_is, frozen_beta, no_jobs_left, roomy, stopped_beta

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

Record = dict[str, str]

RUN = "date +%N >>$JOB_NAME.ran\n"
UNTIL_GO = "date +%N >>$JOB_NAME.ran\nuntil [ -e stop.go ]; do sleep 0.2; done\nexit 3\n"
OUTAGE = 5  # tasks that run as beta is stopped, and that come meanwhile


@contextmanager
def cut_off_beta(grid: Grid) -> Iterator[None]:
    with cut(grid, "beta"):
        yield
    grid.require_ready()


PHASES: Phases = {
    "beta answers": as_it_is,
    "beta is frozen": frozen_beta,
    "beta is thawed": as_it_is,
    "beta is cut off": cut_off_beta,
    "beta is healed": as_it_is,
    "beta is stopped": stopped_beta,
    "beta is started": as_it_is,
}


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    with no_jobs_left(grid), roomy(grid):
        scenarios = (early, steps, while_frozen, while_stopped, alone, *OUTAGES.values())
        yield Outcomes(grid, *scenarios, phases=PHASES)


def early(grid: Grid) -> Steps[tuple[Record, list[str], list[str], list[str]]]:
    yield "beta is frozen"
    stopped = grid.transfer("-N", "stopped", *QUIET, script=f"{RUN}exit 3\n")
    deleted = grid.transfer("-N", "deleted", *QUIET, script=RUN)
    for job in (stopped, deleted):
        child(grid, starter(grid, job), "qsub")
    grid.cell("alpha", "qmod", "-sj", stopped)
    watch = Since()
    grid.cell("alpha", "qdel", deleted)
    grid.until_gone(deleted, limit_s=watch.left(GONE_AT_HOME_S))

    yield "beta is thawed"
    watch = Since()
    remote = remote_of(grid, stopped)
    wait_for(grid, remote, "hqw")
    grid.until(lambda: _held_names(grid, deleted) == [], "nothing left", watch.left(GONE_AWAY_S))
    reachable(grid)
    wait_for(grid, remote, "hqw")

    grid.cell("alpha", "qmod", "-usj", stopped)
    record = grid.accounting(stopped)
    ran = lines(grid, "stopped.ran"), lines(grid, "deleted.ran")
    return record, *ran, _held_names(grid, deleted)


def test_a_job_suspended_or_deleted_during_its_submission_is_held_or_ended(came: Outcomes) -> None:
    record, stopped, deleted, left = came.of(early)

    assert record["exit_status"] == "3"
    assert (len(stopped), deleted) == (1, [])
    assert left == []


def while_frozen(grid: Grid) -> Steps[tuple[list[int], list[str]]]:
    return (yield from _deleted(grid, "beta is frozen", "beta is thawed"))


def while_stopped(grid: Grid) -> Steps[tuple[list[int], list[str]]]:
    return (yield from _deleted(grid, "beta is stopped", "beta is started"))


def _deleted(grid: Grid, away: str, back: str) -> Steps[tuple[list[int], list[str]]]:
    """Delete jobs during the fault; return how often each was submitted, and the jobs left at beta."""
    jobs = [grid.transfer("-N", "gone", *QUIET, script=SLEEP) for _ in range(2)]
    remotes = [remote_of(grid, job) for job in jobs]
    for remote in remotes:
        wait_for(grid, remote, "r")

    yield away
    watch = Since()
    for _ in range(2):
        grid.cell("alpha", "qdel", jobs[0])
    grid.cell("alpha", "qdel", "-f", jobs[1], user="root")
    for job in jobs:
        grid.until_gone(job, limit_s=watch.left(GONE_AT_HOME_S))

    yield back
    reachable(grid)
    watch = Since()
    for remote in remotes:
        wait_for(grid, remote, "", limit_s=watch.left(GONE_AWAY_S))
    submitted = [len(grid.remote_ids(job)) for job in jobs]
    return submitted, _held_names(grid, jobs[0]) + _held_names(grid, jobs[1])


@pytest.mark.parametrize("deleted", [while_frozen, while_stopped], ids=["frozen", "stopped"])
def test_jobs_deleted_while_beta_does_not_answer_are_gone_soon_after_it_does(came: Outcomes, deleted: Scenario) -> None:
    """A frozen qmaster executes the request later. A stopped qmaster loses it, and the service repeats it."""
    submitted, left = came.of(deleted)

    assert submitted == [1, 1]
    assert left == []


def steps(grid: Grid) -> Steps[dict[str, tuple[str, int]]]:
    jobs = {"stop": grid.transfer("-N", "stop", *QUIET, script=UNTIL_GO)}
    remote = remote_of(grid, jobs["stop"])
    wait_for(grid, remote, "r")

    yield "beta is frozen"
    jobs["submit"] = grid.transfer("-N", "submit", *QUIET, script=f"{RUN}exit 3\n")
    jobs["client"] = grid.transfer("-N", "client", *QUIET, script=f"{RUN}exit 3\n")
    grid.cell("alpha", "qmod", "-sj", jobs["stop"])
    shells = {name: starter(grid, job) for name, job in jobs.items()}
    kill(grid, _parent(grid, child(grid, shells["submit"], "qsub")))
    kill(grid, child(grid, shells["client"], "qsub"))
    kill(grid, _parent(grid, child(grid, shells["stop"], "qstat")))

    yield "beta is thawed"
    wait_for(grid, remote, "hs")
    grid.sh("alpha-master", "touch stop.go", user="alice")
    grid.cell("alpha", "qmod", "-usj", jobs["stop"])
    return {name: (grid.accounting(job)["exit_status"], len(lines(grid, f"{name}.ran"))) for name, job in jobs.items()}


def test_a_step_killed_while_submitting_or_suspending_is_repeated(came: Outcomes) -> None:
    assert came.of(steps) == dict.fromkeys(("stop", "submit", "client"), ("3", 1))


def alone(grid: Grid) -> Steps[tuple[str, list[str]]]:
    """Kill a starter while beta's qmaster is stopped; return the job's remote id, and all remote ids."""
    job = grid.transfer("-N", "alone", *QUIET, script=SLEEP)
    remote = remote_of(grid, job)
    wait_for(grid, remote, "r")

    yield "beta is stopped"
    kill(grid, starter(grid, job))
    grid.until_gone(job, limit_s=20)

    yield "beta is started"
    reachable(grid)
    wait_for(grid, remote, "", limit_s=GONE_AWAY_S)
    return remote, grid.remote_ids(job)


def test_a_starter_killed_while_beta_is_down_leaves_no_job_at_beta(came: Outcomes) -> None:
    remote, submitted = came.of(alone)

    assert submitted == [remote]


def outage(grid: Grid, name: str, gone: str, back: str) -> Steps[tuple[list[str], set[tuple[str, str]]]]:
    """Let tasks end, and others cross, while beta does not answer the service.

    Return the tasks that ran, and the ends of all tasks.
    """
    note = f"echo $JOB_NAME.$SGE_TASK_ID >>{name}.ran\n"
    until_go = f"{note}until [ -e {name}.go ]; do sleep 0.2; done\n"
    away = grid.transfer("-N", "away", "-t", f"1-{OUTAGE}", *QUIET, script=until_go)
    grid.until(lambda: len(lines(grid, f"{name}.ran")) == OUTAGE, "all to run")

    yield gone
    before = _silences(grid)
    late = grid.transfer("-N", "late", "-t", f"1-{OUTAGE}", *QUIET, script=note)
    for task in range(1, OUTAGE + 1):
        starter(grid, late, task)
    grid.sh("alpha-master", f"touch {name}.go", user="alice")
    grid.until(lambda: _silences(grid) > before, "the service to notice")

    yield back
    records = [
        record for job in (away, late) for record in grid.until(lambda j=job: ends(grid, j, OUTAGE), "all to end", 120)
    ]
    until_all_gone(grid, [*grid.remote_ids(away), *grid.remote_ids(late)])
    return sorted(lines(grid, f"{name}.ran")), statuses(records)


OUTAGES = {
    "cut off": partial(outage, name="cut", gone="beta is cut off", back="beta is healed"),
    "stopped": partial(outage, name="stopping", gone="beta is stopped", back="beta is started"),
}


@pytest.mark.parametrize("how", OUTAGES.keys())
def test_tasks_that_run_or_cross_while_the_remote_qmaster_is_away_run_once_each(came: Outcomes, how: str) -> None:
    """A longer outage is tested in test_faults.py."""
    ran, found = came.of(OUTAGES[how])

    assert ran == [f"{job}.{task}" for job in ("away", "late") for task in range(1, OUTAGE + 1)]
    assert found == {("0", "0")}


def _silences(grid: Grid) -> int:
    return grid.logged("event=no_answer cluster=beta").count("\n")


def _held_names(grid: Grid, job: str) -> list[str]:
    """Return beta's jobs that still have the transfer name of a local job."""
    out = grid.cell("beta", "qstat", "-u", "*", "-r", user="root").out
    return [line for line in out.splitlines() if f"gb.alpha.{job}." in line]


def _parent(grid: Grid, pid: str) -> str:
    return grid.on("alpha-master", "ps", "-o", "ppid=", "-p", pid).out.strip()
