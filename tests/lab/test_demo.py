"""make demo plays through without a terminal and is content; the lab stays as it was.

Its campaign has fewer tasks here.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.console import ROOT
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def shown(grid: Grid) -> str:
    """Play all parts, and return what was shown."""
    del grid  # ready
    argv = (sys.executable, str(ROOT / "lab" / "demo.py"), "--tasks", "90")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(500)
def test_the_demo_sees_every_job_end_as_it_should(shown: str) -> None:
    assert "12 jobs, 0 wrong" in shown
    assert "alice deletes" in shown
    assert "beta shows it suspended; alice resumes" in shown


def test_its_campaign_goes_on_beside_local_jobs_and_without_a_cluster(shown: str) -> None:
    """And all that was changed for it is as it was."""
    assert "90 tasks, 0 wrong" in shown
    assert "gridevents knows: GET_JOBS" in shown
    assert "0 tasks made way" not in shown
    picture = re.findall("^when which of them ended where: (.*)$", shown, re.MULTILINE)
    assert Path(picture[0]).read_bytes()[1:4] == b"PNG"


def test_alpha_grows_to_five_hosts_and_shrinks_again(shown: str) -> None:
    assert "30 tasks, 0 wrong" in shown
    picture = re.findall("^how many hosts there were when: (.*)$", shown, re.MULTILINE)
    assert Path(picture[0]).read_bytes()[1:4] == b"PNG"


def test_the_lab_stays_as_it_was(grid: Grid, shown: str) -> None:
    del shown

    left = grid.sh("alpha-master", "ls /etc/gridbridge /var/lib/gridbridge-admin")
    assert "demo" not in left
    assert ".elastic" not in left
    assert "alpha-n3" not in grid.cell("alpha", "qconf", "-sel").out
    assert "gb-be1" not in grid.cell("beta", "qconf", "-sql").out
