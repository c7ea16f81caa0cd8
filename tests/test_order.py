"""The lab's test files run longest first in few labs, and a report tells how long each part took."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import order
from tests.minutes import Took, note, read, report

CAMPAIGNS = "tests/lab/campaigns"


@dataclass
class Item:
    nodeid: str
    marks: list[Any] = field(default_factory=lambda: [SimpleNamespace(name="lab")])

    def get_closest_marker(self, name: str) -> Any:
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark)


def test_a_new_file_comes_first_then_the_longest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a folder that share fixtures count as one file."""
    known = {"tests/lab/test_short.py": 5, f"{CAMPAIGNS}/test_b.py": 50}
    known |= {"tests/lab/test_long.py": 80, f"{CAMPAIGNS}/test_a.py": 40}
    rows = "".join(f'"{file}" = {seconds}\n' for file, seconds in known.items())
    (tmp_path / "seconds.toml").write_text(rows)
    monkeypatch.setattr(order, "SECONDS", tmp_path / "seconds.toml")
    items = [Item(f"{file}::test_it") for file in (*known, "tests/lab/test_new.py")]

    order.arrange(cast("list[pytest.Item]", items))

    names = [item.nodeid.partition("::")[0].rpartition("/")[2] for item in items]
    groups = [item.get_closest_marker("xdist_group").args[0] for item in items]
    assert names == ["test_new.py", "test_a.py", "test_b.py", "test_long.py", "test_short.py"]
    assert groups[1:4] == [CAMPAIGNS, CAMPAIGNS, "tests/lab/test_long.py"]


JUNIT = """<testsuites><testsuite>
<testcase classname="tests.lab.test_ssh" name="test_a[x@1]@tests/lab/test_ssh.py" time="60.0"/>
<testcase classname="tests.lab.test_ssh" name="test_b@tests/lab/test_ssh.py" time="30.0"/>
<testcase classname="tests.contract.test_jobs" name="test_c[oar]@tests/lab/campaigns" time="95"/>
<testcase classname="tests.lab.site.test_check.TestThis" name="test_d" time="1"/>
</testsuite></testsuites>"""


@pytest.fixture
def took(tmp_path: Path) -> tuple[Took, ...]:
    (tmp_path / "lab.xml").write_text(JUNIT)
    return read(tmp_path)


def test_a_test_has_its_file_and_its_name(took: tuple[Took, ...]) -> None:
    assert took[0] == Took("lab", "tests/lab/test_ssh.py", "test_a[x@1]", 60.0)
    assert took[3].file == "tests/lab/site/test_check.py"


def test_a_report_tells_the_slowest_the_folders_and_the_second_chances(took: tuple[Took, ...]) -> None:
    lines = report(took, 2.04, 30, "tests/lab/test_ssh.py::test_a: it was not there\n").split("\n")

    assert lines[1] == "    95.0  tests/contract/test_jobs.py::test_c[oar]"
    assert lines[5:] == [
        "minutes of the tests by folder, side by side or not",
        "     1.6  tests/contract",
        "     1.5  tests/lab",
        "second chances: 1",
        "          tests/lab/test_ssh.py::test_a: it was not there",
        "2.0 minutes, of a budget of 30",
    ]


def test_the_longest_file_is_noted_first(took: tuple[Took, ...]) -> None:
    assert note(took).splitlines()[1:] == [
        '"tests/contract/test_jobs.py" = 95',
        '"tests/lab/test_ssh.py" = 90',
        '"tests/lab/site/test_check.py" = 1',
    ]
