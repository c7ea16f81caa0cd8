"""`gridbridge check` reports admission rules that would refuse every campaign."""

import os
from pathlib import Path

import pytest

from gridbridge.campaigns.submission.site_admission_rules import WHO_MENDS
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.site import admission_rule_check

RULE = "def every_campaign(candidate):\n    return None\n"


def judged(folder: Path) -> list[tuple[FindingSeverity, str]]:
    found = admission_rule_check.check_admission_rules_load("", str(folder), os.getuid())
    return [(each.state, each.found) for each in found]


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "admission.d"
    folder.mkdir(mode=0o755)
    return folder


def put(folder: Path, text: str) -> Path:
    path = folder / "a.py"
    path.write_text(text)
    path.chmod(0o644)
    return path


def test_a_site_without_admission_rules_gets_no_finding(tmp_path: Path) -> None:
    assert judged(tmp_path / "none") == []


def test_loadable_admission_rules_are_ok(folder: Path) -> None:
    put(folder, RULE)

    assert judged(folder) == [(FindingSeverity.OK, "loaded")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def x(:\n", ":1: SyntaxError: invalid syntax"),
        ("print('a')\n1 / 0\n", ":2: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)\n", ":2: SystemExit: 0"),
    ],
    ids=["syntax", "import", "exit"],
)
def test_an_admission_rule_that_fails_to_load_is_broken(folder: Path, text: str, told: str) -> None:
    path = put(folder, text)

    assert judged(folder) == [(FindingSeverity.BROKEN, f"{path}{told}; {WHO_MENDS}")]


def test_a_rule_that_others_can_write_is_broken_with_its_chmod(folder: Path) -> None:
    path = put(folder, RULE)
    path.chmod(0o666)

    ((state, found),) = judged(folder)
    assert (state, f"chmod go-w {path}" in found) == (FindingSeverity.BROKEN, True)


def test_a_rule_that_hangs_is_broken_after_the_time_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_rule_check, "LOAD_S", 1.0)
    put(folder, "import time\ntime.sleep(60)\n")

    assert judged(folder) == [(FindingSeverity.BROKEN, "not loaded after 1 s")]


def test_a_rule_that_exits_its_process_is_broken(folder: Path) -> None:
    put(folder, "import os\nos._exit(3)\n")

    assert judged(folder) == [(FindingSeverity.BROKEN, "exit status 3")]
