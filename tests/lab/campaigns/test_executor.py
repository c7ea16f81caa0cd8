"""Calls of an Executor run at clusters that share the caller's home, and at clusters that are reached by ssh."""

import pytest

from tests.lab.campaigns import runner
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

PYTHON = "/opt/gridbridge/venv/bin/python3"
PROGRAM = """\
import math, operator, os, sys
import gridbridge

keys = {"python": "/usr/bin/python3", "type": "normal", "max_jobs": 3}
with gridbridge.Executor(sys.argv[1:], **keys) as executor:
    failing = executor.submit(operator.truediv, 1, 0)
    lost = executor.submit(os._exit, 3)
    print(*executor.map(math.factorial, range(9)))
    print(repr(failing.exception()), failing.exception().__cause__ is not None)
    print(type(lost.exception()).__name__, str(lost.exception()).rpartition(": ")[2])
print(*executor.campaigns, len(os.listdir(os.path.expanduser("~/.gridbridge/calls"))))
"""


@pytest.mark.parametrize("clusters", [("beta",), ("beta", "gamma", "delta")], ids=["shared home", "also by ssh"])
def test_calls_return_results_and_exceptions_from_every_cluster(site: Grid, clusters: tuple[str, ...]) -> None:
    done = site.on(runner.HOST, PYTHON, "-", *clusters, user="alice", stdin=PROGRAM, timeout_s=300)
    *lines, last = done.out.splitlines()
    number, left = map(int, last.split())
    site.sh(runner.HOST, f"rm -rf ~/campaign.{number} ~/.gridbridge/calls", user="alice")

    assert [
        "1 1 2 6 24 120 720 5040 40320",
        "ZeroDivisionError('division by zero') True",
        "CallFailed program_error, exit status 3",
    ] == lines, done
    assert ({*clusters}, 0) == (runner.clusters_of(site, number), left)
