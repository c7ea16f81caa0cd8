"""The commands that `make demo` runs, and the arguments that it refuses."""

import os
import subprocess

import pytest

from tests.docs.console import ROOT


def make(*words: str) -> subprocess.CompletedProcess[str]:
    """Return the commands that make would run; no command is run."""
    argv = ("make", "-n", "--no-print-directory", *words)
    alone = {name: word for name, word in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(argv, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)


def test_the_demo_runs_after_a_target_of_its_own_has_built_the_lab() -> None:
    """Make runs each line with $(MAKE) in it even under `make -n`, instead of printing the line."""
    shown = make("demo", "PART=campaign")

    assert shown.returncode == 0
    assert "lab/demo.py" in shown.stdout.splitlines()[-1]
    assert "--part campaign" in shown.stdout


@pytest.mark.parametrize("part", ["foo", "transfer elastic"])
def test_a_part_that_the_demo_does_not_have_is_refused_before_anything_is_built(part: str) -> None:
    shown = make("demo", f"PART={part}")

    assert shown.returncode == 2
    assert shown.stdout == ""
    assert f"PART='{part}': not a part of the demo; expected one of transfer" in shown.stderr


def test_a_check_of_one_folder_runs_its_unit_tests_alone() -> None:
    shown = make("units", "OF=campaigns")

    assert shown.returncode == 0
    assert shown.stdout.rstrip().endswith("tests/campaigns tests/decisions/campaigns tests/model/campaigns")


def test_a_folder_without_tests_is_refused() -> None:
    shown = make("check", "OF=campaign")

    assert shown.returncode == 2
    assert "OF='campaign': no folder of tests; expected one of batch campaigns" in shown.stderr
