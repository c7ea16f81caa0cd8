"""The package's modules and functions keep their limits of size, and each name stands once."""

import subprocess
from pathlib import Path

SIZES = Path(__file__).parents[1] / "tools/sizes"


def test_modules_functions_and_names_keep_their_limits() -> None:
    ran = subprocess.run([SIZES], capture_output=True, text=True, check=False)

    assert (ran.stderr, ran.returncode) == ("", 0)
    assert " modules  tests/lab\n" in ran.stdout
