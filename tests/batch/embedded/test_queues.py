"""Tests of an embedded cluster's transfer queues."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.batch.embedded import embedded_job_start, job_submission_and_control
from gridbridge.batch.embedded.embedded_cluster_rows import EmbeddedJob, EmbeddedTransferQueue
from gridbridge.batch.embedded.embedded_job_store import EmbeddedRequestRefusal
from gridbridge.errors import ParseError
from gridbridge.model.transfer_route import EmbeddedClusterAccessSettings
from tests.batch.embedded.site import Site
from tests.builders.programs import write_program

AWAY = "transfer-beta"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a cluster with one own slot and two slots in a transfer queue; no job is started."""
    made = Site(tmp_path, slots=1)
    made.database.save_transfer_queue(EmbeddedTransferQueue(AWAY, 2, str(tmp_path), "beta", 3))
    yield made
    for job in made.database.live_jobs():  # `start` records this process as the first process of jobs
        made.database.remove_job(job)
    made.empty()


def add(site: Site, slots: int = 1, queue: str = "") -> int:
    return site.add("", slots=slots, queue=queue)


def start(site: Site, opened: tuple[str, ...] = (AWAY,)) -> tuple[int, str] | None:
    """Record the next startable job as running; return its id and queue."""
    job = site.database.next_startable_job(opened)
    if job is None:
        return None
    site.database.update_job(job.id, pid=os.getpid(), at=job.at)
    return job.id, job.at


@pytest.mark.parametrize(
    ("queue", "opened", "where"),
    [
        ("", (AWAY,), ["", AWAY, AWAY, None]),
        ("", (), ["", None]),
        ("embedded", (AWAY,), ["", None]),
        (AWAY, (AWAY,), [AWAY, AWAY]),
    ],
    ids=["any", "closed", "own", "away"],
)
def test_jobs_start_in_order_in_own_slots_then_in_open_transfer_queues(
    site: Site, queue: str, opened: tuple[str, ...], where: list[str | None]
) -> None:
    jobs = [add(site, queue=queue) for _ in where]
    started = [start(site, opened) for _ in where]

    assert started == [None if at is None else (job, at) for job, at in zip(jobs, where, strict=True)]


def test_a_pinned_job_starts_only_in_its_queue_until_it_is_unpinned(site: Site) -> None:
    job = add(site)
    site.run("hold", str(job))
    site.run("pin", str(job), f"--queue={AWAY}")
    site.database.update_job(job, held=0)
    pinned = site.database.next_startable_job((AWAY,))
    site.database.update_job(job, pinned="")
    free = site.database.next_startable_job((AWAY,))

    assert (pinned and pinned.at, free and free.at) == (AWAY, "")


def test_a_job_larger_than_its_home_cluster_cannot_be_kept_home(site: Site) -> None:
    wide = add(site, slots=2)
    done = site.run("stay", str(wide), "--reason=beta refused it")

    assert (done.returncode, "embedded has 1" in done.stderr) == (os.EX_DATAERR, True)


@pytest.mark.parametrize(
    ("slots", "queue", "words"),
    [
        (3, "", "3 slots requested, but the cluster has 2"),
        (2, "embedded", "2 slots requested, but queue embedded has 1"),
        (1, "fast", "queue fast does not exist; expected one of embedded, transfer-beta"),
    ],
    ids=["nowhere", "not in that queue", "no such queue"],
)
def test_a_request_that_no_queue_can_run_is_refused(site: Site, slots: int, queue: str, words: str) -> None:
    with pytest.raises(EmbeddedRequestRefusal, match=words):
        add(site, slots, queue)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ("pin|1|--queue=nosuch", 65, "queue nosuch does not exist; expected one of embedded, transfer-beta"),
        ("queue|a b|--slots=1|--remote=beta", 65, "queue 'a b': letters, digits, _ . + and -"),
        (f"queue|b|--slots={2**31}|--remote=beta", 65, f"{2**31} is invalid; expected 0 to {2**31 - 1}"),
        (f"queue|b|--slots=1|--remote=beta|--pending-limit={2**64}", 65, "is invalid; expected 0 to"),
        (f"create|--slots={2**64}", 65, f"{2**64} slots; expected 0 to {2**31 - 1}"),
        (f"submit|--slots={2**64}", 65, f"{2**64} slots requested, but the cluster has 2"),
        (f"hold|{2**64}", 66, f"job {2**64} does not exist"),
        ("hold|0", 66, "job 0 does not exist"),
    ],
    ids=["pin", "name", "queue", "limit", "create", "submit", "no such job", "no job"],
)
def test_an_invalid_command_is_refused_in_one_line_and_changes_no_job(
    site: Site, words: str, status: int, told: str
) -> None:
    job = add(site)
    done = site.run(*words.split("|"))

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (status, "", 1)
    assert told in done.stderr
    assert [(each.id, each.held) for each in site.database.live_jobs()] == [(job, 0)]


@pytest.mark.parametrize("words", ["list --job", "ended"])
def test_an_unknown_job_id_is_reported_without_error(site: Site, words: str) -> None:
    done = site.run(*f"{words} {2**64}".split())

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("values", "is_open"),
    [
        ({"gb_beta_up": "1", "gb_beta_pending": "2"}, True),
        ({"gb_beta_up": "1", "gb_beta_pending": "3"}, False),
        ({"gb_beta_up": "0"}, False),
        ({"gb_gamma_up": "1", "gb_gamma_pending": "0"}, False),
        ({}, False),
        (None, False),
    ],
    ids=["few wait there", "many wait there", "it does not answer", "of another", "stale", "no sensor"],
)
def test_load_sensor_values_open_and_close_a_transfer_queue(
    site: Site, values: dict[str, str] | None, is_open: bool
) -> None:
    if values is not None:
        report = "".join(f":{name}:{value}\\n" for name, value in values.items())
        write_program(site.path / "sensor", f"#!/bin/sh\nread -r _ && printf 'begin\\n{report}end\\n'\n")
    site.database.update_job(add(site), pid=os.getpid())  # the job uses the only own slot
    add(site)
    opened = embedded_job_start.find_open_embedded_transfer_queues(site.database)

    assert opened == (frozenset([AWAY]) if is_open else frozenset())


def test_a_job_request_of_an_embedded_cluster_is_empty(site: Site) -> None:
    folder = EmbeddedClusterAccessSettings(folder=site.folder, python=sys.executable, timeout_s=20)
    request = job_submission_and_control.query_job_request(folder, str(add(site, queue=AWAY)))

    assert (request.hard, request.queues, request.project, request.notify) == ((), "", "", False)
    with pytest.raises(ParseError, match="job 99 neither waits nor runs"):
        job_submission_and_control.query_job_request(folder, "99")


def test_a_requeued_job_is_shown_as_restarted() -> None:
    job = EmbeddedJob(1, "", "", "", "", "", "", 1, 0.0, 1, "", 0, "", None, 0, 0, restarted=1)

    assert (job.state_letters, job._replace(pid=2, held=0).state_letters) == ("hRq", "Rr")
