"""Admission rules are Python files that only root can write; no other text is executed."""

import os
from pathlib import Path

import pytest

from gridbridge.campaigns.submission.site_admission_rules import WHO_MENDS, load_site_admission_rules
from gridbridge.errors import ConfigError, FileWritableByOthers
from gridbridge.model.campaigns.admission import AdmissionRefusal, CampaignForAdmission
from gridbridge.model.campaigns.jdl import Jdl

RULES = '''"""Of this site."""
from dataclasses import replace

from gridbridge.model.campaigns.admission import AdmissionRefusal


def _helper():
    return 3


def few(candidate):
    return AdmissionRefusal(reason="too many") if candidate.tasks > _helper() else None


def named(candidate):
    return replace(candidate.jdl, name="site-" + candidate.user)
'''
ME = os.getuid()


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "admission.d"
    folder.mkdir(mode=0o755)
    return folder


def put(folder: Path, name: str, text: str, mode: int = 0o644) -> Path:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_site_without_the_folder_has_no_admission_rules(tmp_path: Path) -> None:
    assert load_site_admission_rules(f"{tmp_path}/none", ME) == ()


def test_the_functions_of_python_files_are_the_admission_rules(folder: Path) -> None:
    put(folder, "20-names.py", RULES)
    put(folder, "10-first.py", "def first(candidate):\n    return None\n")
    put(folder, "README", "no python")
    put(folder, ".30-hidden.py", "no python")

    found = load_site_admission_rules(str(folder), ME)

    assert [each.name for each in found] == ["10-first.py:first", "20-names.py:few", "20-names.py:named"]
    many = CampaignForAdmission(user="alice", groups=frozenset(), tasks=4, jdl=Jdl(name="n"))
    assert found[1].judge(many) == AdmissionRefusal(reason="too many")
    assert found[2].judge(many) == Jdl(name="site-alice")


@pytest.mark.parametrize(("mode", "what"), [(0o664, "10.py"), (0o777, "")])
def test_writable_admission_rules_are_refused_with_the_correcting_command(folder: Path, mode: int, what: str) -> None:
    put(folder, "10.py", "raise SystemExit")
    (folder / what).chmod(mode)

    with pytest.raises(FileWritableByOthers, match=f"chmod go-w {folder / what}"):
        load_site_admission_rules(str(folder), ME)


def test_a_writable_empty_folder_of_admission_rules_is_refused(folder: Path) -> None:
    folder.chmod(0o777)

    with pytest.raises(FileWritableByOthers):
        load_site_admission_rules(str(folder), ME)


@pytest.mark.skipif(ME != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["", "10.py"])
def test_admission_rules_owned_by_another_account_are_refused(folder: Path, what: str) -> None:
    put(folder, "10.py", RULES)
    os.chown(folder / what, 12345, 0)

    with pytest.raises(FileWritableByOthers, match=f"chown root {folder / what}"):
        load_site_admission_rules(str(folder))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("\ndef x(:\n", ":2: SyntaxError: invalid syntax"),
        ("import nothing_x\n", ":1: ModuleNotFoundError: No module named 'nothing_x'"),
        ("def f():\n    return 1 / 0\n\n\nf()\n", ":2: ZeroDivisionError: division by zero"),
        ("raise ValueError('a\\nb')", ":1: ValueError: a b"),
        ("raise ValueError", ":1: ValueError"),
        ("\0", ": ValueError: source code string cannot contain null bytes"),
        ("import json\njson.loads('{')", ":2: JSONDecodeError: Expecting property name"),
        ("import sys\nsys.exit('no')\n", ":2: SystemExit: no"),
    ],
    ids=["syntax", "import", "in-a-function", "lines", "no-words", "null-byte", "in-a-library", "exit"],
)
def test_an_invalid_admission_rule_is_reported_with_its_line(folder: Path, text: str, told: str) -> None:
    path = put(folder, "10.py", text)

    with pytest.raises(ConfigError) as raised:
        load_site_admission_rules(str(folder), ME)
    assert str(raised.value).startswith(f"{path}{told}")
    assert str(raised.value).endswith(f"; {WHO_MENDS}")
    assert len(str(raised.value).splitlines()) == 1
