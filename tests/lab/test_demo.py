"""make demo plays through without a terminal and is content; the lab stays as it was."""

import subprocess
import sys

import pytest

from tests.docs.console import ROOT
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab


@pytest.mark.timeout(200)
def test_the_demo_sees_every_job_end_as_it_should(grid: Grid) -> None:
    del grid  # ready
    argv = (sys.executable, str(ROOT / "lab" / "demo.py"))
    done = subprocess.run(argv, capture_output=True, text=True, timeout=190, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 jobs, 0 wrong" in done.stdout
    assert "alice deletes" in done.stdout
    assert "beta shows it suspended; alice resumes" in done.stdout
