"""Tests of an embedded cluster's arrays and of preemption."""

import os
import sqlite3
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.batch.embedded import embedded_job_control
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob, EmbeddedJobEnd
from gridbridge.batch.embedded.embedded_job_control import EmbeddedJobWalltimeAndPreemptionEnforcer
from gridbridge.batch.embedded.embedded_job_store import EmbeddedRequestRefusal
from tests.batch.embedded.site import Site
from tests.contract.waiting import until

KILLED = EmbeddedJobEnd(signal=9)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a cluster with four slots, in which no job starts by itself."""
    made = Site(tmp_path, slots=4)
    yield made
    for job in made.database.live_jobs():  # some jobs are recorded as running by an ended process
        made.database.remove_job(job)
    made.empty()


def add(site: Site, tasks: int = 0, **values: object) -> int:
    return site.add("exit 0\n", name="gc.a.1.1", account="gc.a.1.1", tasks=tasks, **values)


def run_all(site: Site) -> list[EmbeddedJob]:
    """Record jobs as running until no slot is free; the recorded process has already ended."""
    started = []
    while job := site.database.next_startable_job():
        site.database.update_job(job.id, pid=2**22 + 1, birth="over", started_at=float(job.id))
        started.append(job)
    return started


def told(site: Site) -> list[int]:
    return [job.place for job in site.database.live_jobs() if job.way_at]


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    monkeypatch.setattr(embedded_job_control, "signal_job_process_group", lambda pid, born, number: sent.append(number))
    return sent


def test_preemptible_tasks_start_last_and_do_not_count_as_waiting(site: Site) -> None:
    array = add(site, 5, yields=True)
    ordinary = [add(site), add(site)]

    assert site.database.waiting_job_count == 2
    assert [job.id for job in run_all(site)] == [*ordinary, array, array + 1]
    assert site.database.preemptible_slots == 2


@pytest.mark.parametrize(("slots", "expected"), [(1, [4]), (3, [2, 3, 4])], ids=["the newest", "as many as it needs"])
def test_only_as_many_tasks_as_needed_are_preempted_and_each_once(
    site: Site, signals: list[int], slots: int, expected: list[int]
) -> None:
    add(site, 4, yields=True)
    run_all(site)
    add(site, slots=slots)
    for _ in range(2):
        embedded_job_control.preempt_embedded_tasks(site.database)

    assert (told(site), len(signals)) == (expected, 2 * len(expected))


def test_no_task_is_preempted_if_too_few_slots_would_become_free(site: Site, signals: list[int]) -> None:
    add(site, slots=2)
    add(site, 4, yields=True)
    run_all(site)
    embedded_job_control.preempt_embedded_tasks(site.database)  # two tasks of the array wait
    add(site, slots=3)
    embedded_job_control.preempt_embedded_tasks(site.database)

    assert (told(site), signals) == ([], [])


@pytest.mark.parametrize(
    ("deleting", "end", "why"), [(0, KILLED, ""), (1, KILLED, "deletion"), (1, EmbeddedJobEnd(exit_status=0), "")]
)
def test_only_a_deleted_task_that_a_signal_ended_counts_as_killed(
    site: Site, deleting: int, end: EmbeddedJobEnd, why: str
) -> None:
    array = add(site, 1)
    job = site.database.live_job(array)._replace(deleting=deleting)

    assert (
        EmbeddedJobWalltimeAndPreemptionEnforcer(site.database, job, 0).add_kill_reason_to_job_end(job, end).killed_for
        == why
    )


def test_a_keeper_survives_a_locked_database(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job = site.database.live_job(add(site, 1, yields=True))
    watched = EmbeddedJobWalltimeAndPreemptionEnforcer(site.database, job, 0)
    with monkeypatch.context() as patch:
        patch.setattr(site.database, "live_jobs", Mock(side_effect=sqlite3.OperationalError("database is locked")))
        watched.kill_job_if_due()


@pytest.mark.parametrize("words", ["--tasks=-1", "--tasks=100001", "--walltime=-5"])
def test_an_invalid_array_request_is_refused_in_one_line(site: Site, words: str) -> None:
    done = site.run("submit", words, stdin="exit 0\n")

    assert (done.returncode, done.stderr.count("\n")) == (os.EX_DATAERR, 1)
    with pytest.raises(EmbeddedRequestRefusal):
        add(site, -1)


def test_an_array_keeps_its_script_until_its_last_task_is_removed(site: Site) -> None:
    array = add(site, 2)
    first, second = site.database.live_array_tasks(array)
    site.database.remove_job(first)
    script = site.database.job_script(second)
    site.database.remove_job(second)

    assert script == b"exit 0\n"
    assert site.database._query_single_number("SELECT count(*) FROM script") == 0


@pytest.mark.killing
def test_a_killed_array_submission_adds_all_tasks_or_none(site: Site, step: int) -> None:
    for after in count(1, 2 * step):
        name = f"gc.alpha.{after}.1"
        words = ("submit", f"--name={name}", "--held", "--tasks=3")
        is_killed = site.run_killed(after, *words, stdin="exit 0\n")
        jobs = site.database.live_jobs(name=name)
        assert len(jobs) in ((0, 3) if is_killed else (3,)), (after, jobs)
        if not is_killed:
            break


@pytest.mark.killing
@pytest.mark.parametrize("verb", ["release-array", "delete-array"])
def test_a_killed_array_command_can_be_repeated(site: Site, verb: str, step: int) -> None:
    for after in count(1, 2 * step):
        asked = ("submit", "--name=held", "--held", "--tasks=3")
        array = int(site.run(*asked, stdin="exit 0\n").stdout)
        is_killed = site.run_killed(after, verb, str(array))
        done = site.run(verb, str(array))
        assert done.returncode in (0, os.EX_NOINPUT)
        until(lambda number=array: not site.database.live_array_tasks(number), "the tasks of the array to end")
        ends = len(site.database.array_task_ends(array))
        assert ends == (3 if verb == "release-array" else 0), (after, ends)
        if not is_killed:
            break
