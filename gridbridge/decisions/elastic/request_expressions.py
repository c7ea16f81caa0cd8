"""Match names and values against the expressions of job requests: sge_types(1), expression.

Operator `!` binds tightest, then `&`, then `|`. Parentheses group, and patterns may have wildcards.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

TOKEN = re.compile(r"[!&|()]|[^!&|()]+")
DOMAIN = re.compile(r"\.[^!&|()]*")
MOST = 200  # signs and patterns of an expression; limits the recursion


def request_expression_matches(expression: str, names: Iterable[str]) -> bool:
    """Say whether an expression matches any of the names, ignoring case.

    An expression that Grid Engine cannot parse matches nothing.
    """
    tokens = TOKEN.findall(expression.lower().replace(" ", ""))
    if not 0 < len(tokens) <= MOST:
        return False
    try:
        is_match = _disjunction(tokens, tuple(name.lower() for name in names))
    except (IndexError, ValueError):
        return False
    return is_match and not tokens


def drop_domains_from_expression(expression: str, host: str) -> str:
    """Remove domains from an expression of host names if the host has no domain.

    By default Grid Engine ignores domains (ignore_fqdn, bootstrap(5)).
    """
    return expression if "." in host else DOMAIN.sub("", expression)


def _disjunction(tokens: list[str], names: tuple[str, ...]) -> bool:
    is_match = _conjunction(tokens, names)
    while tokens[:1] == ["|"]:
        del tokens[0]
        is_match = _conjunction(tokens, names) or is_match
    return is_match


def _conjunction(tokens: list[str], names: tuple[str, ...]) -> bool:
    is_match = _term(tokens, names)
    while tokens[:1] == ["&"]:
        del tokens[0]
        is_match = _term(tokens, names) and is_match
    return is_match


def _term(tokens: list[str], names: tuple[str, ...]) -> bool:
    first = tokens.pop(0)
    if first == "!":
        return not _term(tokens, names)
    if first in ("&", "|", ")"):
        raise ValueError(first)
    if first != "(":
        return any(fnmatchcase(name, first) for name in names)
    is_match = _disjunction(tokens, names)
    if tokens.pop(0) != ")":
        raise ValueError(first)
    return is_match
