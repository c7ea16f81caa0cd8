"""Each rule on the rule pages and each entry of the attacks page names existing tests."""

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


PAGE = (ROOT / "docs/reference/attacks.md").read_text()
ENTRIES = re.findall(r"^(\S.*)\n: (?:.|\n)*?^: (`[\w/]+/test_(?:.|\n)*?)\.$", PAGE, re.MULTILINE)


def test_each_attack_has_a_line_of_tests() -> None:
    attacks = re.findall(r"^(?![#:\s]).+\n: ", PAGE, re.MULTILINE)

    assert len(ENTRIES) == len(attacks) > 100


@pytest.mark.parametrize("tests", [entry[1] for entry in ENTRIES], ids=[e[0] for e in ENTRIES])
def test_an_attack_is_tried_by_the_tests_that_its_entry_names(tests: str) -> None:
    for part in tests.split(";"):
        [module] = re.findall(r"`([\w/]+/test_\w+)`", part)
        names = re.findall(r"`(test_\w+)`", part)
        text = (ROOT / "tests" / f"{module}.py").read_text()

        assert [name for name in names if f"def {name}(" not in text] == []
