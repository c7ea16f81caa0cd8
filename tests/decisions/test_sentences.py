"""Sentences are made for readers: nothing that decides or acts looks into one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gridbridge"
DECIDING = sorted(
    path for layer in ("decisions", "services", "apply") for path in (PACKAGE / layer).rglob("*.py")
)
SENTENCES = ("reason", "why", "text")  # attributes that hold one


def looks(tree: ast.AST) -> Iterator[int]:
    """Give the lines that compare a sentence, look for words in it, or take it apart."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts: tuple[ast.AST, ...] = (node.left, *node.comparators)
        elif isinstance(node, ast.Attribute):
            parts = (node.value,)  # a method or value of a sentence
        elif isinstance(node, ast.Subscript):
            parts = (node.value,)
        elif isinstance(node, ast.Match):
            parts = (node.subject,)
        else:
            continue
        if any(isinstance(one, ast.Attribute) and one.attr in SENTENCES for one in parts):
            yield node.lineno


@pytest.mark.parametrize("path", DECIDING, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_that_decides_reads_a_sentence_back(path: Path) -> None:
    assert list(looks(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        '"tried in vain" in one.reason',
        'one.reason == "deleted"',
        "before.reason != one.reason",
        'one.reason.startswith("ssh: ")',
        'verdict.reason.partition("; ")[2]',
        "one.reason[:5]",
        'event.text.endswith("gone")',
    ],
)
def test_a_sentence_that_is_read_back_is_seen(line: str) -> None:
    assert set(looks(ast.parse(line))) == {1}


def test_a_sentence_may_be_told() -> None:
    assert list(looks(ast.parse('note(one.reason or f"{one.reason}, {why}")'))) == []
