"""The order of the lab's tests: a lab takes file after file, and the longest files come first.

How long each took when it was last noted stands in seconds.toml (`python -m tests.minutes --note`).
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
    """Return the file of a test, as in seconds.toml."""
    return item.nodeid.partition("::")[0]


def group_of(item: pytest.Item) -> str:
    """Return what one lab tests as a whole: a folder whose files share something, or a file."""
    file = file_of(item)
    folder = file.rpartition("/")[0]
    return folder if folder in TOGETHER else file


def plain(name: str) -> str:
    """Return the id of a test without the group that pytest-xdist knows it by."""
    return re.sub(r"@tests/[a-z_/]+(\.py)?$", "", name)


def arrange(items: list[pytest.Item]) -> None:
    """Put the lab's files into their order and name them to pytest-xdist; others stay first."""
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
