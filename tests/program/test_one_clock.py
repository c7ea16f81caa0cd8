"""Decisions, services and the state read only the clock that is passed to them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gridbridge"
LAYERS = ("campaigns", "decisions", "elastic", "model", "program", "rebalance", "site", "state", "transfer")
BEGIN_HERE = {"cli", "starter"}  # folders of programs that read the system clock, and pass a time on
GIVEN = sorted(path for layer in LAYERS for path in (PACKAGE / layer).rglob("*.py") if not BEGIN_HERE & {*path.parts})
TOLD = {"now", "utcnow", "today"}  # by datetime and date
READ = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "clock_gettime", "sleep"}
MOVED = "move"  # a noted moment, by hand: shell/clock does that for all


def readings(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that read the system clock or shift recorded times."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_read(node):
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (node.lineno for one in node.names if one.name in READ)
        elif isinstance(node, ast.FunctionDef) and node.name == MOVED:
            yield node.lineno


def _is_read(node: ast.Attribute) -> bool:
    """Say whether an attribute is a clock of the modules time and datetime."""
    of = getattr(node.value, "attr", getattr(node.value, "id", ""))
    return (of == "time" and node.attr in READ) or (of in ("datetime", "date") and node.attr in TOLD)


@pytest.mark.parametrize("path", GIVEN, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_clock_is_passed_in(path: Path) -> None:
    assert list(readings(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        "at = datetime.now(UTC)",
        "at = datetime.datetime.now(UTC)",
        "day = date.today()",
        "began = time.time()",
        "def begin(clock=time.monotonic): ...",
        "from time import monotonic",
        "def move(self, step): ...",
    ],
)
def test_reading_the_system_clock_is_detected(line: str) -> None:
    assert list(readings(ast.parse(line))) == [1]


@pytest.mark.parametrize("line", ["now = self.clock.now()", "from time import gmtime", "time.gmtime"])
def test_reading_a_passed_clock_is_allowed(line: str) -> None:
    assert list(readings(ast.parse(line))) == []
