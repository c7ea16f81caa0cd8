"""A rescheduled task never runs at home while a copy of it may run on the other cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.lab import away
from tests.lab.grid import Grid, between
from tests.lab.phases import Outcomes, Phases, Steps, as_it_is, closed_beta, closed_home, no_jobs_left, roomy
from tests.lab.transfer.home.claimed import frozen_poller

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

# Two lines an execution: where it ran, and that it came to its end.
UNTIL_GO = (
    "echo start $HOSTNAME >>$JOB_NAME.ran; until [ -e $JOB_NAME.go ]; do sleep 0.2; done;"
    " echo end >>$JOB_NAME.ran; exit 3\n"
)
GUARDS = {"hold": ("-t", "1-2"), "start": (), "none": ("-l", "remote=true")}  # what has which
FAR = "Mon Jan  1 00:00:00 2035"  # execution_time of qstat -j
AGAIN = (  # its first run waits, and is put back by its own wish
    "echo start $HOSTNAME >>$JOB_NAME.ran; [ $(wc -l <$JOB_NAME.ran) = 1 ] || exit 4;"
    " until [ -e righted.go ]; do sleep 0.2; done; exit 99\n"
)
FORGET = f"""kill -9 -$(cat {away.ACTIVE}/{{job}}.1/job_pid) $(cat {away.ACTIVE}/{{job}}.1/pid)
qdel -f {{job}}; labctl kill execd
rm -r {away.ACTIVE}/{{job}}.1 {away.ACTIVE}/../jobs/*"""
HOME_FIRST = "all.q,transfer-beta"
COUNT_ANEW = """labctl stop qmaster
echo {before} >/var/spool/gridengine/alpha/qmaster/jobseqnum; labctl start qmaster"""
SHORT = "sleep 10; echo end >>$JOB_NAME.ran; exit 3\n"
LONG = "echo start $HOSTNAME >>$JOB_NAME.ran; sleep 45; echo end >>$JOB_NAME.ran\n"


@contextmanager
def power_is_back(grid: Grid) -> Iterator[None]:
    """Cut the transfer host's power, and boot the host.

    The qmaster there saves its last job number only now and then. It must not reuse the numbers that it forgot,
    because the logs contain them.
    """
    last = held_job(grid)
    grid.lab("power", "alpha-master", "cut")
    grid.lab("power", "alpha-master", "on")
    grid.require_ready()
    grid.until(lambda: held_job(grid) > last, "a job number that is new")
    yield


def held_job(grid: Grid) -> int:
    return int(grid.submit("-h", "-b", "y", "true"))


@contextmanager
def silent_execd(grid: Grid) -> Iterator[None]:
    """Stop the execd of the transfer host, so that the qmaster reschedules its jobs."""
    with away.global_setting(grid, "alpha-master", "reschedule_unknown", "0:0:5"):
        with between(lambda verb: grid.on("alpha-master", "labctl", verb, "execd"), "stop", "start"):
            yield
        grid.require_ready()


PHASES: Phases = {
    "home is closed": closed_home,
    "beta is closed": closed_beta,
    "all is open": as_it_is,
    "power is back": power_is_back,
    "home is closed again": closed_home,
    "the execd is silent": silent_execd,
    "the execd is heard": as_it_is,
}


@pytest.fixture(scope="module")
def came(grid: Grid) -> Iterator[Outcomes]:
    with no_jobs_left(grid), roomy(grid):
        scenarios = (hasty, again, away_again, waits, righted, copied, twice, cut, silent, put)
        yield Outcomes(grid, *scenarios, phases=PHASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """A job that was rescheduled at home: its end, its runs and its remaining remote jobs."""

    status: str
    ran: tuple[str, ...]
    copies: tuple[str, ...]  # of its remote jobs those that beta still lists


def put_back(grid: Grid, name: str, *options: str) -> Steps[Again]:
    """Reschedule a job while its first run is at beta."""
    job = grid.submit("-N", name, *options, *away.QUIET, script=UNTIL_GO)
    grid.until(lambda: away.lines(grid, f"{name}.ran"), "the first run")

    yield "all is open"  # while another job is made to cross, home is closed
    grid.cell("alpha", "qmod", "-rj", job, user="root")
    grid.until(lambda: away.lines(grid, f"{name}.ran")[1:], "the second run", 90)
    grid.sh("alpha-master", f"touch {name}.go", user="alice")
    return _ended(grid, job, name)


def again(grid: Grid) -> Steps[Again]:
    return (yield from put_back(grid, "rj"))


def test_qmod_rj_starts_anew_only_after_the_copy_is_gone(came: Outcomes) -> None:
    """The running copy is killed, as a run at home would be."""
    job = came.of(again)

    assert job.status == "3"
    assert job.ran[0].startswith("start beta-")
    assert job.ran[1].startswith("start alpha-n")
    assert job.ran[2:] == ("end",)
    assert job.copies == ()


def away_again(grid: Grid) -> Steps[Again]:
    return (yield from put_back(grid, "away", "-q", "transfer-beta"))


def test_a_job_that_is_only_for_beta_is_sent_there_anew_after_the_copy_is_gone(came: Outcomes) -> None:
    """Grid Engine restarts the task at once; the new starter waits until the old copy is deleted."""
    job = came.of(away_again)

    assert job.status == "3"
    assert [line.partition("-")[0] for line in job.ran] == ["start beta", "start beta", "end"]
    assert job.copies == ()


def hasty(grid: Grid) -> Steps[tuple[list[str], list[list[str]]]]:
    """Reschedule jobs that can run at beta only, as soon as they run."""
    yield "home is closed again"  # before that the log, which tells remote ids, has no room left
    names = [f"hasty{number}" for number in range(4)]
    asked = (*away.QUIET, "-q", "transfer-beta")
    jobs = [grid.submit("-N", name, *asked, script=SHORT) for name in names]
    for job in jobs:
        away.wait_for(grid, job, "r", "alpha")
        grid.cell("alpha", "qmod", "-rj", job, user="root")
    statuses = [grid.accounting_of_end(job)["exit_status"] for job in jobs]
    return statuses, [away.lines(grid, f"{name}.ran") for name in names]


def test_a_job_that_is_put_back_as_soon_as_it_runs_is_not_lost(came: Outcomes) -> None:
    """The end of the first run may count as the end of the second run, and reschedule the job again."""
    statuses, ran = came.of(hasty)

    assert statuses == ["3"] * 4
    assert [one.count("end") for one in ran] == [1] * 4


def waits(grid: Grid) -> Steps[Again]:
    yield "beta is closed"
    grid.sh("alpha-master", "touch waits.go", user="alice")
    job = grid.overflow("-N", "waits", *away.QUIET, script=UNTIL_GO)
    away.wait_for(grid, grid.remote_id(job), "qw")
    grid.cell("alpha", "qmod", "-rj", job, user="root")
    return _ended(grid, job, "waits")


def test_a_copy_that_still_waits_is_deleted_and_the_task_runs_at_home(came: Outcomes) -> None:
    job = came.of(waits)

    assert job.ran[0].startswith("start alpha-n")
    assert len(job.ran) == 2
    assert job.copies == ()


def righted(grid: Grid) -> Steps[tuple[dict[str, str], str, dict[str, str]]]:
    """Remove the guards of three jobs; return their later states, one job's details, and their ends."""
    options = GUARDS | {"hold": ("-t", "1-1"), "none": ("-q", "transfer-beta")}
    jobs = {
        name: grid.submit("-N", f"righted-{name}", *each, *away.QUIET, script=AGAIN) for name, each in options.items()
    }
    for job in jobs.values():
        away.wait_for(grid, grid.remote_id(job), "r")
    grid.cell("alpha", "qrls", jobs["hold"])
    grid.cell("alpha", "qalter", "-a", "202601010000", jobs["start"])
    grid.cell("alpha", "qalter", "-q", "transfer-beta,all.q", jobs["none"])

    yield "all is open"
    for job in (jobs["start"], jobs["none"]):
        grid.until(lambda j=job: FAR in grid.cell("alpha", "qstat", "-j", j).out, "a guard", 90)
    tasks = jobs | {"hold": f"{jobs['hold']}.1"}
    shown = {name: grid.states()[task] for name, task in tasks.items()}
    told = grid.cell("alpha", "qstat", "-j", jobs["start"]).out
    grid.sh("alpha-master", "touch righted.go", user="alice")
    statuses = {name: grid.accounting_of_end(job)["exit_status"] for name, job in jobs.items()}
    return shown, told, statuses


def test_a_guard_that_its_owner_takes_away_is_put_back(came: Outcomes) -> None:
    """A start time that the owner sets is saved, and restored later.

    A rerun job has no guard, neither the owner's nor the service's.
    """
    shown, told, statuses = came.of(righted)

    assert shown == {"hold": "hr", "start": "r", "none": "r"}
    assert "gridbridge_start=1767225600" in told
    assert statuses == dict.fromkeys(GUARDS, "4")


def copied(grid: Grid) -> Steps[tuple[bool, list[str], str]]:
    """Copy a job by qresub; return whether the copy has a guard, the output of both jobs, and the log."""
    job = grid.submit("-N", "copied", *away.QUIET, script=UNTIL_GO)
    away.wait_for(grid, grid.remote_id(job), "r")

    yield "all is open"
    told = grid.cell("alpha", "qresub", job).out
    copy = told.split()[2]
    grid.until(lambda: len(away.lines(grid, "copied.ran")) == 2, "the copy to run", 90)
    is_guarded = f"gridbridge_job={job}" in grid.cell("alpha", "qstat", "-j", copy).out
    grid.sh("alpha-master", "touch copied.go", user="alice")
    for each in (job, copy):
        grid.accounting_of_end(each)
    return is_guarded, away.lines(grid, "copied.ran"), grid.logged(f"event=freed job={copy} ")


def test_a_copy_that_qresub_makes_does_not_wait_behind_the_guard(came: Outcomes) -> None:
    """Job and copy each run once, the copy wherever a slot is free."""
    is_guarded, ran, logged = came.of(copied)

    assert not is_guarded
    assert [line.partition(" ")[0] for line in ran] == ["start", "start", "end", "end"]
    assert "qresub has copied the guard of transferred job" in logged


def twice(grid: Grid) -> Steps[Again]:
    """Remove a guard, reschedule the job so that it runs at home, and reschedule it once more.

    Grid Engine restarts a job while execd still kills the former run, here the run at home. Grid Engine forgets
    to kill a run that execd has not reported.
    """
    script = UNTIL_GO.replace("start $HOSTNAME", "start $HOSTNAME $$")
    job = grid.submit("-N", "twice", "-r", "y", *away.QUIET, script=script)
    grid.until(lambda: away.lines(grid, "twice.ran"), "the first run")

    yield "all is open"
    grid.cell("alpha", "qalter", "-a", "202601010000", job)
    grid.cell("alpha", "qmod", "-rj", job, user="root")
    second = grid.until(lambda: away.lines(grid, "twice.ran")[1:], "the second run", 90)[0]
    away.wait_for(grid, job, "Rr", "alpha")
    grid.cell("alpha", "qalter", "-q", "transfer-beta", job)
    grid.cell("alpha", "qmod", "-rj", job, user="root")
    _, host, process = second.split()
    grid.until(lambda: grid.on(host, "kill", "-0", process).status, "the second run to be killed")
    grid.until(lambda: away.lines(grid, "twice.ran")[2:], "the third run", 90)
    grid.sh("alpha-master", "touch twice.go", user="alice")
    return _ended(grid, job, "twice")


def test_a_job_whose_guard_was_taken_away_may_be_put_back_again(came: Outcomes) -> None:
    """The first transfer ends as soon as no copy is left, wherever the job is by then."""
    job = came.of(twice)

    where = [line.partition("-")[0] for line in job.ran]
    assert where == ["start beta", "start alpha", "start beta", "end"], job.ran
    assert job.copies == ()


def test_a_rescheduled_job_adopts_no_remote_job_of_an_older_job_with_its_number(grid: Grid) -> None:
    """Home's qmaster has forgotten the older job, which is at beta, and reuses its number."""
    grid.sh("alpha-master", "rm -f newer.*", user="alice")
    grid.cell("alpha", "qdel", "-u", "alice", user="root")  # a job with a higher number counts on
    grid.until(lambda: not grid.states(), "home to be empty")
    older = grid.submit("-N", "older", "-q", "transfer-beta", *away.QUIET, script=away.SLEEP)
    remote = grid.remote_id(older)
    with asleep(grid):
        grid.sh("alpha-master", FORGET.format(job=older))
        grid.sh("alpha-master", COUNT_ANEW.format(before=int(older) - 1))
        grid.until(lambda: grid.cell("alpha", "qstat", user="root").status == 0, "the qmaster")
        newer = grid.submit("-N", "newer", "-r", "y", "-q", HOME_FIRST, *away.QUIET, script=UNTIL_GO)
        grid.until(lambda: away.lines(grid, "newer.ran"), "the first run", 90)
    away.wait_for(grid, remote, "")
    with closed_home(grid):
        grid.cell("alpha", "qmod", "-rj", newer, user="root")
        grid.until(lambda: away.lines(grid, "newer.ran")[1:], "the second run", 90)
    grid.sh("alpha-master", "touch newer.go", user="alice")
    statuses = grid.until(lambda: _statuses(grid, newer)[2:], "its end beside those of before", 90)

    assert (newer, statuses) == (older, ["3"])
    first, second, _ = away.lines(grid, "newer.ran")
    assert first.startswith("start alpha-n")
    assert second.startswith("start beta-")


def _statuses(grid: Grid, number: str) -> list[str]:
    return [one["exit_status"].split()[0] for one in grid.records(number)]


@contextmanager
def asleep(grid: Grid) -> Iterator[None]:
    """Hide events at home from the service and from the transfer host's execd."""
    with between(lambda verb: grid.on("alpha-master", "labctl", verb, "execd"), "freeze", "start"), frozen_poller(grid):
        yield


def _ended(grid: Grid, job: str, name: str) -> Again:
    record = grid.accounting_of_end(job)
    remotes = grid.remote_ids(job)
    away.until_all_gone(grid, remotes[-1:])  # the last may have ended just now
    there = grid.states("beta")
    return Again(
        status=record["exit_status"],
        ran=tuple(away.lines(grid, f"{name}.ran")),
        copies=tuple(each for each in remotes if each in there),
    )


def cut(grid: Grid) -> Steps[tuple[set[str], list[str], dict[str, set[str]]]]:
    """Cut the transfer host's power while four tasks run; return their ends, output and state letters."""
    jobs = [grid.submit("-N", "cut", *each, *away.QUIET, script=UNTIL_GO) for each in GUARDS.values()]
    grid.until(lambda: len(away.lines(grid, "cut.ran")) == 4, "all tasks to run")
    grid.until(lambda: not any("t" in each for each in _letters(grid, jobs)), "all to be run")
    shown = {name: _letters(grid, [job]) for name, job in zip(GUARDS, jobs, strict=True)}

    yield "power is back"
    grid.sh("alpha-master", "touch cut.go", user="alice")
    statuses = {one["exit_status"] for job in jobs for one in _all_ends(grid, job, jobs)}
    return statuses, away.lines(grid, "cut.ran"), shown


def _letters(grid: Grid, jobs: list[str]) -> set[str]:
    return {state for key, state in grid.states().items() if key.partition(".")[0] in jobs}


def _all_ends(grid: Grid, job: str, jobs: list[str]) -> list[dict[str, str]]:
    """Wait for the ends of a job; the first job has two tasks."""
    count = 2 if job == jobs[0] else 1
    return grid.until(lambda: away.ends(grid, job, count), f"{job} to end", 90)


def test_a_running_copy_is_adopted_after_the_transfer_host_lost_power(came: Outcomes) -> None:
    """Home has free slots, yet each task runs once, at beta, to its end."""
    statuses, ran, _ = came.of(cut)

    assert statuses == {"3"}
    assert (len([one for one in ran if one.startswith("start beta-")]), ran.count("end")) == (4, 4)
    assert len(ran) == 8


def test_only_an_array_task_that_could_run_at_home_shows_a_hold(came: Outcomes) -> None:
    assert came.of(cut)[2] == {"hold": {"hr"}, "start": {"r"}, "none": {"r"}}


SILENT = ("before", "after", "runs")  # which end before, and after, they are put back, or run on
# One that may only come back to the same host waits a minute for that (8.1.9), and the end of its
# first run, when execd tells it so late, may be taken for that of its second one.
ALL_SILENT = tuple(f"{name}-{guard}" for name in SILENT for guard in GUARDS)[:-1]


def silent(grid: Grid) -> Steps[tuple[dict[str, str], list[list[str]]]]:
    """Stop an execd so that its jobs are rescheduled; return their ends and where they ran."""
    yield "home is closed again"
    options = GUARDS | {"hold": ("-t", "1-1")}
    jobs = {
        name: grid.submit("-N", name, *options[name.split("-")[1]], *away.QUIET, script=UNTIL_GO) for name in ALL_SILENT
    }
    remotes = {name: grid.remote_id(job) for name, job in jobs.items()}
    for remote in remotes.values():
        away.wait_for(grid, remote, "r")

    yield "the execd is silent"
    _let_end(grid, "before", remotes)
    tasks = {name: f"{job}.1" if "hold" in name else job for name, job in jobs.items()}
    for name, task in tasks.items():
        away.wait_for(grid, task, "hRq" if "hold" in name else "Rq", "alpha", limit_s=90)
    _let_end(grid, "after", remotes)
    found = {grid.states()[task] for name, task in tasks.items() if "before" not in name}
    assert found == {"hRq", "Rq"}

    yield "the execd is heard"
    again = [name for name in ALL_SILENT if "runs" in name]
    grid.until(lambda: all(len(away.lines(grid, f"{name}.ran")) == 2 for name in again), "again", 90)
    _let_end(grid, "runs", remotes)
    statuses = {name: grid.accounting_of_end(job)["exit_status"] for name, job in jobs.items()}
    away.until_all_gone(grid, remotes.values())
    return statuses, [_clusters(grid, name) for name in ALL_SILENT]


def test_a_task_that_the_silence_of_its_execd_puts_back_runs_once_to_its_end(came: Outcomes) -> None:
    """After `reschedule_unknown` an unreported end is kept, and a running copy is deleted."""
    found, clusters = came.of(silent)

    assert found == dict.fromkeys(ALL_SILENT, "3")
    assert clusters[:6] == [["beta"]] * 6
    assert clusters[6:] == [["beta", "alpha"]] * 2


def _let_end(grid: Grid, which: str, remotes: dict[str, str]) -> None:
    names = [name for name in remotes if which in name]
    grid.sh("alpha-master", f"touch {' '.join(f'{name}.go' for name in names)}", user="alice")
    away.until_all_gone(grid, [remotes[name] for name in names])


def _clusters(grid: Grid, name: str) -> list[str]:
    starts = [line for line in away.lines(grid, f"{name}.ran") if line.startswith("start")]
    return [line.split()[1].partition("-")[0] for line in starts]


def put(grid: Grid) -> Steps[tuple[str, list[str], str]]:
    yield "home is closed again"
    job = grid.transfer("-N", "put", *away.QUIET, "-notify", "-r", "n", script=LONG)
    remote = grid.remote_id(job)
    grid.until(lambda: away.lines(grid, "put.ran"), "the first run")
    away.until_reported(grid, remote, "beta")
    grid.cell("beta", "qmod", "-f", "-rj", remote, user="root")
    record = grid.accounting_of_end(job)

    yield "the execd is silent"
    grid.until_gone(remote, "beta", 30)
    return record["exit_status"].split()[0], away.lines(grid, "put.ran"), away.why(grid, job)


def test_a_job_put_back_at_beta_after_its_end_was_told_does_not_run_to_its_end_again(came: Outcomes) -> None:
    """The job ends on the warning of `-notify` and reports its end. Then beta restarts the job."""
    status, ran, told = came.of(put)

    assert (status, ran.count("end")) == ("140", 0), (ran, told)  # USR2, -notify's warning
    assert "deleting the remote job: the job has ended, but beta lists the job as " in told
