"""What is done to a local job happens to its remote one: suspend, resume, qdel, limits."""

import pytest

from tests.lab.away import (
    GONE_AT_HOME_S,
    GONE_AWAY_S,
    QUIET,
    SLEEP,
    Since,
    child,
    ends,
    full_beta,
    lines,
    qmaster,
    reachable,
    remote_of,
    short_notify,
    starter,
    statuses,
    until_all_gone,
    wait_for,
)
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("clean_homes")]

RUN = "date +%N >>$JOB_NAME.ran\n"


def test_a_running_task_is_suspended_and_resumed_alone_or_with_its_queue(grid: Grid) -> None:
    """And a suspended one is deleted like any other; a second qdel changes nothing."""
    job = grid.transfer("-N", "pair", "-t", "1-2", *QUIET, script=SLEEP)
    one, two = remote_of(grid, job, 1), remote_of(grid, job, 2)
    for remote in (one, two):
        wait_for(grid, remote, "r")

    grid.cell("alpha", "qmod", "-sj", f"{job}.1")
    wait_for(grid, one, "hs", limit_s=10)
    wait_for(grid, two, "r")
    grid.cell("alpha", "qmod", "-usj", f"{job}.1")
    wait_for(grid, one, "r", limit_s=10)

    grid.cell("alpha", "qmod", "-sq", "transfer-beta", user="root")
    wait_for(grid, one, "hs", limit_s=10)
    wait_for(grid, two, "hs", limit_s=10)
    grid.cell("alpha", "qmod", "-usq", "transfer-beta", user="root")
    wait_for(grid, one, "r", limit_s=10)
    wait_for(grid, two, "r", limit_s=10)

    grid.cell("alpha", "qmod", "-sj", f"{job}.1")
    grid.cell("alpha", "qmod", "-usj", f"{job}.1")
    grid.cell("alpha", "qmod", "-sj", f"{job}.1")
    wait_for(grid, one, "hs", limit_s=10)

    watch = Since()
    for _ in range(2):
        grid.cell("alpha", "qdel", job)
    grid.until_gone(job, limit_s=watch.left(GONE_AT_HOME_S))
    wait_for(grid, one, "", limit_s=watch.left(GONE_AWAY_S))
    wait_for(grid, two, "", limit_s=watch.left(GONE_AWAY_S))

    assert statuses(grid.until(lambda: ends(grid, job, 2), "two records")) == {("100", "137")}


def test_one_task_that_is_deleted_takes_its_remote_job_alone_with_it(grid: Grid) -> None:
    script = "echo $SGE_TASK_ID >>$JOB_NAME.ran\nuntil [ -e go.ran ]; do sleep 0.2; done\n"
    job = grid.transfer("-N", "three", "-t", "1-3", *QUIET, script=script)
    remotes = {task: remote_of(grid, job, task) for task in (1, 2, 3)}
    for remote in remotes.values():
        wait_for(grid, remote, "r")

    grid.cell("alpha", "qdel", job, "-t", "2")
    wait_for(grid, remotes[2], "", limit_s=GONE_AWAY_S)
    wait_for(grid, f"{job}.2", "", "alpha", limit_s=GONE_AT_HOME_S)
    assert {grid.states("beta")[remotes[task]] for task in (1, 3)} == {"r"}
    grid.sh("alpha-master", "touch go.ran", user="alice")
    records = grid.until(lambda: ends(grid, job, 3), "three records")

    how = {one["taskid"]: one["exit_status"].split()[0] for one in records}
    assert how == {"1": "0", "2": "137", "3": "0"}
    assert sorted(lines(grid, "three.ran")) == ["1", "2", "3"]
    until_all_gone(grid, remotes.values())


def test_a_waiting_job_is_held_and_released_or_deleted(grid: Grid) -> None:
    """A held one stays held though beta has room; operators delete what is not theirs."""
    with full_beta(grid):
        names = ("held", "both", "oper", "force")
        jobs = {name: grid.transfer("-N", name, *QUIET, script=RUN) for name in names}
        remotes = {name: remote_of(grid, job) for name, job in jobs.items()}
        for name in ("held", "both"):
            grid.cell("alpha", "qmod", "-sj", jobs[name])
        wait_for(grid, remotes["held"], "hqw", limit_s=10)
        wait_for(grid, remotes["both"], "hqw", limit_s=10)

        watch = Since()
        grid.cell("alpha", "qdel", jobs["both"])
        grid.cell("alpha", "qdel", jobs["oper"], user="root")
        grid.cell("alpha", "qdel", "-f", jobs["force"], user="root")
        for name in ("both", "oper", "force"):
            grid.until_gone(jobs[name], limit_s=watch.left(GONE_AT_HOME_S))
            wait_for(grid, remotes[name], "", limit_s=watch.left(GONE_AWAY_S))

    reachable(grid)
    wait_for(grid, remotes["held"], "hqw")
    grid.cell("alpha", "qmod", "-usj", jobs["held"])

    assert grid.accounting(jobs["held"])["exit_status"] == "0"
    assert [len(lines(grid, f"{name}.ran")) for name in names] == [1, 0, 0, 0]


def test_a_local_time_limit_leaves_the_decision_to_the_remote_one(grid: Grid) -> None:
    """A job may wait there beyond its h_rt; the local record says failed 37 then, and no more."""
    with full_beta(grid):
        job = grid.transfer("-N", "patient", "-l", "h_rt=8", *QUIET, script=f"{RUN}sleep 5\n")
        killed = grid.transfer("-N", "over", "-l", "h_rt=0:0:8", *QUIET, script=SLEEP)
        struck = f"grep -c 'job {job}.1 exceeded hard wallclock' {MESSAGES}"
        grid.until(lambda: grid.on("alpha-master", "sh", "-c", struck).status == 0, struck, 30)
        wait_for(grid, remote_of(grid, job), "qw")
        wait_for(grid, job, "hr", "alpha")

    ended, over = grid.accounting(job), grid.accounting(killed)

    assert (ended["exit_status"], ended["failed"].split()[0]) == ("0", "37")
    assert (over["exit_status"].split()[0], over["failed"].split()[0]) == ("137", "37")
    assert "failed 37" in grid.on("alpha-master", "gridbridge", "why", job, user="alice").out
    assert len(lines(grid, "patient.ran")) == 1


MESSAGES = "/var/spool/gridengine/alpha/execd/alpha-master/messages"


def test_a_soft_limit_is_the_jobs_own_affair(grid: Grid) -> None:
    """USR1 of s_rt is not -notify's: the remote job gets its own and is not suspended."""
    script = (
        'trap "echo USR1 >>soft.ran" USR1\nfor i in 1 2 3 4 5 6 7 8; do sleep 1; done\nexit 4\n'
    )
    plain = grid.transfer("-N", "soft1", "-l", "s_rt=3", *QUIET, script=script)
    both = grid.transfer("-N", "soft2", "-l", "s_rt=3", "-notify", *QUIET, script=script)

    for job in (plain, both):
        assert grid.accounting(job)["exit_status"] == "4"
    assert set(lines(grid, "soft.ran")) == {"USR1"}


def test_notify_warns_the_remote_job_at_once_and_nobody_waits_twice(grid: Grid) -> None:
    """A job that ends within its time ends at home as it ended there."""
    tidy = 'trap "exit 5" USR2\n' + "while :; do sleep 0.2; done\n"
    deaf = 'trap "" USR2\n' + "while :; do sleep 0.2; done\n"
    with short_notify(grid, 8):
        jobs = {
            name: grid.transfer("-N", name, "-notify", *QUIET, script=script)
            for name, script in (("tidy", tidy), ("deaf", deaf), ("stops", "trap : USR1\n" + tidy))
        }
        remotes = {name: remote_of(grid, job) for name, job in jobs.items()}
        for remote in remotes.values():
            wait_for(grid, remote, "r")
        grid.cell("alpha", "qmod", "-sj", jobs["stops"])
        grid.cell("alpha", "qdel", jobs["tidy"], jobs["deaf"])
        watch = Since()
        wait_for(grid, remotes["stops"], "hs", limit_s=6)
        grid.until_gone(jobs["deaf"], limit_s=watch.left(8 + 8))
        wait_for(grid, remotes["deaf"], "", limit_s=watch.left(8 + 8))

    assert grid.accounting(jobs["tidy"])["exit_status"] == "5"
    assert grid.accounting(jobs["deaf"])["exit_status"].split()[0] == "137"


def test_what_is_asked_before_the_submission_is_through_is_done(grid: Grid) -> None:
    """Suspended: it stays held until resumed. Deleted: it ends here, and nothing comes later."""
    with qmaster(grid, "freeze", "thaw"):
        stopped = grid.transfer("-N", "stopped", *QUIET, script=f"{RUN}exit 3\n")
        deleted = grid.transfer("-N", "deleted", *QUIET, script=RUN)
        for job in (stopped, deleted):
            child(grid, starter(grid, job), "qsub")
        grid.cell("alpha", "qmod", "-sj", stopped)
        watch = Since()
        grid.cell("alpha", "qdel", deleted)
        grid.until_gone(deleted, limit_s=watch.left(GONE_AT_HOME_S))
    watch = Since()
    remote = remote_of(grid, stopped)
    wait_for(grid, remote, "hqw")
    grid.until(lambda: _held_names(grid, deleted) == [], "nothing left", watch.left(GONE_AWAY_S))
    reachable(grid)
    wait_for(grid, remote, "hqw")

    grid.cell("alpha", "qmod", "-usj", stopped)

    assert grid.accounting(stopped)["exit_status"] == "3"
    assert (len(lines(grid, "stopped.ran")), lines(grid, "deleted.ran")) == (1, [])
    assert _held_names(grid, deleted) == []


def test_jobs_deleted_while_beta_does_not_answer_are_gone_soon_after_it_does(grid: Grid) -> None:
    """Frozen it takes what was asked meanwhile; stopped it forgot, and the service asks again."""
    for away, back in (("freeze", "thaw"), ("stop", "start")):
        jobs = [grid.transfer("-N", away, *QUIET, script=SLEEP) for _ in range(2)]
        remotes = [remote_of(grid, job) for job in jobs]
        for remote in remotes:
            wait_for(grid, remote, "r")
        with qmaster(grid, away, back):
            watch = Since()
            for _ in range(2):
                grid.cell("alpha", "qdel", jobs[0])
            grid.cell("alpha", "qdel", "-f", jobs[1], user="root")
            for job in jobs:
                grid.until_gone(job, limit_s=watch.left(GONE_AT_HOME_S))
        reachable(grid)
        watch = Since()
        for remote in remotes:
            wait_for(grid, remote, "", limit_s=watch.left(GONE_AWAY_S))

        assert [len(grid.remote_ids(job)) for job in jobs] == [1, 1]
        assert not _held_names(grid, jobs[0]) + _held_names(grid, jobs[1])


def _held_names(grid: Grid, job: str) -> list[str]:
    """Return the jobs at beta that still bear a transfer's name of this local job."""
    out = grid.cell("beta", "qstat", "-u", "*", "-r", user="root").out
    return [line for line in out.splitlines() if f"gb.alpha.{job}." in line]
