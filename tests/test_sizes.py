"""The house keeps its size: no folder, no function grows beyond what a reader takes in."""

import subprocess
from pathlib import Path

SIZES = Path(__file__).parents[1] / "tools/sizes"


def test_folders_and_functions_are_within_their_limits() -> None:
    ran = subprocess.run([SIZES], capture_output=True, text=True, check=False)

    assert (ran.stderr, ran.returncode) == ("", 0)
    assert " modules  tests/lab\n" in ran.stdout
