"""Campaigns run on real Grid Engine and real OAR together, once a task, and end."""

# ruff: noqa: SIM300 - `expected == actual` (style.md 33)

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, LOG, start, submit, until_state
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

AT = {"beta": (HOST, "alice"), "gamma": ("gamma-master", "al_gamma")}
# Each attempt leaves a line. A task asks to run again, one fails, and one is killed by itself.
RUN = """sh -c 'echo "$1 $CIGRI_CLUSTER" >>ran
case $1 in
again) [ -e asked ] || { true >asked; exit 66; } ;;
fails) exit 3 ;;
killed) kill -9 $$ ;;
esac' sh"""
PARAMETERS = ["again", "fails", "killed", *(f"plain-{n}" for n in range(7)), "odd $(touch evil)"]
TERMINATED, CANCELLED = "terminated", "cancelled"


def jdl(exec_file: str, **other: Any) -> dict[str, Any]:
    """Return the JDL of a campaign at both clusters, in a folder of the tests'."""
    known = {"name": "tests", "type": "normal", "exec_file": exec_file, "walltime": "0:5"}
    return {
        **known,
        "exec_directory": "~/campaigns",
        "clusters": {"beta": {}, "gamma": {}},
        **other,
    }


@pytest.fixture(scope="module")
def site(grid: Grid) -> Iterator[Grid]:
    """Return the lab with a runner, and a folder for the tests' outputs."""
    start(grid)
    for host, user in AT.values():
        grid.sh(host, "rm -rf ~/campaigns && mkdir ~/campaigns", user=user)
    yield grid
    for host, user in AT.values():
        grid.sh(host, "rm -rf ~/campaigns", user=user)


@pytest.fixture(scope="module")
def brought(site: Grid) -> int:
    """Submit a campaign of which each test looks at a part; wait until it has ended."""
    number = submit(site, jdl(RUN, params=PARAMETERS))
    until_state(site, number, TERMINATED)
    return number


def ran(grid: Grid) -> Counter[str]:
    """Return how often each task ran, wherever that was."""
    lines = (grid.sh(host, "cat ~/campaigns/ran", user=user) for host, user in AT.values())
    return Counter(line.split()[0] for line in "".join(lines).splitlines())


def test_every_task_runs_once_and_is_counted(site: Grid, brought: int) -> None:
    """But for the one that asked to run again."""
    found = until_state(site, brought, TERMINATED)

    assert Counter({each.split()[0]: 1 + (each == "again") for each in PARAMETERS}) == ran(site)
    assert (len(PARAMETERS), len(PARAMETERS), 2) == (
        found["tasks"],
        found["ended"],
        found["failed"],
    )


def test_both_batch_systems_take_part(site: Grid, brought: int) -> None:
    """Each has free slots, so each gets an array."""
    ledger = site.sh(HOST, f"cat /var/lib/gridbridge-ledger/c.{brought}")

    assert {"beta", "gamma"} == {row.split()[2] for row in ledger.splitlines() if row[:2] == "ar"}


def test_nothing_in_a_parameter_is_run(site: Grid, brought: int) -> None:
    """It is a word of the task's."""
    del brought
    for host, user in AT.values():
        assert "" == site.sh(host, "find ~/campaigns -name evil", user=user)


def test_nobody_else_reads_a_campaigns_parameters(site: Grid, brought: int) -> None:
    """Its file is its owner's, and the folder can't be listed."""
    folder = "/var/spool/gridbridge/campaigns"

    assert site.on(HOST, "cat", f"{folder}/c.{brought}", user="bob").status == 1
    assert site.on(HOST, "ls", folder, user="bob").status == 2
    assert site.on(HOST, "cat", f"{folder}/c.{brought}", user="alice").status == 0


def test_a_test_campaign_runs_one_task_at_each_cluster(site: Grid) -> None:
    """However many it has."""
    number = submit(site, jdl("true", nb_jobs=9), "-t", "test")

    found = until_state(site, number, TERMINATED)

    assert (2, 2, 0) == (found["tasks"], found["ended"], found["failed"])
    rows = site.sh(HOST, f"grep ^array /var/lib/gridbridge-ledger/c.{number}").splitlines()
    _, _, clusters, tasks = zip(*(row.split() for row in rows), strict=True)
    assert ({"beta", "gamma"}, {"0:1", "1:1"}) == ({*clusters}, {*tasks})


@pytest.fixture(scope="module")
def sleeping(site: Grid) -> int:
    """Submit a campaign whose tasks don't end, and wait until some run."""
    number = submit(site, jdl("sleep 600", nb_jobs=40, max_jobs=2))
    site.until(lambda: "array" in _ledger(site, number), "tasks to be sent", CAMPAIGN_S)
    site.until(lambda: living(site, number), "tasks to be at beta")
    return number


def test_a_changed_file_is_not_run(site: Grid, sleeping: int) -> None:
    """Root's ledger knows what was brought: nothing more of it is submitted."""
    number = submit(site, jdl("sleep 5", nb_jobs=4, max_jobs=1, clusters={"beta": {}}))
    site.until(lambda: "job" in _ledger(site, number), "a task to be sent", CAMPAIGN_S)
    path = f"/var/spool/gridbridge/campaigns/c.{number}"
    site.sh(HOST, f"echo 4 >>{path}", user="alice")

    found = until_state(site, number, TERMINATED)

    assert found["failed"] >= 3
    assert "not the file that it was" in site.sh(HOST, f"grep -F {number}. {LOG}")
    assert 1 == _ledger(site, number).count("job")
    assert living(site, sleeping)


def test_nobody_else_cancels_a_campaign(site: Grid, sleeping: int) -> None:
    """Who asks is whose file the request is."""
    done = site.on(HOST, "griddel", str(sleeping), user="bob", timeout_s=200)

    assert (1, f"griddel: campaign {sleeping}: it is another's") == (done.status, done.err.strip())
    assert living(site, sleeping)


def test_what_is_cancelled_ends_at_every_cluster(site: Grid, sleeping: int) -> None:
    """And nothing more of it is sent."""
    done = site.on(HOST, "griddel", str(sleeping), user="alice", timeout_s=200)

    assert (0, f"Campaign {sleeping} cancelled") == (done.status, done.out.strip())
    until_state(site, sleeping, CANCELLED)
    site.until(lambda: not living(site, sleeping), "beta to have none of it", CAMPAIGN_S)
    site.until(lambda: not _at_gamma(site, sleeping), "gamma to have none of it", CAMPAIGN_S)


def living(grid: Grid, number: int) -> list[str]:
    """Return the lines of a campaign's tasks in beta's list."""
    listed = grid.cell("beta", "qstat", "-r", "-u", "alice").out
    return [line for line in listed.splitlines() if f"campaign.{number}" in line]


def _at_gamma(grid: Grid, number: int) -> list[str]:
    told = grid.sh("gamma-master", "oarstat -J", user="gb_gamma")
    return [line for line in told.splitlines() if f"gc.alpha.{number}." in line]


def _ledger(grid: Grid, number: int) -> str:
    return grid.on(HOST, "cat", f"/var/lib/gridbridge-ledger/c.{number}").out
