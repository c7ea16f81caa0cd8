"""Tests that kill programs of an embedded cluster: no job is lost, and no job runs twice."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from gridbridge.batch.embedded import embedded_job_processes
from gridbridge.batch.embedded.embedded_job_store import LOST
from tests.batch.embedded.site import PROGRAM, Site, parent_of
from tests.contract.waiting import stays, until

pytestmark = pytest.mark.killing
SMALL = 7  # function calls between two kills, so few that each part of a program is killed
TICKING = "while :; do echo . >>ticks; sleep 0.05; done\n"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, slots=1)
    yield site
    site.empty()


def test_a_killed_keeper_loses_no_job_and_runs_no_job_twice(site: Site, step: int) -> None:
    """A job that had not begun runs later; the exit status of a job that had begun is lost."""
    ends = []
    for after in count(1, step):
        site.rest()
        job = site.add_noting()
        is_killed = site.run_killed(after, "keep")
        end = site.end(job)
        ends.append((end.exit_status, end.signal, end.reason))
        runs = site.times_run(job)
        assert runs == 1 or (runs == 0 and end.reason == LOST), (after, runs, end)
        if not is_killed:
            break

    ran, lost = (0, None, ""), (None, None, LOST)
    assert {ran, lost} - ({lost} if step > SMALL else set()) <= set(ends) <= {ran, lost}


@pytest.mark.parametrize("verb", ["hold", "release", "suspend", "resume", "delete"])
def test_a_killed_command_can_be_repeated(site: Site, verb: str, step: int) -> None:
    letters = {"hold": "hqw", "release": "qw", "suspend": "hqw", "resume": "qw", "delete": ""}
    site.add("until [ -e go ]; do sleep 0.05; done\n")
    site.look()
    for after in count(1, 2 * step):
        job = site.add("exit 0\n", held=verb in ("release", "resume"))
        is_killed = site.run_killed(after, verb, str(job))
        done = site.run(verb, str(job))
        found = [each.state_letters for each in site.database.live_jobs(job)]
        assert ("".join(found), done.returncode in (0, os.EX_NOINPUT)) == (letters[verb], True)
        if not is_killed:
            break
    (site.path / "go").touch()


def test_a_killed_submission_adds_the_whole_job_or_nothing(site: Site, step: int) -> None:
    for after in count(1, 2 * step):
        name = f"gb.alpha.{after}.0.1"
        script = f'echo "$JOB_ID" >>{site.ran}\n'
        is_killed = site.run_killed(after, "submit", f"--name={name}", "--held", stdin=script)
        jobs = [job.id for job in site.database.live_jobs(name=name)]
        assert len(jobs) in ((0, 1) if is_killed else (1,)), (after, jobs)
        for job in jobs:
            site.run("release", str(job))
            assert (site.end(job).exit_status, site.times_run(job)) == (0, 1)
        if not is_killed:
            break


def test_a_job_without_keeper_is_reported_and_keeps_its_slot(site: Site) -> None:
    job = site.add(TICKING)
    later = site.add_noting()
    site.look()
    site.kill_keeper(job)
    site.look()

    listed = site.run("list", f"--job={job}").stdout
    assert ("state=r\n" in listed, "message=the keeper process died" in listed) == (True, True)
    assert (site.database.job_end(job), site.times_run(later)) == (None, 0)


def test_a_job_without_keeper_ends_without_exit_status_or_signal(site: Site) -> None:
    job = site.add("until [ -e go ]; do sleep 0.05; done; exit 0\n")
    later = site.add_noting()
    site.look()
    site.kill_keeper(job)
    (site.path / "go").touch()

    end = site.end(job)
    assert (end.exit_status, end.signal, end.reason) == (None, None, LOST)
    assert site.end(later).exit_status == 0


@pytest.mark.parametrize("is_suspended", [False, True], ids=["running", "suspended"])
def test_a_job_without_keeper_can_be_suspended_resumed_and_deleted(site: Site, is_suspended: bool) -> None:
    ticks = site.path / "ticks"
    job = site.add(TICKING)
    site.look()
    site.kill_keeper(job)
    until(ticks.exists, "the job to continue")
    site.run("suspend", str(job))
    until(lambda: stays(lambda: ticks.stat().st_size, for_s=0.3), "the job to stop")
    if not is_suspended:
        size = ticks.stat().st_size
        site.run("resume", str(job))
        until(lambda: ticks.stat().st_size > size, "the job to continue")
    pid = site.database.live_job(job).pid
    site.run("delete", str(job))

    assert site.end(job).reason == LOST
    until(lambda: not embedded_job_processes.unique_process_id(pid), "the first process to end")


def test_the_next_query_starts_waiting_jobs_after_all_keepers_died(site: Site) -> None:
    job = site.add("sleep 100\n")
    waiting = site.add_noting()
    site.look()
    pid = site.until_running(job)
    site.kill_keeper(job)
    os.killpg(pid, signal.SIGKILL)
    until(lambda: not embedded_job_processes.unique_process_id(pid), "the job's process to be gone")
    assert site.run("list").returncode == 0

    until(lambda: site.times_run(waiting), "the waiting job to run")


def test_simultaneous_keepers_run_each_job_once_within_the_slots(tmp_path: Path) -> None:
    site = Site(tmp_path, slots=2)
    log = site.path / "log"
    jobs = [site.add(f"echo + >>{log}; echo $JOB_ID >>{site.ran}; echo - >>{log}\n") for _ in "x" * 12]
    keepers = [subprocess.Popen([*PROGRAM, site.folder, "keep"]) for _ in range(6)]
    for each in keepers:
        each.wait(60)
    until(lambda: not site.database.live_jobs(), "all jobs to have ended")

    lines = log.read_text().split()
    at_once = [lines[:n].count("+") - lines[:n].count("-") for n in range(len(lines))]
    assert [site.times_run(job) for job in jobs] == [1] * len(jobs)
    assert max(at_once) <= 2


def test_repeated_kills_leave_each_job_run_once_or_reported_as_lost(site: Site) -> None:
    jobs = [site.add(f"sleep 0.02; echo $JOB_ID >>{site.ran}\n") for _ in range(30)]
    while site.database.live_jobs():
        site.run("list")
        for job in site.database.live_jobs():
            if job.pid and job.id % 3 == 0 and site.database.keepers.is_job_locked(job.id):
                with suppress(FileNotFoundError, ProcessLookupError):
                    if site.is_keeper(keeper := parent_of(job.pid)):
                        os.kill(keeper, signal.SIGKILL)

    ends = {job: site.database.job_end(job) for job in jobs}
    for job, told in ends.items():
        lost = told[1].reason == LOST
        assert site.times_run(job) in ((0, 1) if lost else (1,)), (job, told)


def test_a_keeper_ends_if_its_cluster_was_removed(tmp_path: Path) -> None:
    site = Site(tmp_path, slots=1)
    job = site.add("until [ -e go ]; do sleep 0.05; done\n")
    site.look()
    site.until_running(job)
    os.rename(site.folder, tmp_path / "removed")  # the keeper writes into the folder
    shutil.rmtree(tmp_path / "removed")
    (tmp_path / "go").touch()

    site.rest()
