"""What fails is tried elsewhere, told, and closes what it has to; what is killed runs once."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns.runner import (
    CAMPAIGN_S,
    FIND,
    HOST,
    shown,
    start,
    submit,
    until_state,
)
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

AT = {"beta": (HOST, "alice"), "gamma": ("gamma-master", "al_gamma")}
TERMINATED = "terminated"
KILLS = 4


def jdl(exec_file: str, clusters: dict[str, Any], **other: Any) -> dict[str, Any]:
    """Return the JDL of a campaign in a folder of the tests'."""
    known = {"name": "failures", "type": "normal", "exec_file": exec_file, "walltime": "0:5"}
    return {**known, "exec_directory": "~/failures", "clusters": clusters, **other}


@pytest.fixture(scope="module")
def site(grid: Grid) -> Iterator[Grid]:
    """Return the lab with a runner, and a folder for the tests' outputs."""
    start(grid)
    for host, user in AT.values():
        grid.sh(host, "rm -rf ~/failures && mkdir ~/failures", user=user)
    yield grid
    start(grid)
    for host, user in AT.values():
        grid.sh(host, "rm -rf ~/failures", user=user)


@pytest.fixture(scope="module")
def brought(site: Grid) -> dict[str, int]:
    """Submit what the tests look at: it runs at the same time."""
    refused = {"beta": {}, "gamma": {"queue": "nosuch"}}
    return {
        "refused": submit(site, jdl("sleep 1", refused, nb_jobs=12)),
        "typo": submit(
            site, jdl("sh -c 'echo what is that >&2; exit 3'", {"beta": {}}, nb_jobs=60)
        ),
        "first": submit(site, jdl("sh -c 'test $1 = 0 || sleep 600' sh", {"gamma": {}}, nb_jobs=2)),
    }


def events(grid: Grid, number: int, user: str = "bob") -> dict[str, dict[str, Any]]:
    """Return a campaign's events as somebody sees them, by their codes."""
    told = grid.on(HOST, "gridevents", "-a", "--json", "-c", str(number), user=user).out
    return {one["code"]: one for one in json.loads(told)}


def test_tasks_that_a_cluster_refuses_run_at_another(site: Grid, brought: dict[str, int]) -> None:
    """Everybody sees that, and gamma gets nothing more of it."""
    number = brought["refused"]
    found = until_state(site, number, TERMINATED)

    assert (12, 0) == (found["ended"], found["failed"])
    assert "gamma" == events(site, number)["RUNNER_SUBMIT_ERROR"]["cluster"]


def test_a_program_that_always_fails_closes_its_clusters(
    site: Grid, brought: dict[str, int]
) -> None:
    """After some tasks, not after all: the campaign waits, and says so."""
    number = brought["typo"]
    site.until(lambda: "NO_CLUSTER" in events(site, number), "beta to be closed", CAMPAIGN_S)

    found = shown(site, number)
    assert "in_treatment" == found["state"]
    assert 5 <= found["failed"] < 60
    assert f"Re {found['failed']}/60" in site.on(HOST, "gridstat", str(number), user="bob").out
    assert {"EXIT_ERROR", "BLACKLIST", "NO_CLUSTER"} == {*events(site, number)}
    assert 3 == events(site, number)["EXIT_ERROR"]["exit_status"]


def test_its_owner_alone_reads_what_a_failed_task_said(site: Grid, brought: dict[str, int]) -> None:
    """And closes its events, so that more of it is sent."""
    number = brought["typo"]
    site.until(lambda: "NO_CLUSTER" in events(site, number), "beta to be closed", CAMPAIGN_S)
    event = str(events(site, number)["EXIT_ERROR"]["number"])

    assert "what is that" in site.on(HOST, "gridevents", "-e", event, user="alice").out
    assert "what is that" not in site.on(HOST, "gridevents", "-e", event, user="bob").out
    denied = site.on(HOST, "gridevents", "-f", "-c", str(number), user="bob", timeout_s=200)
    assert (1, True) == (denied.status, "it is another's" in denied.err)
    before = shown(site, number)["failed"]
    done = site.on(HOST, "gridevents", "-r", "-c", str(number), user="alice", timeout_s=200)
    assert 0 == done.status, done
    site.until(lambda: before > shown(site, number)["failed"], "failed tasks to wait again")
    site.on(HOST, "griddel", str(number), user="alice", timeout_s=200)


def test_an_array_of_oar_is_deleted_after_its_first_task_has_ended(
    site: Grid, brought: dict[str, int]
) -> None:
    """The array bears that task's number."""
    number = brought["first"]
    site.until(lambda: 1 == shown(site, number)["ended"], "the first task to end", CAMPAIGN_S)
    assert 0 == site.on(HOST, "griddel", str(number), user="alice", timeout_s=200).status

    site.until(lambda: not _at_gamma(site, number), "gamma to have none of it", CAMPAIGN_S)


def test_each_task_runs_once_though_the_runner_is_killed(site: Grid) -> None:
    """While it submits, releases and looks; nothing stays at a cluster."""
    run = "sh -c 'echo $CIGRI_JOB_ID >>ran; sleep 1'"
    number = submit(site, jdl(run, {"beta": {}, "gamma": {}}, nb_jobs=40, max_jobs=8))
    for kill in range(KILLS):
        seen = shown(site, number)["ended"]
        site.sh(HOST, f"{FIND} | xargs -r kill -9")
        if kill % 2:
            site.sh(HOST, "pgrep -of '[g]ridbridge-as-user .*-array' | xargs -r kill -9")
        start(site)
        site.until(
            lambda: shown(site, number)["ended"] > seen,  # noqa: B023 - it is asked at once
            "more tasks to end",
            CAMPAIGN_S,
        )
    found = until_state(site, number, TERMINATED)

    lines = (site.sh(host, "cat ~/failures/ran", user=user) for host, user in AT.values())
    ran = Counter("".join(lines).split())
    assert Counter({f"{number}.{task}": 1 for task in range(40)}) == ran
    assert (40, 0) == (found["ended"], found["failed"])
    assert not _at_gamma(site, number)
    assert f"gc.alpha.{number}." not in site.cell("beta", "qstat", "-r", "-u", "alice").out


def test_everybody_sees_the_clusters(site: Grid, brought: dict[str, int]) -> None:
    """Those that campaigns may use, with their slots."""
    del brought
    told = site.on(HOST, "gridclusters", "--json", user="bob").out
    slots = {one["name"]: one["slots"] for one in json.loads(told)}

    assert min(slots["beta"], slots["gamma"]) > 0


def _at_gamma(grid: Grid, number: int) -> list[str]:
    told = grid.sh("gamma-master", "oarstat -J", user="gb_gamma")
    return [line for line in told.splitlines() if f"gc.alpha.{number}." in line]
