"""Tests that kill a program name functions of the package, and each named function exists."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACE = re.compile(r"[\"'](\w+/[\w/]+\.py):([A-Za-z_]\w*)")


def kill_places() -> Iterator[tuple[str, str]]:
    for folder in ("tests", "bench", "lab"):
        for path in (ROOT / folder).rglob("*.py"):
            yield from PLACE.findall(path.read_text())


@pytest.mark.parametrize(("module", "function"), sorted({*kill_places()}))
def test_a_kill_names_a_function_of_the_package(module: str, function: str) -> None:
    nodes = ast.walk(ast.parse((ROOT / "gridbridge" / module).read_text()))

    assert function in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
