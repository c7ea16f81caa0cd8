"""Only the adapter that prints state letters reads them; all other code uses facts."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "gridbridge"
ADAPTER = PACKAGE / "batch"
OTHERS = sorted(path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(ADAPTER))
STATES = ("local_state", "remote_state", "state", "states")
LETTERS = "letters"  # of queues and jobs
METHODS = ("startswith", "endswith", "partition", "split", "find", "index", "count", "strip")
SETS = ("set", "frozenset", "issuperset", "issubset", "intersection", "isdisjoint")
READERS = ("gridbridge.batch.qstat_state_letters",)


def looks(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that inspect the letters of a state, or import a function that does."""
    for node in ast.walk(tree):
        if any(map(_is_text, _read(node))) or _loaded(node).intersection(READERS):
            yield getattr(node, "lineno", 1)


def _read(node: ast.AST) -> tuple[ast.AST, ...]:
    """Return the expression that is split, searched or compared with a word, if any."""
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[whole]):
            return (whole,)
        case ast.Compare():
            sides = (node.left, *node.comparators)
            return sides if any(map(_is_word, sides)) else ()
        case ast.Subscript() | ast.Match():
            return (node.value if isinstance(node, ast.Subscript) else node.subject,)
        case ast.Attribute(attr=name) if name in METHODS:
            return (node.value,)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in SETS:
            return tuple(node.args)
        case ast.comprehension() | ast.For() if getattr(node.iter, "id", "") != LETTERS:
            return (node.iter,)
    return ()


def _is_text(node: ast.AST) -> bool:
    """Say whether an expression is a state's text, or a call that returns one."""
    if isinstance(node, ast.Call):
        return _is_text(node.func)
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "site":
        return False  # where a site keeps its state file
    if isinstance(node, ast.Attribute) and node.attr == "text":
        return _name(node.value) in (*STATES, "there")
    return _name(node) in (*STATES, LETTERS)


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _is_word(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != ""


def _loaded(node: ast.AST) -> frozenset[str]:
    if isinstance(node, ast.Import):
        return frozenset(one.name for one in node.names)
    if isinstance(node, ast.ImportFrom):
        return frozenset((str(node.module), *(f"{node.module}.{one.name}" for one in node.names)))
    return frozenset()


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_but_an_adapter_looks_into_state_letters(path: Path) -> None:
    assert list(looks(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "line",
    [
        '"q" in transfer.remote_state',
        '"d" not in states',
        'any(mark in letters for mark in "sST")',
        "[one for one in queue.letters]",
        'one.local_state == "hqw"',
        '"u" in queue.state',
        '"E" in row.state.text',
        "WAITING.issuperset(letters)",
        '{"h", "s"} <= set(states)',
        'keeper.states(home, job).startswith("d")',
        "one.remote_state[0]",
        "from gridbridge.batch.qstat_state_letters import parse_job_state_letters",
        "from gridbridge.batch import qstat_state_letters as letters",
        "import gridbridge.batch.qstat_state_letters",
    ],
)
def test_a_look_into_state_letters_is_seen(line: str) -> None:
    assert set(looks(ast.parse(line))) == {1}


@pytest.mark.parametrize(
    "line",
    [
        'one.remote_state or "-"',
        "row.state != transfer.remote_state",
        "Fact.HELD in row.state.facts",
        "each.state == State.OK",
        'f"it is {state.text} there"',
        "transfer.local_state.is_listed",
        'site.state.partition("://")',
    ],
)
def test_facts_may_be_read_and_texts_shown(line: str) -> None:
    assert list(looks(ast.parse(line))) == []
