"""After a kill at any writing system call, every program's next run leads to the right end.

The right end is one remote job, the right verdict and no leftover. The cells are fakes, since there
are hundreds of kills. drive.py describes the preparation and check of each scenario.
"""

import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from tests.injection import campaigns
from tests.injection.drive import FULL, SCENARIOS

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="mounts"),
    pytest.mark.skipif(not shutil.which("strace"), reason="needs strace"),
]


LARGE = {name: 25 for name in SCENARIOS if name.startswith("poller-")} | {"state": 15}
SMALL = [name for name in SCENARIOS if name not in LARGE]  # the others have hundreds of kills
FEW = ("submit", "finish", "suspend", "terminate")  # of each kind of hot program
WHOLE = (pytest.mark.long, pytest.mark.timeout(2700))


@pytest.mark.parametrize(
    "scenario", [name if name in FEW else pytest.param(name, marks=pytest.mark.long) for name in SMALL]
)
def test_the_run_after_a_full_disk_leads_to_the_right_end(scenario: str) -> None:
    """Each writing call fails once. No step, note or end of a job is lost."""
    done = drive("drive", scenario, 1, FULL)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("scenario", "each"),
    [
        *((name, 1) for name in SMALL),
        *LARGE.items(),
        *(pytest.param(name, 1, marks=WHOLE) for name in LARGE),
    ],
)
def test_the_run_after_a_kill_leads_to_the_right_end(scenario: str, each: int) -> None:
    done = drive("drive", scenario, each)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("sample", marks=pytest.mark.timeout(1200)),
        *(pytest.param(name, marks=WHOLE) for name in campaigns.SCENARIOS),
    ],
)
def test_each_campaign_task_runs_once_whichever_process_is_killed(scenario: str) -> None:
    """The kills come around each client, and at the lines of the runner, nikita and root's helper.

    A day's kills come at every Nth line, so that N days try each line.
    """
    each, first = (0, date.today().toordinal()) if scenario in campaigns.KILLED else (1, 0)
    done = drive("campaigns", scenario, each, str(first))

    assert done.returncode == 0, f"EACH {each}, FIRST {first}: {done.stdout}{done.stderr}"


def drive(module: str, scenario: str, each: int, *how: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"tests.injection.{module}", scenario, str(each), *how],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=2600,
        check=False,
    )
