"""The report on a test run: the duration of each part, and the order of the lab's files next time."""

from pathlib import Path

import pytest

from tests.minutes import Took, note, read, report

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.lab.test_ssh" name="test_a[x-1]@tests/lab/test_ssh.py" time="60.0"/>
<testcase classname="tests.lab.test_ssh" name="test_b@tests/lab/test_ssh.py" time="30.0"/>
<testcase classname="tests.contract.test_jobs" name="test_c[oar]@tests/contract/a.py" time="95"/>
<testcase classname="tests.lab.site.test_check.TestThis" name="test_d" time="1"/>
</testsuite></testsuites>"""


@pytest.fixture
def took(tmp_path: Path) -> tuple[Took, ...]:
    (tmp_path / "lab.xml").write_text(JUNIT)
    return read(tmp_path)


def test_a_test_has_its_file_and_its_name(took: tuple[Took, ...]) -> None:
    assert took[0] == Took("lab", "tests/lab/test_ssh.py", "test_a[x-1]", 60.0)
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
