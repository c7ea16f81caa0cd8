"""Parses the host conditions of tasks, as in `oarsub -p` or `qsub -l`, into validated words."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from gridbridge.model.campaigns.host_property_request_parser import ALL, ANY
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
MOST = 64  # largest number of conditions in all clauses of `properties`
OPPOSITE = {"=": "<>", "<": ">=", ">": "<=", LIKE: NOT_LIKE, IS_NULL: NOT_NULL}
OPPOSITE |= {value: key for key, value in OPPOSITE.items()}

Clauses = list[tuple[str, ...]]  # all clauses must hold; a clause holds if one condition holds
Condition = Callable[[bool], Clauses]  # returns the clauses of a condition; with True, the clauses of its negation
Tokens = list[str | Condition]


def _make_host_condition(name: str, relation: str, value: str = "") -> Condition:
    word = value.strip("'")
    return lambda is_not: [(f"{name}{OPPOSITE[relation] if is_not else relation}{word}",)]


def _negate_condition(condition: Condition) -> Condition:
    return lambda is_not: condition(not is_not)


def _join_conditions(parts: Sequence[Condition], *, is_any: bool) -> Condition:
    """Join conditions by AND (all must hold) or by OR (one must hold); negations follow De Morgan's rule."""

    def joined_clauses(is_not: bool) -> Clauses:
        by_part = [part(is_not) for part in parts]
        if is_any is is_not:
            return _refuse_too_many_conditions([clause for part in by_part for clause in part])
        joined = by_part[0]
        for other in by_part[1:]:
            both = [tuple(dict.fromkeys((*first, *second))) for first, second in product(joined, other)]
            joined = _refuse_too_many_conditions(list(dict.fromkeys(both)))
        return joined

    return joined_clauses


def parse_host_conditions(value: object) -> str:
    """Parse conditions on hosts; return the conditions without blanks and quotation marks."""
    if not isinstance(value, str):
        raise TypeError("no text")
    if not value.strip():
        return ""
    tokens = [*_split_conditions_into_tokens(value)]
    if len(tokens) > 2 * MOST:
        raise ValueError("too many conditions")
    condition = _parse_joined_conditions(tokens, ",")
    if tokens:
        raise ValueError("unreadable condition")
    return ALL.join(ANY.join(clause) for clause in condition(False))


def _refuse_too_many_conditions(clauses: Clauses) -> Clauses:
    if sum(map(len, clauses)) > MOST:
        raise ValueError("too many conditions")
    return clauses


def _split_conditions_into_tokens(text: str) -> Iterator[str | Condition]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = TOKEN.match(text, at, end)
        if not match:
            raise ValueError("unreadable condition")
        at = match.end()
        joined = match["join"] or match["comma"] or ""
        yield match["word"] or joined.upper() or _condition_of_token(match)


def _condition_of_token(match: "re.Match[str]") -> Condition:
    name = match["name"]
    if name in TIMES or is_home_only_resource(name):
        raise ValueError(f"{name} is not allowed in properties")
    if match["relation"]:
        return _make_host_condition(name, match["relation"].replace("!=", "<>"), match["value"])
    if not (match["like"] or match["list"]):
        return _make_host_condition(name, NOT_NULL if match["present"] else IS_NULL)
    values = re.findall(VALUE, match["list"] or "", re.ASCII)
    is_listed = _join_conditions([_make_host_condition(name, "=", value) for value in values], is_any=True)
    condition = _make_host_condition(name, LIKE, match["like"]) if match["like"] else is_listed
    return _negate_condition(condition) if match["not"] else condition


def _parse_joined_conditions(tokens: Tokens, join: str) -> Condition:
    """Parse conditions joined by `join`: a comma (as in `qsub -l`), OR or AND. AND binds tightest."""
    inner = {",": "OR", "OR": "AND"}.get(join)
    parts = [_parse_joined_conditions(tokens, inner) if inner else _parse_condition_operand(tokens)]
    while tokens[:1] == [join]:
        del tokens[0]
        parts.append(_parse_joined_conditions(tokens, inner) if inner else _parse_condition_operand(tokens))
    return parts[0] if len(parts) == 1 else _join_conditions(parts, is_any=join == "OR")


def _parse_condition_operand(tokens: Tokens) -> Condition:
    first = tokens.pop(0) if tokens else ")"
    if first == "NOT":
        return _negate_condition(_parse_condition_operand(tokens))
    if first == "(":
        group = _parse_joined_conditions(tokens, ",")
        if tokens[:1] != [")"]:
            raise ValueError("unreadable condition")
        del tokens[0]
        return group
    if isinstance(first, str):
        raise ValueError("unreadable condition")
    return first
