"""The lab's test files run longest first, and files that share fixtures run in one lab."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import order

CAMPAIGNS = "tests/lab/campaigns"


@dataclass
class Item:
    nodeid: str
    marks: list[Any] = field(default_factory=lambda: [SimpleNamespace(name="lab")])

    def get_closest_marker(self, name: str) -> Any:
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark: Any) -> None:
        self.marks.append(mark)


@pytest.fixture
def arranged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """Return the tests of files with known durations, except one new file."""
    known = {"tests/lab/test_short.py": 5, f"{CAMPAIGNS}/test_b.py": 50}
    known |= {"tests/lab/test_long.py": 80, f"{CAMPAIGNS}/test_a.py": 40}
    rows = "".join(f'"{file}" = {seconds}\n' for file, seconds in known.items())
    (tmp_path / "seconds.toml").write_text(rows)
    monkeypatch.setattr(order, "SECONDS", tmp_path / "seconds.toml")
    items = [Item(f"{file}::test_it") for file in (*known, "tests/lab/test_new.py")]
    order.arrange(cast("list[pytest.Item]", items))
    return items


def test_a_new_file_comes_first_then_the_longest_files(arranged: list[Item]) -> None:
    """Files of a folder that share fixtures count as one file."""
    names = [item.nodeid.partition("::")[0].rpartition("/")[2] for item in arranged]

    assert names == ["test_new.py", "test_a.py", "test_b.py", "test_long.py", "test_short.py"]


def test_files_that_share_something_are_of_one_lab(arranged: list[Item]) -> None:
    groups = [item.get_closest_marker("xdist_group").args[0] for item in arranged]

    assert groups[1:4] == [CAMPAIGNS, CAMPAIGNS, "tests/lab/test_long.py"]


def test_a_tests_name_is_told_without_its_group() -> None:
    for group in (CAMPAIGNS, "tests/lab/test_long.py"):
        assert order.plain(f"test_it[a@b]@{group}") == "test_it[a@b]"
