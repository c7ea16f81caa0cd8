"""Write a campaign as a JDL, and find the line of a JDL key for error messages."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gridbridge.campaigns.submission.jdl_value_parsers import BEST_EFFORT
from gridbridge.model.campaigns.jdl import Jdl, JdlClusterSettings
from gridbridge.model.campaigns.requested_host_properties import (
    ALL,
    Pair,
    parse_alternative_host_properties,
    parse_required_host_properties,
)
from gridbridge.model.job_request import VALUELESS, WORDS, split_property_and_sql_relation

STEPS = ("prologue", "epilogue")  # commands with a walltime of their own
Path = tuple[str, ...]  # path of a key: the names of its tables, then the name of the key
JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]')
NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
NAMES = rf"{NAME}(?:\s*\.\s*{NAME})*"
TOML = re.compile(rf"\s*(?:\[(?P<table>\s*{NAMES}\s*)\]|(?P<key>{NAMES})\s*=)")
LONG = re.compile("\"\"\"|'''")


def campaign_to_jdl_table(jdl: Jdl, parameters: Iterable[str]) -> dict[str, object]:
    """Return a campaign as a JDL's table; `parse_jdl` reads the same campaign from it."""
    table: dict[str, object] = {"name": jdl.name}
    if jdl.is_idempotent:
        table["idempotent"] = True
    if jdl.outputs:
        table["outputs"] = list(jdl.outputs)
    if jdl.datasets:
        table["datasets"] = {
            name: {"path": dataset.path, "replicas": dataset.replicas} for name, dataset in jdl.datasets.items()
        }
    if not jdl.may_move:
        table["rebalance"] = False
    table["clusters"] = {name: dict(_cluster_keys(cluster)) for name, cluster in jdl.clusters.items()}
    return table | {"params": list(parameters)}


def _cluster_keys(cluster: JdlClusterSettings) -> Iterator[tuple[str, object]]:
    """Yield the keys of a cluster, without empty values."""
    yield "exec_file", cluster.exec_file
    yield "resources", _levels(cluster)
    yield "walltime", _clock(cluster.walltime_s)
    yield "type", BEST_EFFORT[0] if cluster.is_besteffort else "normal"
    texts = {
        "exec_directory": cluster.exec_directory,
        "project": cluster.project,
        "queue": cluster.queue,
        "pe": cluster.environment,
        "properties": _conditions(cluster.properties),
        "max_jobs": cluster.max_jobs,
    }
    yield from ((key, value) for key, value in texts.items() if value)
    for key in STEPS:
        if lines := getattr(cluster, key):
            yield key, lines.split("\n")
            yield f"{key}_walltime", _clock(getattr(cluster, f"{key}_walltime_s"))


def _clock(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _levels(cluster: JdlClusterSettings) -> str:
    return (
        f"/nodes={cluster.nodes}/core={cluster.slots // cluster.nodes}" if cluster.nodes else f"/core={cluster.slots}"
    )


def _conditions(text: str) -> str:
    """Join clauses with commas, which bind less than OR, so no parentheses are needed."""
    return ", ".join(map(_clause, text.split(ALL))) if text else ""


def _clause(text: str) -> str:
    conditions = (*parse_alternative_host_properties(text), parse_required_host_properties(text))[0]
    return " OR ".join(map(_condition, conditions))


def _condition(pair: Pair) -> str:
    name, value = pair
    bare, relation = split_property_and_sql_relation(name)
    words = f"{bare} {WORDS.get(relation, relation)}"
    return words if relation in VALUELESS else f"{words} '{value}'"


@dataclass(slots=True)
class JdlKeyLines:
    """Line and original spelling of each key of a JDL."""

    lines: dict[Path, int] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)  # original spelling of each key
    twice: list[tuple[Path, int]] = field(default_factory=list)

    def of(self, *path: str) -> int:
        """Return the line of a key, else of its enclosing table; 0 if neither is found."""
        lines = (self.lines.get(_low(path[:end])) for end in range(len(path), 0, -1))
        return next(filter(None, lines), 0)

    def word(self, *path: str) -> str:
        """Return a key as it is spelled in the JDL."""
        return self.written.get(_low(path), path[-1])

    def note(self, path: Path, line: int) -> None:
        """Record a key's line; a repeated key is recorded as a duplicate."""
        low = _low(path)
        if low in self.lines:
            self.twice.append((path, line))
            return
        self.lines[low], self.written[low] = line, path[-1]


def locate_jdl_keys(text: str) -> JdlKeyLines:
    """Return the lines of all keys of a JDL in JSON or TOML."""
    lines = JdlKeyLines()
    for path, line in _of_json(text) if is_json_jdl(text) else _of_toml(text):
        lines.note(path, line)
    return lines


def is_json_jdl(text: str) -> bool:
    """Say whether a JDL is JSON; otherwise it is TOML."""
    return text.lstrip()[:1] in ("{", "[")


def _of_json(text: str) -> Iterator[tuple[Path, int]]:
    tables: list[str] = []  # keys of the open tables; empty text for a list
    kinds, key, is_key = "", "", False
    line, counted = 1, 0
    for token in JSON.finditer(text):
        word = token[0]
        if word in "{[":
            tables.append(key)
            kinds, is_key = kinds + word, word == "{"
        elif word in "}]":
            tables, kinds = tables[:-1], kinds[:-1]
        elif word in ",:":
            is_key = word == "," and kinds[-1:] == "{"
        elif is_key:
            line, counted = line + text.count("\n", counted, token.start()), token.start()
            key = str(json.loads(word, strict=False))
            yield (*tables[1:], key), line


def _of_toml(text: str) -> Iterator[tuple[Path, int]]:
    table: Path = ()
    is_long = False
    for number, line in enumerate(text.split("\n"), start=1):
        was_long, is_long = is_long, is_long ^ bool(len(LONG.findall(line)) % 2)
        match = None if was_long else TOML.match(line)
        if match and match["table"]:
            table = _split(match["table"])
            yield table, number
        elif match:
            path = (*table, *_split(match["key"]))
            yield path, number
            yield from ((inner, number) for inner in _inner(path, line[match.end() :]))


def _inner(path: Path, text: str) -> Iterable[Path]:
    """Yield the keys of an inline table, each with the tables that enclose it."""
    if not text.lstrip().startswith("{"):
        return
    for match in re.finditer(rf"[{{,]\s*({NAME})\s*=\s*(\{{?)", text):
        yield (*path, *_split(match[1]))
        path = (*path, *_split(match[1])) if match[2] else path


def _split(names: str) -> Path:
    return tuple(name.strip().strip("\"'") for name in re.findall(NAME, names))


def _low(path: Iterable[str]) -> Path:
    return tuple(map(str.lower, path))
