"""Arrays are as small as a cell wants them, and none of them is refused."""

import json

import pytest

from gridbridge.model.campaigns.numbers import read_attempts
from tests.lab.away import global_setting
from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import HOST, ledger, submit, until_state
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

JDL = {"name": "limits", "type": "normal", "exec_file": "true", "walltime": "0:5", "nb_jobs": 7}


@pytest.mark.parametrize("name", ["max_aj_tasks", "max_aj_instances"])
def test_a_campaign_keeps_to_the_limits_of_a_cell(site: Grid, name: str) -> None:
    """A runner that starts asks for them at once."""
    runner.stop(site)
    try:
        with global_setting(site, "beta-master", name, "2"):
            runner.start(site)
            number = submit(site, {**JDL, "clusters": {"beta": {}}})
            found = until_state(site, number, "terminated")
    finally:
        runner.stop(site)
        runner.start(site)
    told = site.on(HOST, "gridevents", "-a", "--json", "-c", str(number), user="bob").out
    sizes = [len(read_attempts(row[3])) for row in ledger(site, number) if row[0] == "array"]

    assert (found["ended"], found["failed"]) == (7, 0)
    assert (max(sizes), sum(sizes)) == (2, 7)
    assert json.loads(told) == []
