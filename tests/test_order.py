"""The order of the lab's files: the longest first, and those that share something in one lab."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import order

CAMPAIGNS = "tests/lab/campaigns"


@dataclass
class Item:
    """A test as pytest has collected it."""

    nodeid: str
    marks: list[Any] = field(default_factory=lambda: [SimpleNamespace(name="lab")])

    def get_closest_marker(self, name: str) -> Any:
        """Return the mark of that name."""
        return next((mark for mark in self.marks if mark.name == name), None)

    def add_marker(self, mark: Any) -> None:
        """Have one mark more."""
        self.marks.append(mark)


@pytest.fixture
def arranged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Item]:
    """Return tests of files whose seconds are known, but for one."""
    known = {"tests/lab/test_short.py": 5, f"{CAMPAIGNS}/test_b.py": 50}
    known |= {"tests/lab/test_long.py": 80, f"{CAMPAIGNS}/test_a.py": 40}
    rows = "".join(f'"{file}" = {seconds}\n' for file, seconds in known.items())
    (tmp_path / "seconds.toml").write_text(rows)
    monkeypatch.setattr(order, "SECONDS", tmp_path / "seconds.toml")
    items = [Item(f"{file}::test_it") for file in (*known, "tests/lab/test_new.py")]
    order.arrange(cast("list[pytest.Item]", items))
    return items


def test_a_new_file_comes_first_and_then_what_takes_longest(arranged: list[Item]) -> None:
    """The files of a folder that share something count as one."""
    names = [item.nodeid.partition("::")[0].rpartition("/")[2] for item in arranged]

    assert names == ["test_new.py", "test_a.py", "test_b.py", "test_long.py", "test_short.py"]


def test_files_that_share_something_are_of_one_lab(arranged: list[Item]) -> None:
    groups = [item.get_closest_marker("xdist_group").args[0] for item in arranged]

    assert groups[1:4] == [CAMPAIGNS, CAMPAIGNS, "tests/lab/test_long.py"]


def test_a_tests_name_is_told_without_its_group() -> None:
    for group in (CAMPAIGNS, "tests/lab/test_long.py"):
        assert order.plain(f"test_it[a@b]@{group}") == "test_it[a@b]"
