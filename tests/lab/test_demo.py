"""make demo runs without a terminal and succeeds; it leaves the lab unchanged.

Each part runs alone here, the longer parts by `make test-long`; the campaign has fewer tasks.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.console import ROOT
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


def played(*words: str, limit_s: float = 280) -> str:
    argv = (sys.executable, str(ROOT / "lab" / "demo.py"), *words)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=limit_s, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def picture(shown: str, what: str) -> bytes:
    (path,) = re.findall(f"^{what}: (.*)$", shown, re.MULTILINE)
    return Path(path).read_bytes()[1:4]


@pytest.fixture(autouse=True)
def _as_it_was(grid: Grid) -> Iterator[None]:
    yield
    left = grid.sh("alpha-master", "ls /etc/gridbridge /var/lib/gridbridge-admin || :")
    assert not re.search(r"demo|\.elastic|\.rebalance", left)
    assert "alpha-n3" not in grid.cell("alpha", "qconf", "-sel").out
    assert "gb-be1" not in grid.cell("beta", "qconf", "-sql").out


def test_every_job_of_the_demo_ends_as_expected() -> None:
    shown = played("--part", "transfer")

    assert "12 jobs, 0 wrong" in shown
    assert "alice deletes" in shown
    assert "beta shows it suspended; alice resumes" in shown


@pytest.mark.long
def test_the_demos_campaign_survives_local_jobs_and_a_silent_cluster() -> None:
    shown = played("--part", "campaign", "--tasks", "60")

    assert "60 tasks, 0 wrong" in shown
    assert "gridevents knows: GET_JOBS" in shown
    assert "0 tasks made way" not in shown
    assert picture(shown, "when which of them ended where") == b"PNG"


@pytest.mark.long
def test_tasks_leave_full_beta_and_data_leaves_drained_gamma() -> None:
    shown = played("--part", "rebalance")

    assert "2 tasks and 1 dataset, 0 wrong" in shown
    assert picture(shown, "disk and load of each host before and after") == b"PNG"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_whole_demo_succeeds() -> None:
    shown = played(limit_s=580)

    assert "300 tasks, 0 wrong" in shown
    assert "30 tasks, 0 wrong" in shown
    assert picture(shown, "how many hosts there were when") == b"PNG"
