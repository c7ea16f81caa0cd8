"""Tasks of the types nightly and semi-best-effort on real daemons."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, jobs_of, submit
from tests.lab.configured import configured
from tests.lab.gamma import FAR
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def jdl(type_: str, cluster: str, tasks: int, command: str) -> dict[str, Any]:
    known = {"name": type_, "type": type_, "walltime": "0:5", "exec_file": command}
    return known | {"nb_jobs": tasks, "clusters": {cluster: {}}}


def queues_at_gamma(grid: Grid, number: int) -> Counter[str]:
    jobs = json.loads(grid.sh(FAR, "oarstat -f -J", user="gb_gamma") or "{}").values()
    return Counter(job["queue"] for job in jobs if job["name"].startswith(f"gc.alpha.{number}."))


@pytest.mark.long
def test_half_of_oars_slots_run_ordinary_tasks_of_type_semi_best_effort(site: Grid) -> None:
    """Gamma has four slots."""
    runner.stop(site)
    with configured(site, "$ a [campaigns.gamma]\\nsemi_share = 0.5"):
        runner.start(site)
        number = submit(site, jdl("semi-best-effort", "gamma", 4, "sleep 60 #"))
        site.until(lambda: queues_at_gamma(site, number).total() == 4, "four tasks at gamma", CAMPAIGN_S)
        queues = queues_at_gamma(site, number)
        site.on(HOST, "griddel", str(number), timeout_s=200)
        runner.until_state(site, number, "cancelled")
        runner.stop(site)
    runner.start(site)

    assert queues == {"default": 2, "besteffort": 2}


@pytest.mark.long
def test_nightly_tasks_wait_for_the_night(site: Grid) -> None:
    """The night begins in two hours, until the site changes its nights."""
    begin = datetime.now(UTC) + timedelta(hours=2)
    nights = f"{begin:%H:%M}-{begin + timedelta(hours=1):%H:%M}"
    runner.stop(site)
    with configured(site, f'$ a [campaigns.delta]\\nnights = "{nights}"\\ntime_zone = "UTC"'):
        runner.start(site)
        number = submit(site, jdl("nightly", "delta", 2, "true #"))
        why = ("gridbridge", "why", str(number))
        expected = f"nightly tasks start from {begin:%Y-%m-%d %H:%M}"
        site.until(lambda: expected in site.on(HOST, *why, user="bob").out, "why to tell", CAMPAIGN_S)
        shown = site.on(HOST, "gridstat", str(number), user="bob").out
        runner.stop(site)
    by_day = jobs_of(site, number)
    with configured(site, '$ a [campaigns.delta]\\nnights = "00:00-24:00"'):
        runner.start(site)
        runner.until_state(site, number, "terminated")
        runner.stop(site)
    runner.start(site)

    assert expected in shown
    assert by_day == []
