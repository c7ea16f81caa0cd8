"""Real clusters tell what tasks used, and a walltime that is too short is an event after the first tasks."""

import json
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

FILL = 'x=$(head -c 40000000 /dev/zero | tr "\\0" x); head -c 3000000 /dev/zero >~/used.$1; sync ~/used.$1'
BOTH = {"beta": {"max_jobs": 3}, "gamma": {"max_jobs": 3}}


def jdl(name: str, command: str, walltime: str) -> dict[str, Any]:
    known = {"name": name, "type": "normal", "nb_jobs": 6, "clusters": BOTH}
    return {**known, "exec_file": f"sh -c '{command}' sh", "walltime": walltime}


SHORT = jdl("short", "sleep 600", "0:0:5")


def usage_by_cluster(grid: Grid, number: int) -> dict[str, dict[str, int]]:
    return {usage["cluster"]: usage for usage in runner.published(grid, number)["usage"]}


def test_usage_of_tasks_is_measured_and_a_short_walltime_is_an_event(site: Grid) -> None:
    """Grid Engine's accounting has memory and written bytes; OAR's first process measures them."""
    short = runner.submit(site, SHORT)
    filling = runner.submit(site, jdl("filling", FILL, "0:5"))
    site.until(
        lambda: {name for name, usage in usage_by_cluster(site, filling).items() if usage["measured"]} == BOTH.keys(),
        "the usage at beta and gamma",
        CAMPAIGN_S,
    )
    site.until(lambda: "WALLTIME_SHORT" in runner.events_by_code(site, short), "a short walltime", CAMPAIGN_S)
    event = runner.events_by_code(site, short)["WALLTIME_SHORT"]
    checked = site.on(HOST, "gridsub", "--check", "-j", json.dumps(SHORT), user="alice", timeout_s=200)
    site.on(HOST, "griddel", str(short), timeout_s=200)

    assert event["tasks"] >= 3
    assert "attempts ran longer than 0:00:05" in event["why"]
    assert f"warning: campaign {short} at {event['cluster']}: a task ran 0:00:" in checked.out, checked
    for usage in usage_by_cluster(site, filling).values():
        assert 40_000 < usage["max_rss_kb"] < 400_000
        assert 2_900 * usage["measured"] < usage["written_kb"] < 30_000 * usage["measured"]
