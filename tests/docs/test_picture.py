"""`make picture` copies the output of a run and draws it."""

import subprocess
import sys
from pathlib import Path

from tests.docs.console import ROOT


def test_a_picture_shows_the_command_and_what_it_printed(tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    argv = (sys.executable, ROOT / "lab/picture.py", picture, "make demo")
    done = subprocess.run(argv, input="job [1] ended\n", capture_output=True, text=True, check=True)

    assert "job [1] ended\n" in done.stdout
    assert "make&#160;demo" in picture.read_text()
    assert "job&#160;[1]&#160;ended" in picture.read_text()
