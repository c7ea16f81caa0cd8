"""Suspending, resuming, deleting and limiting a local job has the same effect on its remote job."""

import random
from collections.abc import Iterable, Iterator

import pytest

from tests.lab import away
from tests.lab.grid import Grid
from tests.lab.phases import Outcomes, Phases, Steps, as_it_is, closed_beta, no_jobs_left, roomy

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

Record = dict[str, str]

RUN = "date +%N >>$JOB_NAME.ran\n"
MESSAGES = "/var/spool/gridengine/alpha/execd/alpha-master/messages"
NOTIFY_S = 10
HASTY = 8  # tasks at once
REPAIRED_S = 4 * 5.0 + 2  # four intervals, and what it takes to look
PHASES: Phases = {
    "the queue may be suspended": as_it_is,
    "beta has room": as_it_is,
    "beta is full": closed_beta,
    "beta has room again": as_it_is,
}


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    scenarios = (pair, hasty, three, waiting, limited, soft, warned, rescheduled)
    with no_jobs_left(grid), roomy(grid), away.short_notify(grid, NOTIFY_S):
        yield Outcomes(grid, *scenarios, phases=PHASES)


def pair(grid: Grid) -> Steps[list[Record]]:
    """Suspend and resume two tasks by their queue, then one task alone; delete both tasks."""
    job = grid.transfer("-N", "pair", "-t", "1-2", *away.QUIET, script=away.SLEEP)
    one, two = away.remote_of(grid, job, 1), away.remote_of(grid, job, 2)
    for remote in (one, two):
        away.wait_for(grid, remote, "r")

    grid.cell("alpha", "qmod", "-sq", "transfer-beta", user="root")
    away.wait_for(grid, one, "hs", limit_s=10)
    away.wait_for(grid, two, "hs", limit_s=10)
    grid.cell("alpha", "qmod", "-usq", "transfer-beta", user="root")
    away.wait_for(grid, one, "r", limit_s=10)
    away.wait_for(grid, two, "r", limit_s=10)

    yield "beta has room"
    grid.cell("alpha", "qmod", "-sj", f"{job}.1")
    away.wait_for(grid, one, "hs", limit_s=10)
    away.wait_for(grid, two, "r")
    grid.cell("alpha", "qmod", "-usj", f"{job}.1")
    away.wait_for(grid, one, "r", limit_s=10)

    for option in ("-sj", "-usj", "-sj"):
        grid.cell("alpha", "qmod", option, f"{job}.1")
    away.wait_for(grid, one, "hs", limit_s=REPAIRED_S)

    yield "beta is full"
    watch = away.Since()
    for _ in range(2):
        grid.cell("alpha", "qdel", job)
    grid.until_gone(job, limit_s=watch.left(away.GONE_AT_HOME_S))
    away.wait_for(grid, one, "", limit_s=watch.left(away.GONE_AWAY_S))
    away.wait_for(grid, two, "", limit_s=watch.left(away.GONE_AWAY_S))
    return grid.until(lambda: away.ends(grid, job, 2), "two records")


def test_a_running_task_is_suspended_and_resumed_alone_or_with_its_queue(came: Outcomes) -> None:
    """A suspended task can be deleted. A second qdel changes nothing."""
    assert away.statuses(came.of(pair)) == {("100", "137")}


def hasty(grid: Grid, rounds: int = 1) -> Steps[None]:
    """Suspend and resume tasks in quick succession, in both orders."""
    yield "beta has room"
    job = grid.transfer("-N", "hasty", "-t", f"1-{HASTY}", *away.QUIET, script=away.SLEEP)
    tasks = {f"{job}.{task}": away.remote_of(grid, job, task) for task in range(1, HASTY + 1)}
    for remote in tasks.values():
        away.wait_for(grid, remote, "r")
    for _ in range(rounds):
        follow_each_other(grid, tasks, "-sj", "-usj")
        until_agreed(grid, tasks, is_suspended=False)
        grid.cell("alpha", "qmod", "-sj", job)
        until_agreed(grid, tasks, is_suspended=True)
        follow_each_other(grid, tasks, "-usj", "-sj")
        until_agreed(grid, tasks, is_suspended=True)
        grid.cell("alpha", "qmod", "-usj", job)
        until_agreed(grid, tasks, is_suspended=False)
    grid.cell("alpha", "qdel", job)


def follow_each_other(grid: Grid, tasks: Iterable[str], first: str, then: str) -> None:
    """Do one action to each task, and the second action up to half a second later."""
    pairs = (f"(qmod {first} {task}; sleep {random.uniform(0, 0.5):.2f}; qmod {then} {task}) &" for task in tasks)
    grid.sh("alpha-master", "\n".join((*pairs, "wait")), user="alice")


def until_agreed(grid: Grid, tasks: dict[str, str], is_suspended: bool) -> None:
    """Wait until no method runs, and the remote tasks have the states of their local tasks."""
    methods = "'[g]ridbridge.transfer.starter.(control_methods|starter)'"
    own = (task if "." in task else f"{task}.1" for task in tasks)  # not what others' jobs left
    intents = " ".join(f"/tmp/{task}.transfer-beta/.gridbridge/intent" for task in own)
    busy = f"pgrep -af {methods} || ls {intents}"

    def agrees() -> bool:
        nonlocal last
        there = grid.states("beta")
        wrong = [each for each in tasks.values() if ("s" in there[each]) is not is_suspended]
        last = wrong or grid.on("alpha-master", "sh", "-c", busy).out
        return not last

    here = grid.states()
    last: object = None
    assert {"s" in here[task] for task in tasks} == {is_suspended}
    try:
        grid.until(agrees, f"all to be suspended: {is_suspended}", REPAIRED_S)
    except AssertionError as error:
        raise AssertionError(f"{error}; not yet: {last}") from error


def test_quick_suspensions_and_resumptions_leave_the_same_state_at_both_clusters(came: Outcomes) -> None:
    """The shepherd runs methods concurrently, and skips some methods."""
    assert came.of(hasty) is None


@pytest.mark.long
def test_both_clusters_agree_after_a_hundred_suspensions_and_resumptions(grid: Grid) -> None:
    with no_jobs_left(grid), roomy(grid):
        Outcomes(grid, many_hasty, phases=PHASES).of(many_hasty)


def many_hasty(grid: Grid) -> Steps[None]:
    return (yield from hasty(grid, rounds=7))


def three(grid: Grid) -> Steps[tuple[list[Record], list[str]]]:
    script = "echo $SGE_TASK_ID >>$JOB_NAME.ran\nuntil [ -e three.go ]; do sleep 0.2; done\n"
    job = grid.transfer("-N", "three", "-t", "1-3", *away.QUIET, script=script)
    remotes = {task: away.remote_of(grid, job, task) for task in (1, 2, 3)}
    for remote in remotes.values():
        away.wait_for(grid, remote, "r")
    grid.until(lambda: len(away.lines(grid, "three.ran")) == 3, "each to have begun")

    yield "beta has room"
    grid.cell("alpha", "qdel", job, "-t", "2")
    away.wait_for(grid, remotes[2], "", limit_s=away.GONE_AWAY_S)
    away.wait_for(grid, f"{job}.2", "", "alpha", limit_s=away.GONE_AT_HOME_S)
    assert {grid.states("beta")[remotes[task]] for task in (1, 3)} == {"r"}
    grid.sh("alpha-master", "touch three.go", user="alice")

    yield "beta is full"
    records = grid.until(lambda: away.ends(grid, job, 3), "three records")
    away.until_all_gone(grid, remotes.values())
    return records, away.lines(grid, "three.ran")


def test_deleting_a_task_deletes_only_its_own_remote_job(came: Outcomes) -> None:
    records, ran = came.of(three)

    how = {one["taskid"]: one["exit_status"].split()[0] for one in records}
    assert how == {"1": "0", "2": "137", "3": "0"}
    assert sorted(ran) == ["1", "2", "3"]


def waiting(grid: Grid) -> Steps[tuple[Record, list[int]]]:
    yield "beta is full"
    names = ("held", "both", "oper", "force")
    jobs = {name: grid.transfer("-N", name, *away.QUIET, script=RUN) for name in names}
    remotes = {name: away.remote_of(grid, job) for name, job in jobs.items()}
    for remote in remotes.values():
        away.wait_for(grid, remote, "qw")
    for name in ("held", "both"):
        grid.cell("alpha", "qmod", "-sj", jobs[name])
    away.wait_for(grid, remotes["held"], "hqw", limit_s=10)
    away.wait_for(grid, remotes["both"], "hqw", limit_s=10)

    watch = away.Since()
    grid.cell("alpha", "qdel", jobs["both"])
    grid.cell("alpha", "qdel", jobs["oper"], user="root")
    grid.cell("alpha", "qdel", "-f", jobs["force"], user="root")
    for name in ("both", "oper", "force"):
        grid.until_gone(jobs[name], limit_s=watch.left(away.GONE_AT_HOME_S))
        away.wait_for(grid, remotes[name], "", limit_s=watch.left(away.GONE_AWAY_S))

    yield "beta has room again"
    away.reachable(grid)
    away.wait_for(grid, remotes["held"], "hqw")
    grid.cell("alpha", "qmod", "-usj", jobs["held"])
    record = grid.accounting(jobs["held"])
    return record, [len(away.lines(grid, f"{name}.ran")) for name in names]


def test_a_waiting_job_is_held_and_released_or_deleted(came: Outcomes) -> None:
    """A held job stays held though beta has free slots. Operators delete other people's jobs."""
    held, runs = came.of(waiting)

    assert held["exit_status"] == "0"
    assert runs == [1, 0, 0, 0]


def limited(grid: Grid) -> Steps[tuple[Record, Record, str, list[str]]]:
    yield "beta is full"
    job = grid.transfer("-N", "patient", "-l", "h_rt=8", *away.QUIET, script=f"{RUN}sleep 4\n")
    killed = grid.transfer("-N", "over", "-l", "h_rt=0:0:8", *away.QUIET, script=away.SLEEP)
    for each in (job, killed):
        struck = f"grep -c 'job {each}.1 exceeded hard wallclock' {MESSAGES}"
        grid.until(lambda s=struck: grid.on("alpha-master", "sh", "-c", s).status == 0, struck)
    away.wait_for(grid, away.remote_of(grid, job), "qw")
    away.wait_for(grid, job, "r", "alpha")

    yield "beta has room again"
    ended, over = grid.accounting(job), grid.accounting(killed)
    return ended, over, away.why(grid, job), away.lines(grid, "patient.ran")


@pytest.mark.long
def test_a_local_time_limit_leaves_the_decision_to_the_remote_one(came: Outcomes) -> None:
    """A job may wait at beta beyond its h_rt. Only its local record then says failed 37."""
    ended, over, told, ran = came.of(limited)

    assert (ended["exit_status"], ended["failed"].split()[0]) == ("0", "37")
    assert (over["exit_status"].split()[0], over["failed"].split()[0]) == ("137", "37")
    assert "failed 37" in told
    assert len(ran) == 1


def soft(grid: Grid) -> Steps[tuple[list[str], set[str]]]:
    yield "beta has room"
    script = 'trap "echo USR1 >>soft.ran" USR1\nfor i in 1 2 3 4 5 6 7 8; do sleep 1; done\nexit 4\n'
    options = ("-l", "s_rt=3", *away.QUIET)
    plain = grid.transfer("-N", "soft1", *options, script=script)
    both = grid.transfer("-N", "soft2", "-notify", *options, script=script)
    for job in (plain, both):
        away.wait_for(grid, away.remote_of(grid, job), "r")

    yield "beta is full"
    found = [grid.accounting(job)["exit_status"] for job in (plain, both)]
    return found, set(away.lines(grid, "soft.ran"))


@pytest.mark.long
def test_a_soft_time_limit_signals_the_remote_job_without_suspending_it(came: Outcomes) -> None:
    """The remote job gets its own USR1 by s_rt. Only the USR1 of -notify announces a suspension."""
    found, signals = came.of(soft)

    assert found == ["4", "4"]
    assert signals == {"USR1"}


def warned(grid: Grid) -> Steps[dict[str, Record]]:
    yield "beta has room"
    tidy = 'trap "exit 5" USR2\n' + "while :; do sleep 0.2; done\n"
    deaf = 'trap "" USR2\n' + "while :; do sleep 0.2; done\n"
    jobs = {
        name: grid.transfer("-N", name, "-notify", *away.QUIET, script=script)
        for name, script in (("tidy", tidy), ("deaf", deaf), ("stops", "trap : USR1\n" + tidy))
    }
    remotes = {name: away.remote_of(grid, job) for name, job in jobs.items()}
    for remote in remotes.values():
        away.wait_for(grid, remote, "r")

    yield "beta is full"
    grid.cell("alpha", "qmod", "-sj", jobs["stops"])
    grid.cell("alpha", "qdel", jobs["tidy"], jobs["deaf"])
    watch = away.Since()
    away.wait_for(grid, remotes["stops"], "hs", limit_s=NOTIFY_S - 2)
    grid.until_gone(jobs["deaf"], limit_s=watch.left(2 * NOTIFY_S))
    away.wait_for(grid, remotes["deaf"], "", limit_s=watch.left(2 * NOTIFY_S))
    # To a stopped job the KILL of `-notify` is told again before it is due, and so never comes.
    grid.cell("alpha", "qmod", "-usj", jobs["stops"])
    away.wait_for(grid, remotes["stops"], "r")
    grid.cell("alpha", "qdel", jobs["stops"])
    return {name: grid.accounting(jobs[name]) for name in ("tidy", "deaf")}


def test_notify_warns_the_remote_job_at_once_and_its_notice_counts_once(came: Outcomes) -> None:
    """A job that ends within the notice ends at home with its own exit status."""
    found = came.of(warned)

    assert found["tidy"]["exit_status"] == "5"
    assert found["deaf"]["exit_status"].split()[0] == "137"


def rescheduled(grid: Grid) -> Steps[dict[str, str]]:
    """Reschedule jobs submitted with -notify: one may run anywhere, one only away."""
    yield "beta has room"
    script = "echo run >>$JOB_NAME.ran; [ $(wc -l <$JOB_NAME.ran) = 1 ] || exit 4; sleep 300\n"
    jobs = {
        "back": grid.overflow("-N", "back", "-notify", "-r", "y", *away.QUIET, script=script),
        "away": grid.transfer("-N", "away", "-notify", "-r", "y", *away.QUIET, script=script),
    }
    for name, job in jobs.items():
        away.wait_for(grid, away.remote_of(grid, job), "r")
        grid.until(lambda n=name: away.lines(grid, f"{n}.ran"), "the first run")
        away.until_reported(grid, job)
    grid.cell("alpha", "qmod", "-rj", *jobs.values(), user="root")
    return {name: grid.accounting_of_end(job, 90)["exit_status"] for name, job in jobs.items()}


def test_a_job_that_is_put_back_with_a_warning_runs_again(came: Outcomes) -> None:
    """An end of the remote job by the warning signal is no end of the local job."""
    assert came.of(rescheduled) == {"back": "4", "away": "4"}
