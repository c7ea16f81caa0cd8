"""The order of the lab's tests: each lab takes one file after another, the longest files first.

seconds.toml has the last noted durations (`python -m tests.minutes --note`).
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("seconds.toml")
UNKNOWN_S = 1e6  # a new file comes first: it may be long
# Folders whose files share what they prepare: each of one lab.
TOGETHER = ("tests/lab/campaigns", "tests/lab/campaigns/faults")


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def group_of(item: pytest.Item) -> str:
    """Return the unit that one lab tests: a file, or a folder whose files share fixtures."""
    file = file_of(item)
    folder = file.rpartition("/")[0]
    return folder if folder in TOGETHER else file


def plain(name: str) -> str:
    """Return the id of a test without its pytest-xdist group."""
    return re.sub(r"@tests/[a-z_/]+(\.py)?$", "", name)


def arrange(items: list[pytest.Item]) -> None:
    """Order the lab's files, and give pytest-xdist the names of their groups; other tests stay first."""
    known = tomllib.loads(SECONDS.read_text())
    of_lab = [item for item in items if item.get_closest_marker("lab")]
    files = {file_of(item): group_of(item) for item in of_lab}
    took = Counter[str]()
    for file, group in files.items():
        took[group] += known.get(file, UNKNOWN_S)
    for item in of_lab:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    of_lab.sort(key=lambda item: (-took[group_of(item)], group_of(item), file_of(item)))
    items[:] = [item for item in items if not item.get_closest_marker("lab")] + of_lab
