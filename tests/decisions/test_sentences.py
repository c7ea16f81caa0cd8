"""Sentences are made for readers: nothing that decides or acts looks into one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "gridbridge"
LAYERS = ("decisions", "services", "apply", "methods")
DECIDING = sorted(path for layer in LAYERS for path in (PACKAGE / layer).rglob("*.py"))
SENTENCES = {ast.Attribute: ("reason", "why", "text"), ast.Name: ("reason", "why")}
CASES = ("lower", "upper", "casefold", "strip")
TOLD = "_told"  # what was told last: the same is not told again
LOOKING = ("search", "match", "fullmatch", "findall", "finditer", "get")  # patterns, tables
READING = ("startswith", "endswith", "partition", "rpartition", "split", "find", "index", "count")


def looks(tree: ast.AST) -> Iterator[int]:
    """Yield the numbers of lines that compare a sentence, search in it or split it."""
    for node in ast.walk(tree):
        if any(_is_sentence(one) for read in _read(node) for one in _within(read)):
            yield node.lineno  # type: ignore[attr-defined]  # what reads is an expression


def _read(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return the parts that an expression reads; building a sentence is no reading."""
    if isinstance(node, ast.Compare):
        parts = (node.left, *node.comparators)
        return () if any(getattr(one, "attr", "") == TOLD for one in parts) else parts
    if isinstance(node, ast.Match):
        return (node.subject,)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in LOOKING:
        return tuple(node.args)
    if isinstance(node, ast.Subscript) and _is_sentence(node.slice):
        return (node.slice,)
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return ()
    is_made = isinstance(node.value, ast.Name) and getattr(node, "attr", "") not in READING
    return () if is_made else (node.value,)


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield an expression, the operands of its `or`, and the text whose case it changes."""
    yield node
    if isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _within(value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _within(node.func.value) if node.func.attr in CASES else ()


def _is_sentence(node: ast.AST) -> bool:
    """Return whether a node is an attribute or a name that holds a sentence."""
    word = getattr(node, "attr", getattr(node, "id", ""))
    return word in SENTENCES.get(type(node), ())


@pytest.mark.parametrize("path", DECIDING, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_that_decides_reads_a_sentence_back(path: Path) -> None:
    assert list(looks(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        '"tried in vain" in one.reason',
        'verdict.reason.partition("; ")[2]',
        "one.reason[:5]",
        "record.reason != why",
        '"gone" in why',
        'reason.partition("; ")[2]',
        '"gone" in one.reason.lower()',
        '(one.reason or "").startswith("gone")',
        're.search("gone", one.reason)',
        "GONE.search(one.reason)",
        'SENTENCES.get(one.reason, "")',
        "any(word in told.reason for word in WORDS)",
        "SENTENCES[one.reason]",
    ],
)
def test_a_sentence_that_is_read_back_is_seen(line: str) -> None:
    assert set(looks(ast.parse(line))) == {1}


@pytest.mark.parametrize(
    "line",
    [
        'note(one.reason or f"{one.reason}, {why}")',
        'note(why.replace("\\n", " ")[:9])',
        "why != self._told and note(why)",
    ],
)
def test_a_sentence_may_be_made_and_told_once(line: str) -> None:
    assert list(looks(ast.parse(line))) == []
