"""Compares names and values with the expressions of job requests: sge_types(1), expression.

`!` binds most, then `&`, then `|`; parentheses group. Patterns have wildcards.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

TOKEN = re.compile(r"[!&|()]|[^!&|()]+")
DOMAIN = re.compile(r"\.[^!&|()]*")
MOST = 200  # signs and patterns: anybody writes expressions, and each parenthesis is a call


def matches(expression: str, names: Iterable[str]) -> bool:
    """Say whether an expression matches any of a thing's names, in any case of letters.

    An expression that Grid Engine can't read matches nothing.
    """
    tokens = TOKEN.findall(expression.lower().replace(" ", ""))
    if not 0 < len(tokens) <= MOST:
        return False
    try:
        found = _any(tokens, tuple(name.lower() for name in names))
    except (IndexError, ValueError):
        return False
    return found and not tokens


def for_host(expression: str, host: str) -> str:
    """Return an expression of host names without domains, if the host's own name has none.

    Such a name is that of any domain: Grid Engine compares no domains with ignore_fqdn
    (bootstrap(5)), which is the default.
    """
    return expression if "." in host else DOMAIN.sub("", expression)


def _any(tokens: list[str], names: tuple[str, ...]) -> bool:
    found = _all(tokens, names)
    while tokens[:1] == ["|"]:
        del tokens[0]
        found = _all(tokens, names) or found
    return found


def _all(tokens: list[str], names: tuple[str, ...]) -> bool:
    found = _one(tokens, names)
    while tokens[:1] == ["&"]:
        del tokens[0]
        found = _one(tokens, names) and found
    return found


def _one(tokens: list[str], names: tuple[str, ...]) -> bool:
    first = tokens.pop(0)
    if first == "!":
        return not _one(tokens, names)
    if first in ("&", "|", ")"):
        raise ValueError(first)
    if first != "(":
        return any(fnmatchcase(name, first) for name in names)
    found = _any(tokens, names)
    if tokens.pop(0) != ")":
        raise ValueError(first)
    return found
