"""The order of the lab's tests: a lab takes file after file, and the longest files come first.

How long each took when it was last noted stands in seconds.toml (`python -m tests.minutes --note`).
"""

import re
import tomllib
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("seconds.toml")
UNKNOWN_S = 1e6  # a new file comes first: it may be long


def file_of(item: pytest.Item) -> str:
    """Return the file of a test, as in seconds.toml."""
    return item.nodeid.partition("::")[0]


def plain(name: str) -> str:
    """Return the id of a test without the file that pytest-xdist knows it by."""
    return re.sub(r"@tests/[a-z_/]+\.py$", "", name)


def arrange(items: list[pytest.Item]) -> None:
    """Put the lab's files into their order and name them to pytest-xdist; others stay first."""
    known = tomllib.loads(SECONDS.read_text())
    of_lab = [item for item in items if item.get_closest_marker("lab")]
    for item in of_lab:
        item.add_marker(pytest.mark.xdist_group(file_of(item)))
    of_lab.sort(key=lambda item: (-known.get(file_of(item), UNKNOWN_S), file_of(item)))
    items[:] = [item for item in items if not item.get_closest_marker("lab")] + of_lab
