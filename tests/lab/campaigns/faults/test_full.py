"""Disks fill up while a campaign has tasks at clusters: an event reports it, and each task succeeds once."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, shown, submit, until_state
from tests.lab.configured import pollers
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

FOLDER = "~/full"
STATE, LEDGER = "/var/lib/gridbridge", "/var/lib/gridbridge-ledger"
SPOOL = "/var/spool/gridbridge/campaigns"
BETA_HOSTS = ("beta-n1", "beta-n2")
TASKS = 12
TERMINATED = "terminated"
GATE = "until [ -e go ]; do sleep 0.2; done"


@pytest.fixture(autouse=True)
def _folder(site: Grid) -> Iterator[None]:
    site.sh(HOST, f"rm -rf {FOLDER} && mkdir {FOLDER}", user="alice")
    yield
    site.sh(HOST, f"rm -rf {FOLDER}", user="alice")


def bring(grid: Grid, **other: Any) -> int:
    """Submit a campaign whose tasks each write their number after the gate opens."""
    run = f"sh -c '{GATE}; echo $CIGRI_JOB_ID >>ran'"
    known = {"name": "full", "exec_file": run, "walltime": "0:5", "nb_jobs": TASKS}
    return submit(grid, {**known, "exec_directory": FOLDER, "clusters": {"beta": {}}, **other})


def ran(grid: Grid, number: int) -> Counter[str]:
    told = grid.sh(HOST, f"cat {FOLDER}/ran 2>/dev/null; :", user="alice").split()
    return Counter(task for task in told if task.startswith(f"{number}."))


def each_once(number: int) -> Counter[str]:
    return Counter({f"{number}.{task}": 1 for task in range(TASKS)})


@contextmanager
def small(grid: Grid, folder: str, size: str) -> Iterator[None]:
    _stop(grid)
    kept = grid.sh(HOST, f"mktemp -d {folder}.XXXXXX").strip()
    mount = f"mode=$(stat -c %a {folder}),uid=$(stat -c %u {folder}),gid=$(stat -c %g {folder})"
    grid.sh(HOST, f"cp -a {folder}/. {kept} && mount -t tmpfs -o size={size},{mount} none {folder}")
    grid.sh(HOST, f"cp -a {kept}/. {folder}")
    _start(grid)
    try:
        yield
    finally:
        _stop(grid)
        grid.sh(HOST, f"rm -f {folder}/filler && rm -rf {kept} && cp -a {folder} {kept}")
        grid.sh(HOST, f"umount {folder} && cp -a {kept}/. {folder} && rm -rf {kept}")
        _start(grid)


def _stop(grid: Grid) -> None:
    runner.stop(grid)
    grid.on(HOST, "kill", "-9", *pollers(grid))


def _start(grid: Grid) -> None:
    grid.require_ready()
    runner.start(grid)


@contextmanager
def filled(grid: Grid, folder: str) -> Iterator[None]:
    grid.on(HOST, "sh", "-c", f"cat /dev/zero >{folder}/filler")
    try:
        yield
    finally:
        grid.sh(HOST, f"rm -f {folder}/filler")


def open_gate(grid: Grid) -> None:
    grid.sh(HOST, f"touch {FOLDER}/go", user="alice")


def events(grid: Grid, number: int) -> list[dict[str, Any]]:
    told = json.loads(grid.on(HOST, "gridevents", "-c", str(number), "--json", user="alice").out)
    return sorted(told, key=lambda one: one["number"])


@pytest.mark.long
def test_a_full_disk_of_the_state_file_delays_tasks_and_loses_none(site: Grid) -> None:
    with small(site, STATE, "8m"):
        site.sh(HOST, f"echo begun >>{runner.LOG}")  # it has a page, so that more of it can be told
        number = bring(site)
        site.until(lambda: runner.jobs_of(site, number), "tasks to be sent", CAMPAIGN_S)
        with filled(site, STATE):
            open_gate(site)
            site.until(lambda: ran(site, number), "a task to run", CAMPAIGN_S)
            site.until(lambda: not runner.at_beta(site, number), "beta to be empty", CAMPAIGN_S)
            seen = shown(site, number)["state"]
        ended = until_state(site, number, TERMINATED)
        told = site.sh(HOST, f"cat {runner.LOG}")

    assert "in_treatment" == seen
    assert (TASKS, 0) == (ended["ended"], ended["failed"])
    assert each_once(number) == ran(site, number)
    full = f"{STATE}/(state.db: database or disk is full|published/.*: No space left on device)"
    assert re.search(full, told)  # which of its files is the first that has no room


@pytest.mark.long
def test_no_task_is_sent_or_lost_while_the_ledgers_disk_is_full(site: Grid) -> None:
    site.sh(HOST, f"mkdir -p -m 700 {LEDGER}")
    with small(site, LEDGER, "256k"):
        with filled(site, LEDGER):
            number = bring(site)
            open_gate(site)
            site.until(lambda: events(site, number), "an event", CAMPAIGN_S)
            told, sent = events(site, number)[0], ran(site, number)
        until_state(site, number, TERMINATED)
        found = shown(site, number)

    assert not sent
    assert ("SUBMIT_JOB", "beta") == (told["code"], told["cluster"])
    assert f"No space left on device: {LEDGER}/c.{number}" in site.sh(HOST, f"cat {runner.LOG}")
    assert (TASKS, 0) == (found["ended"], found["failed"])
    assert each_once(number) == ran(site, number)


@pytest.mark.long
def test_gridsub_refuses_a_campaign_while_the_spool_is_full(site: Grid) -> None:
    argv = ("gridsub", "--array", "1-2000", "--clusters", "beta", "--", "true")
    with small(site, SPOOL, "256k"):
        with filled(site, SPOOL):
            done = site.on(HOST, *argv, user="alice")
        after = site.on(HOST, *argv, user="alice")

    assert 75 == done.status
    assert done.err.startswith(f"gridsub: {SPOOL}/")
    assert done.err.endswith(": No space left on device\n")
    assert 0 == after.status, after
    number = after.out.rpartition("CAMPAIGN_ID=")[2].strip()
    assert 0 == site.on(HOST, "griddel", number, user="alice", timeout_s=200).status


@pytest.fixture
def no_room_at_beta(site: Grid) -> Iterator[None]:
    folder = f"/home/alice/{FOLDER.removeprefix('~/')}"
    options = "size=64k,nr_inodes=1,mode=755,uid=$(id -u alice)"
    for host in BETA_HOSTS:
        site.sh(host, f"mount -t tmpfs -o {options} none {folder}")
    yield
    for host in BETA_HOSTS:
        site.sh(host, f"mountpoint -q {folder} && umount -l {folder}; :")


@pytest.mark.long
def test_a_full_disk_of_the_owner_opens_an_event_until_space_is_free(site: Grid, no_room_at_beta: None) -> None:
    number = bring(site)
    open_gate(site)
    site.until(lambda: events(site, number), "an event", CAMPAIGN_S)
    told = events(site, number)[0]
    for host in BETA_HOSTS:
        site.sh(host, "umount /home/alice/full")
    until_state(site, number, TERMINATED)
    found = shown(site, number)

    assert ("SETUP_ERROR", "beta") == (told["code"], told["cluster"])
    assert (TASKS, 0) == (found["ended"], found["failed"])
    assert each_once(number) == ran(site, number)
