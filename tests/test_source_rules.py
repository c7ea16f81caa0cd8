"""Rules about the source: sentences and state letters are for readers only, and the clock is passed in."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "gridbridge"
METHODS = ("startswith", "endswith", "partition", "rpartition", "split", "find", "index", "count", "strip")
SEARCHES = ("search", "match", "fullmatch", "findall", "finditer", "get")  # of patterns and tables
SETS = ("set", "frozenset", "issuperset", "issubset", "intersection", "isdisjoint")
SENTENCES = ("reason", "why")
LAST_SENTENCE = "_told"  # a sentence equal to the last one is not printed again
STATES = ("local_state", "remote_state", "state", "states")
LETTERS = "letters"  # of queues and jobs
READER = "gridbridge.batch.qstat_state_letters"
DATES = ("now", "utcnow", "today")  # by datetime and date
CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "clock_gettime", "sleep")
SHIFT = "move"  # shifts a recorded time; shell/clock does it for all programs


def inspected(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions that a node splits, searches or looks up, and the parts of these expressions."""
    match node:
        case ast.Subscript():
            yield from _parts(node.value)
        case ast.Match():
            yield from _parts(node.subject)
        case ast.Attribute(attr=name) if name in METHODS:
            yield from _parts(node.value)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in SETS:
            yield from node.args
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[whole]):
            yield from _parts(whole)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Yield an expression, the operands of its `or`, and the method and the object of its call."""
    yield node
    if isinstance(node, ast.BoolOp):
        yield from node.values
    elif isinstance(node, ast.Call):
        yield node.func
        yield getattr(node.func, "value", node.func)


def _name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def reads_sentence(node: ast.AST) -> bool:
    """Return whether a node compares a sentence, searches in a sentence or looks a sentence up."""
    match node:
        case ast.Compare():
            sides = (node.left, *node.comparators)
            parts = () if LAST_SENTENCE in map(_name, sides) else (*sides, *inspected(node))
        case ast.Subscript():
            parts = (node.slice, *(() if isinstance(node.value, ast.Name) else inspected(node)))
        case ast.Call(func=ast.Attribute(attr=name)) if name in SEARCHES:
            parts = tuple(node.args)
        case _:
            parts = tuple(inspected(node))
    return any(_name(part) in SENTENCES for part in parts)


def reads_state_letters(node: ast.AST) -> bool:
    """Return whether a node inspects the letters of a state, or imports a function that does."""
    sides = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
    compared = sides if any(isinstance(side, ast.Constant) and side.value for side in sides) else ()
    is_loop = isinstance(node, ast.comprehension | ast.For) and _name(node.iter) != LETTERS
    looped = (node.iter,) if is_loop else ()
    return any(map(_is_letters, (*compared, *looped, *inspected(node)))) or READER in _imported(node)


def _is_letters(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute) and _name(node.value) == "site":
        return False  # the URL of a site's state file
    if isinstance(node, ast.Attribute) and node.attr == "text":
        return _name(node.value) in (*STATES, "there")
    return _name(node) in (*STATES, LETTERS)


def _imported(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Import):
        return tuple(module.name for module in node.names)
    if isinstance(node, ast.ImportFrom):
        return str(node.module), *(f"{node.module}.{name.name}" for name in node.names)
    return ()


def reads_clock(node: ast.AST) -> bool:
    """Return whether a node reads the system clock or defines a function that shifts recorded times."""
    match node:
        case ast.Attribute(attr=name, value=module):
            return (_name(module) == "time" and name in CLOCKS) or (
                _name(module) in ("datetime", "date") and name in DATES
            )
        case ast.ImportFrom(module="time"):
            return any(name.name in CLOCKS for name in node.names)
    return isinstance(node, ast.FunctionDef) and node.name == SHIFT


Rule = Callable[[ast.AST], bool]
LAYERS = ("campaigns", "decisions", "elastic", "model", "program", "rebalance", "site", "state", "transfer")
READ_CLOCK = {"cli", "starter"}  # folders of programs that read the system clock, and pass a time on
CHECKED: dict[str, tuple[Rule, list[Path]]] = {
    "sentence": (reads_sentence, [*(PACKAGE / "decisions").rglob("*.py")]),
    "letters": (reads_state_letters, [path for path in PACKAGE.rglob("*.py") if "batch" not in path.parts]),
    "clock": (
        reads_clock,
        [path for layer in LAYERS for path in (PACKAGE / layer).rglob("*.py") if not READ_CLOCK & {*path.parts}],
    ),
}


@pytest.mark.parametrize("rule", CHECKED)
def test_sentences_and_letters_are_only_shown_and_clocks_are_passed_in(rule: str) -> None:
    breaks, paths = CHECKED[rule]

    assert len(paths) > 50
    for path in paths:
        assert not any(map(breaks, ast.walk(ast.parse(path.read_text())))), path


@pytest.mark.parametrize(
    ("rule", "is_broken", "lines"),
    [
        (
            *(reads_sentence, True),
            """
            "tried in vain" in one.reason
            verdict.reason.partition("; ")[2]
            one.reason[:5]
            record.reason != why
            "gone" in why
            "gone" in one.reason.lower()
            (one.reason or "").startswith("gone")
            re.search("gone", one.reason)
            SENTENCES.get(one.reason, "")
            any(word in told.reason for word in WORDS)
            SENTENCES[one.reason]
            """,
        ),
        (
            *(reads_sentence, False),
            """
            note(one.reason or f"{one.reason}, {why}")
            why != self._told and note(why)
            """,
        ),
        (
            *(reads_state_letters, True),
            """
            "q" in transfer.remote_state
            "d" not in states
            any(mark in letters for mark in "sST")
            [one for one in queue.states]
            one.local_state == "hqw"
            "E" in row.state.text
            WAITING.issuperset(letters)
            {"h", "s"} <= set(states)
            keeper.states(home, job).startswith("d")
            one.remote_state[0]
            from gridbridge.batch.qstat_state_letters import parse_job_state_letters
            from gridbridge.batch import qstat_state_letters as letters
            import gridbridge.batch.qstat_state_letters
            """,
        ),
        (
            *(reads_state_letters, False),
            """
            one.remote_state or "-"
            row.state != transfer.remote_state
            Fact.HELD in row.state.facts
            each.state == State.OK
            f"it is {state.text} there"
            transfer.local_state.is_listed
            site.state.partition("://")
            """,
        ),
        (
            *(reads_clock, True),
            """
            at = datetime.now(UTC)
            at = datetime.datetime.now(UTC)
            day = date.today()
            began = time.time()
            def begin(clock=time.monotonic): ...
            from time import monotonic
            def move(self, step): ...
            """,
        ),
        (
            *(reads_clock, False),
            """
            now = self.clock.now()
            from time import gmtime
            time.gmtime
            """,
        ),
    ],
)
def test_a_rule_finds_exactly_the_lines_that_break_the_rule(rule: Rule, is_broken: bool, lines: str) -> None:
    for line in lines.strip().splitlines():
        assert any(map(rule, ast.walk(ast.parse(line.strip())))) is is_broken, line
