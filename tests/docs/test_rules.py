"""Each rule on the rule pages names an existing test."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.console import PAGES, ROOT

NAMED = re.compile(r"`([\w/]+)::(test_\w+)`")
RULES = tuple(path for path in PAGES if path.name.endswith("-rules.md"))


@cache
def functions_of(module: str) -> frozenset[str]:
    path = ROOT / "tests" / f"{module}.py"
    tree = ast.parse(path.read_text() if path.exists() else "")
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    missing = [
        f"{module}::{name}" for module, name in NAMED.findall(page.read_text()) if name not in functions_of(module)
    ]

    assert missing == []


@pytest.mark.parametrize("page", RULES, ids=lambda page: page.stem)
def test_every_rule_names_its_test(page: Path) -> None:
    """Every list item on these pages is a rule."""
    items = re.findall(r"^\* (?:.+\n)+?(?=\* |\n|\Z)", page.read_text(), re.MULTILINE)

    assert items
    assert [item for item in items if not NAMED.search(item)] == []
