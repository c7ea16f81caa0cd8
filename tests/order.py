"""The order of the lab's tests: a lab takes file after file, and the longest files come first.

A group is what one lab runs without another test between: a file, or the contract of one cluster.
How long each took when it was last noted stands in seconds.toml (`python -m tests.minutes --note`).
"""

import tomllib
from pathlib import Path

import pytest

SECONDS = Path(__file__).with_name("seconds.toml")
UNKNOWN_S = 1e6  # a new file comes first: it may be long


def group_of(item: pytest.Item) -> str:
    """Return the name of a lab test's group."""
    file = item.nodeid.partition("::")[0]
    callspec = getattr(item, "callspec", None)
    far = callspec.params.get("far") if callspec else None
    return f"{Path(file).parent}/{far}" if far else file


def arrange(items: list[pytest.Item]) -> None:
    """Put the lab's groups into their order and name them to pytest-xdist; others stay first."""
    known = tomllib.loads(SECONDS.read_text())
    of_lab = [item for item in items if item.get_closest_marker("lab")]
    for item in of_lab:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))
    of_lab.sort(key=lambda item: (-known.get(group_of(item), UNKNOWN_S), group_of(item)))
    items[:] = [item for item in items if not item.get_closest_marker("lab")] + of_lab
