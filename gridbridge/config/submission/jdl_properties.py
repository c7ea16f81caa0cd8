"""Reads which hosts a campaign's tasks ask for: the conditions of `oarsub -p`, or of `qsub -l`.

They are kept as clauses of which each has to hold, and of each clause one condition: any `AND`,
`OR` and parentheses come to that. Names are names, values are words: nothing of it is SQL or sh.
"""

import re
from collections.abc import Iterator
from itertools import product

from gridbridge.model.campaigns.hosts.properties import ALL, ANY
from gridbridge.model.places import is_place

QUOTED = r"'(?P<quoted>[A-Za-z0-9_*!(?^./+\[-][^\x00-\x1f\x7f',;\\]{0,254})'"
BARE = r"(?P<bare>[A-Za-z0-9_*][A-Za-z0-9_.:/@*|+-]{0,254})"
CONDITION = (
    r"(?P<name>[A-Za-z_][A-Za-z0-9_]{0,63})\s*(?P<relation><>|<=|>=|=|<|>)\s*"
    rf"(?:{QUOTED}|{BARE})"
)
TOKEN = re.compile(
    rf"\s*(?:(?P<word>[()])|(?P<comma>,)|(?P<join>AND|OR)\b(?!\s*[<>=])|{CONDITION})",
    re.ASCII | re.IGNORECASE,
)
JOINS = ("AND", "OR", ",")
TIMES = ("h_rt", "s_rt")  # of Grid Engine: the walltime says it
MOST = 64  # conditions, in all clauses

Clauses = list[tuple[str, ...]]  # all of them hold, and of each one of its conditions


def properties(value: object) -> str:
    """Read conditions of hosts; each is written without blanks and quotation marks."""
    if not isinstance(value, str):
        raise TypeError("no text")
    tokens = [*_tokens(value)]
    if len(tokens) > 2 * MOST:
        raise ValueError("too many conditions")
    found = _every(tokens)
    if tokens:
        raise ValueError("unclear")
    return ALL.join(ANY.join(one) for one in found)


def _tokens(text: str) -> Iterator[str]:
    at, end = 0, len(text.rstrip())
    while at < end:
        found = TOKEN.match(text, at, end)
        if not found:
            raise ValueError("unclear")
        at = found.end()
        joined = found["join"] or found["comma"] or ""
        yield found["word"] or joined.upper() or _condition(found)


def _condition(found: "re.Match[str]") -> str:
    name = found["name"]
    if name in TIMES or is_place(name):
        raise ValueError(f"{name} is not asked for so")
    return f"{name}{found['relation']}{found['quoted'] or found['bare']}"


def _every(tokens: list[str]) -> Clauses:
    """Read what commas part: a list of `qsub -l`, so that they bind less than OR does."""
    found = _any(tokens)
    while tokens[:1] == [","]:
        del tokens[0]
        found = [*found, *_any(tokens)]
    return found


def _any(tokens: list[str]) -> Clauses:
    found = _all(tokens)
    while tokens[:1] == ["OR"]:
        del tokens[0]
        both = product(found, _all(tokens))
        found = list(dict.fromkeys(tuple(dict.fromkeys((*one, *other))) for one, other in both))
        if sum(map(len, found)) > MOST:
            raise ValueError("too many conditions")
    return found


def _all(tokens: list[str]) -> Clauses:
    found = _one(tokens)
    while tokens[:1] == ["AND"]:
        del tokens[0]
        found = [*found, *_one(tokens)]
    return found


def _one(tokens: list[str]) -> Clauses:
    first = tokens.pop(0) if tokens else ")"
    if first == "(":
        found = _every(tokens)
        if tokens[:1] != [")"]:
            raise ValueError("unclear")
        del tokens[0]
        return found
    if first in (")", *JOINS):
        raise ValueError("unclear")
    return [(first,)]
