"""No folder, module or function of the package exceeds its size limit."""

import subprocess
from pathlib import Path

SIZES = Path(__file__).parents[1] / "tools/sizes"


def test_folders_and_functions_are_within_their_limits() -> None:
    ran = subprocess.run([SIZES], capture_output=True, text=True, check=False)

    assert (ran.stderr, ran.returncode) == ("", 0)
    assert " modules  tests/lab\n" in ran.stdout
