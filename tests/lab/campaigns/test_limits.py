"""The runner splits arrays to the size limit of a cell, so that no array is refused."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from tests.lab.away import global_setting
from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, ledger, published, shown, submit
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

JDL = {"name": "limits", "type": "normal", "exec_file": "true", "walltime": "0:5", "nb_jobs": 7}
CYCLE = "runuser -u gridbridge -- /opt/gridbridge/oar-hooks/runner"


def cycle(grid: Grid) -> bool:
    grid.sh(HOST, CYCLE, timeout_s=120)
    return True


def brought(grid: Grid) -> int:
    """Submit a campaign, and wait for the next cycle; return the campaign's number."""
    with ThreadPoolExecutor(1) as threads:
        number = threads.submit(submit, grid, {**JDL, "clusters": {"beta": {}}})
        grid.until(lambda: cycle(grid) and number.done(), "a cycle to take it", CAMPAIGN_S)
        return number.result()


@pytest.mark.parametrize("name", [pytest.param("max_aj_tasks", marks=pytest.mark.long), "max_aj_instances"])
def test_a_campaign_keeps_to_the_limits_of_a_cell(site: Grid, name: str) -> None:
    """Each cycle is here a new runner, as with cron. A new runner asks for the limits at once."""
    runner.stop(site)
    try:
        with global_setting(site, "beta-master", name, "2"):
            number = brought(site)
            site.until(
                lambda: cycle(site) and published(site, number)["state"] == "terminated",
                f"campaign {number} to end",
                CAMPAIGN_S,
            )
            found = shown(site, number)
    finally:
        runner.start(site)
    told = site.on(HOST, "gridevents", "-a", "--json", "-c", str(number), user="bob").out
    sizes = [len(parse_attempt_ranges(row[3])) for row in ledger(site, number) if row[0] == "array"]

    assert (found["ended"], found["failed"]) == (7, 0)
    assert (max(sizes), sum(sizes)) == (2, 7)
    assert json.loads(told) == []
