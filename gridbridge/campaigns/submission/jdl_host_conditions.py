"""Parses the host conditions of a campaign's tasks, as in `oarsub -p` or `qsub -l`.

Conditions are kept in conjunctive form: every clause must hold, and a clause holds if one of its
conditions holds. `AND`, `OR`, `NOT` and parentheses are supported. Names and values are validated
words, never SQL or sh.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from gridbridge.model.campaigns.requested_host_properties import ALL, ANY
from gridbridge.model.job_request import IS_NULL, LIKE, NOT_LIKE, NOT_NULL, is_home_only_resource

QUOTED = r"'(?:[A-Za-z0-9_*%!(?^./+\[-][^\x00-\x1f\x7f',;\\]{0,254})?'"
BARE = r"(?:[A-Za-z0-9_*]|[-.](?=[0-9]))[A-Za-z0-9_.:/@*|+-]{0,254}"
VALUE = rf"(?:{QUOTED}|{BARE})"
CONDITION = (
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]{0,63})(?:"
    rf"\s*(?P<relation><>|!=|<=|>=|=|<|>)\s*(?P<value>{VALUE})"
    rf"|(?P<not>\s+NOT)?\s+(?:LIKE\s*(?P<like>{VALUE})|IN\s*\((?P<list>\s*{VALUE}(?:\s*,\s*{VALUE})*)\s*\))"
    r"|\s+IS(?P<present>\s+NOT)?\s+NULL\b)"
)
TOKEN = re.compile(
    r"\s*(?:(?P<word>[()])|(?P<comma>,)|(?P<join>(?:AND|OR|NOT)\b(?!\s*[<>=!]))"
    rf"|{CONDITION})",
    re.ASCII | re.IGNORECASE,
)
TIMES = ("h_rt", "s_rt")  # Grid Engine's time limits, for which a JDL has walltime
MOST = 64  # at most this many conditions, in all clauses together
OPPOSITE = {"=": "<>", "<": ">=", ">": "<=", LIKE: NOT_LIKE, IS_NULL: NOT_NULL}
OPPOSITE |= {value: key for key, value in OPPOSITE.items()}

Clauses = list[tuple[str, ...]]  # all clauses must hold; a clause holds if one condition holds


@dataclass(frozen=True, slots=True)
class HostCondition:
    """A condition on a host: the name of a property, a relation and a value."""

    name: str
    relation: str
    value: str = ""

    def clauses(self, is_not: bool) -> Clauses:
        """Return the condition, or with `is_not` its negation, as clauses."""
        relation = OPPOSITE[self.relation] if is_not else self.relation
        return [(f"{self.name}{relation}{self.value}",)]


@dataclass(frozen=True, slots=True)
class JdlAndOrConditions:
    """Conditions joined by AND (all must hold) or by OR (one must hold)."""

    parts: "tuple[Wish, ...]"
    is_any: bool

    def clauses(self, is_not: bool) -> Clauses:
        """Return the clauses of the group, or of the group's negation (De Morgan's rule) with `is_not`."""
        by_part = [part.clauses(is_not) for part in self.parts]
        if self.is_any is is_not:
            return _bounded([clause for part in by_part for clause in part])
        clauses = by_part[0]
        for other in by_part[1:]:
            both = [tuple(dict.fromkeys((*first, *second))) for first, second in product(clauses, other)]
            clauses = _bounded(list(dict.fromkeys(both)))
        return clauses


@dataclass(frozen=True, slots=True)
class NegatedHostCondition:
    """The negation of a host condition or of a group of conditions."""

    part: "Wish"

    def clauses(self, is_not: bool) -> Clauses:
        """Return the clauses of the negation, or of the negated condition with `is_not`."""
        return self.part.clauses(not is_not)


Wish = HostCondition | JdlAndOrConditions | NegatedHostCondition


def parse_host_conditions(value: object) -> str:
    """Parse conditions on hosts; return the conditions without blanks and quotation marks."""
    if not isinstance(value, str):
        raise TypeError("no text")
    if not value.strip():
        return ""
    tokens = [*_tokens(value)]
    if len(tokens) > 2 * MOST:
        raise ValueError("too many conditions")
    condition = _expression(tokens)
    if tokens:
        raise ValueError("it can't be read")
    return ALL.join(ANY.join(clause) for clause in condition.clauses(is_not=False))


def _bounded(clauses: Clauses) -> Clauses:
    if sum(map(len, clauses)) > MOST:
        raise ValueError("too many conditions")
    return clauses


def _tokens(text: str) -> Iterator[str | Wish]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = TOKEN.match(text, at, end)
        if not match:
            raise ValueError("it can't be read")
        at = match.end()
        joined = match["join"] or match["comma"] or ""
        yield match["word"] or joined.upper() or _condition(match)


def _condition(match: "re.Match[str]") -> Wish:
    name = match["name"]
    if name in TIMES or is_home_only_resource(name):
        raise ValueError(f"{name} is not allowed in properties")
    if match["relation"]:
        return HostCondition(name, match["relation"].replace("!=", "<>"), match["value"].strip("'"))
    if match["like"]:
        condition: Wish = HostCondition(name, LIKE, match["like"].strip("'"))
    elif match["list"]:
        values = re.findall(VALUE, match["list"], re.ASCII)
        conditions = tuple(HostCondition(name, "=", value.strip("'")) for value in values)
        condition = JdlAndOrConditions(conditions, is_any=True)
    else:
        return HostCondition(name, NOT_NULL if match["present"] else IS_NULL)
    return NegatedHostCondition(condition) if match["not"] else condition


Tokens = list[str | Wish]


def _expression(tokens: Tokens) -> Wish:
    """Parse conditions separated by commas (a list of `qsub -l`), which bind less than OR."""
    return _joined(tokens, ",")


def _joined(tokens: Tokens, join: str) -> Wish:
    inner = {",": "OR", "OR": "AND"}.get(join)

    def part() -> Wish:
        return _joined(tokens, inner) if inner else _operand(tokens)

    parts = [part()]
    while tokens[:1] == [join]:
        del tokens[0]
        parts.append(part())
    return parts[0] if len(parts) == 1 else JdlAndOrConditions(tuple(parts), is_any=join == "OR")


def _operand(tokens: Tokens) -> Wish:
    first = tokens.pop(0) if tokens else ")"
    if first == "NOT":
        return NegatedHostCondition(_operand(tokens))
    if first == "(":
        group = _expression(tokens)
        if tokens[:1] != [")"]:
            raise ValueError("it can't be read")
        del tokens[0]
        return group
    if isinstance(first, str):
        raise ValueError("it can't be read")
    return first
