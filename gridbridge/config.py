"""Reads gridbridge.toml into a Policy, and writes a Policy as such a file.

All that is wrong is told at once, a line each: `FILE: [section] key = value: what is wrong;
what would be right`. The file is TOML 1.0; keys and limits are those of model.policy.
"""

import json
import os
import re
import shlex
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, replace
from difflib import get_close_matches
from enum import StrEnum
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from cattrs import AttributeValidationNote, ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from gridbridge.errors import ConfigError, ParseError
from gridbridge.model import amounts, mapping
from gridbridge.model.policy import Cluster, Policy, Poller, Site, TransferQueue
from gridbridge.model.rules import KINDS, AnyRule, PeRule, ProjectRule, QueueRule, ResourceRule
from gridbridge.model.settings import CLUSTER_NAME, OBJECT_NAME, Form, describe

Table: TypeAlias = Mapping[str, object]
Section: TypeAlias = Site | Cluster | TransferQueue | Poller | AnyRule
S = TypeVar("S", bound=Section)

SINGLE: Mapping[str, type[Section]] = MappingProxyType({"site": Site, "poller": Poller})
NAMED: Mapping[str, tuple[type[Section], Form]] = MappingProxyType(
    {"cluster": (Cluster, CLUSTER_NAME), "queue": (TransferQueue, OBJECT_NAME)}
)
MAPS = "map"
SECTIONS = (
    "the sections are [site], [cluster.NAME], [queue.NAME], [map.CLUSTER.KIND.NAME] and [poller]"
)
NO_SECTION = f"not a section; {SECTIONS}"
AT_ONCE = os.O_NONBLOCK  # a FIFO would wait for its writer
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
MAX_SHOWN = 80  # characters of a wrong value
BARE_KEY = re.compile("[A-Za-z0-9_-]+")
SECRET = re.compile('://[^"]*(@|password=)[^"]*')
HEADER = """\
# gridbridge.toml: every key with its meaning, what may stand there, and its default.
# A key behind # has its default. See docs/configuration.md.
"""


class Wrong(ValueError):
    """A value that its key can't have."""

    def __init__(self, value: object, wrong: str, right: str) -> None:
        super().__init__(f" = {_shown(value)}: {wrong}; {right}")


def load(path: str, *, trusted_owner: int | None = None) -> Policy:
    """Read the configuration; ConfigError tells everything that is wrong with it.

    Who acts on the file as root gives `trusted_owner`: then the file has to belong to that uid,
    and nobody else may write it.
    """
    raw = _read(path, trusted_owner)
    try:
        sections = tomllib.loads(raw.decode())
    except ValueError as error:
        raise ConfigError((f"{path}: {_place(error, raw)}; TOML 1.0 in UTF-8",)) from error
    problems = tuple(f"{path}: {problem}" for problem in _problems(sections))
    if problems:
        raise ConfigError(problems)
    return _policy(sections)


def text(policy: Policy) -> str:
    """Write a policy as its file: every key, those that have their default in a comment."""
    site = policy.site
    parts = [HEADER, _section_text("site", site, _usual(site))]
    for name, cluster in policy.clusters.items():
        usual = _usual(cluster).filled(name)
        parts.append(_section_text(f"cluster.{_key(name)}", cluster, usual))
    for name, queue in policy.queues.items():
        parts.append(_section_text(f"queue.{_key(name)}", queue, _usual(queue)))
    for name, rules in policy.maps.items():
        for (kind, of), rule in rules.items():
            parts.append(
                _section_text(f"{MAPS}.{_key(name)}.{kind}.{_key(of)}", rule, _usual(rule))
            )
    return "\n".join([*parts, _section_text("poller", policy.poller, _usual(policy.poller))])


def right(key: Field[object]) -> str:
    """Say in a few words what may stand behind a key."""
    kind, known = _kind(key), describe(key)
    if issubclass(kind, StrEnum):
        return " or ".join(_shown(word) for word in kind)
    if kind is str:
        return known.form.right
    if kind is bool:
        return "true or false"
    noun = "a whole number" if kind is int else "a number"
    return f"{noun}, {known.low} to {known.high} {known.unit}".rstrip()


def default(key: Field[object]) -> str:
    """Say what holds when the key isn't there."""
    if key.default is MISSING:
        return "required"
    return f"default {describe(key).inherits or _shown(key.default)}"


def _read(path: str, trusted_owner: int | None) -> bytes:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | AT_ONCE)) as file:
            problems = tuple(_distrust(path, os.fstat(file.fileno()), trusted_owner))
            if problems:
                raise ConfigError(problems)
            return file.read()
    except OSError as error:
        remedy = "a readable copy of conf/gridbridge.toml has to be there"
        raise ConfigError((f"{path}: {error.strerror}; {remedy}",)) from error


def _distrust(path: str, status: os.stat_result, trusted_owner: int | None) -> Iterator[str]:
    name, mode = shlex.quote(path), stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        yield f"{path}: not a file; a copy of conf/gridbridge.toml has to be there"
    if trusted_owner is None:
        return
    if status.st_uid != trusted_owner:
        yield f"{path}: belongs to uid {status.st_uid}; chown {trusted_owner} {name}"
    if mode & OTHERS_WRITE:
        yield f"{path}: others may write it, mode {mode:04o}; chmod go-w {name}"


def _place(error: ValueError, raw: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"{error.reason} (at line {raw.count(bytes([10]), 0, error.start) + 1})"
    return str(error).replace("at end of document", f"at line {len(raw.splitlines())}, the end")


def _problems(sections: Table) -> Iterator[str]:
    for name, content in {"site": {}, **sections}.items():
        if name in SINGLE:
            yield from _section_problems(name, content, SINGLE[name])
        elif name in NAMED:
            yield from _named_problems(name, content)
        elif name == MAPS:
            local = _table(sections, "site").get("cluster")
            yield from _map_problems(content, _table(sections, "cluster"), local)
        else:
            yield f"[{_key(name)}]: unknown section; {SECTIONS}"
    yield from _reference_problems(sections)
    yield from _staleness_problems(_table(sections, "poller"))


def _named_problems(group: str, content: object) -> Iterator[str]:
    if not isinstance(content, dict):
        yield f"[{group}]: {NO_SECTION}"
        return
    kind, form = NAMED[group]
    for name, table in content.items():
        title = f"{group}.{_key(name)}"
        if not form.holds(name):
            yield f"[{title}]: wrong name; {form.right}"
        yield from _section_problems(title, table, kind)


def _map_problems(maps: object, clusters: Table, local: object) -> Iterator[str]:
    if not isinstance(maps, dict):
        yield f"[{MAPS}]: {NO_SECTION}"
        return
    for cluster, kinds in maps.items():
        title = f"{MAPS}.{_key(cluster)}"
        if cluster not in clusters or cluster == local:
            wrong = "the local cluster" if cluster == local else "undefined"
            yield f"[{title}]: {wrong}; the name of a remote [cluster.NAME]"
        if not isinstance(kinds, dict):
            yield f"[{title}]: no rules; [{title}.KIND.NAME], the kinds are {', '.join(KINDS)}"
            continue
        for kind, rules in kinds.items():
            if kind not in KINDS or not isinstance(rules, dict):
                yield f"[{title}.{_key(kind)}]: unknown kind; resource, pe, project or queue"
                continue
            yield from _rule_problems(f"{title}.{kind}", kind, rules)


def _rule_problems(title: str, kind: str, rules: Table) -> Iterator[str]:
    section, form = KINDS[kind]
    for name, table in rules.items():
        rule = f"{title}.{_key(name)}"
        if not form.holds(name):
            yield f"[{rule}]: wrong name; {form.right}"
        problems = list(_section_problems(rule, table, section))
        yield from problems or _default_problems(rule, _CONVERTER.structure(table, section))
    yield from _meeting_problems(title, kind, rules)


def _default_problems(title: str, rule: AnyRule) -> Iterator[str]:
    """Tell of a default that is to be converted and is no amount."""
    if not isinstance(rule, ResourceRule) or not rule.default:
        return
    try:
        if rule.unit or rule.scale != 1:
            amounts.read(rule.default)
    except ParseError as error:
        wrong = Wrong(rule.default, "it can't be scaled or written in a unit", str(error))
        yield f"[{title}] default{wrong}"


def _meeting_problems(title: str, kind: str, rules: Table) -> Iterator[str]:
    """Two resources that become one there would be asked for twice."""
    taken: dict[str, str] = {}
    for name in rules if kind == mapping.RESOURCE else ():
        rule = _table(rules, name)
        if rule.get("drop") is True or rule.get("reject"):
            continue
        there = str(rule.get("to") or name)
        if there in taken:
            wrong = Wrong(there, f"{taken[there]} becomes that, too", "another name, or drop one")
            yield f"[{title}.{_key(name)}] to{wrong}"
        taken.setdefault(there, name)


def _section_problems(title: str, table: object, kind: type[Section]) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"[{title}]: {NO_SECTION}"
        return
    try:
        _CONVERTER.structure(table, kind)
    except ClassValidationError as group:
        for error in group.exceptions:
            yield from (f"[{title}] {told}" for told in _told(error, kind))


def _told(error: Exception, kind: type[Section]) -> Iterator[str]:
    keys = {key.name: key for key in fields(kind)}
    if isinstance(error, ForbiddenExtraKeysError):
        for name in sorted(error.extra_fields):
            near = get_close_matches(name, keys, 1)
            hint = f"{near[0]} is the nearest" if near else f"the keys are {', '.join(keys)}"
            yield f"{_key(name)}: unknown key; {hint}"
        return
    notes = (note for note in error.__notes__ if isinstance(note, AttributeValidationNote))
    key = keys[next(notes).name]
    yield f"{key.name}{error}" if isinstance(error, Wrong) else f"{key.name}: missing; {right(key)}"


def _reference_problems(sections: Table) -> Iterator[str]:
    clusters, local = _table(sections, "cluster"), _table(sections, "site").get("cluster")
    if isinstance(local, str) and CLUSTER_NAME.holds(local) and local not in clusters:
        yield f"[site] cluster{Wrong(local, 'undefined', f'[cluster.{local}] has to be there')}"
    remotes = ", ".join(name for name in clusters if name != local) or "none is defined"
    queues = _table(sections, "queue")
    for name in queues:
        cluster = _table(queues, name).get("cluster")
        if not isinstance(cluster, str) or not CLUSTER_NAME.holds(cluster):
            continue
        if cluster == local or cluster not in clusters:
            wrong = "the local cluster" if cluster == local else "undefined"
            problem = Wrong(cluster, wrong, f"a remote cluster ({remotes})")
            yield f"[queue.{_key(name)}] cluster{problem}"


def _staleness_problems(poller: Table) -> Iterator[str]:
    interval_s = poller.get("interval_s", Poller().interval_s)
    stale_s = poller.get("stale_s", Poller().stale_s)
    if not isinstance(interval_s, int | float) or not isinstance(stale_s, int | float):
        return
    if stale_s <= interval_s:
        problem = Wrong(stale_s, "queues would close between two polls", f"above {interval_s} s")
        yield f"[poller] stale_s{problem}"


def _policy(sections: Table) -> Policy:
    clusters, queues = _table(sections, "cluster"), _table(sections, "queue")
    return Policy(
        site=_CONVERTER.structure(sections["site"], Site),
        clusters={name: _CONVERTER.structure(clusters[name], Cluster) for name in clusters},
        queues={name: _CONVERTER.structure(queues[name], TransferQueue) for name in queues},
        poller=_CONVERTER.structure(_table(sections, "poller"), Poller),
        maps={
            cluster: _rules(_table(_table(sections, MAPS), cluster))
            for cluster in _table(sections, MAPS)
        },
    )


def _rules(kinds: Table) -> dict[tuple[str, str], AnyRule]:
    return {
        (kind, name): _CONVERTER.structure(rule, KINDS[kind][0])
        for kind in kinds
        for name, rule in _table(kinds, kind).items()
    }


def _table(tables: Table, name: str) -> Table:
    table = tables.get(name)
    return table if isinstance(table, dict) else {}


def _hook(key: Field[object]) -> Callable[[object, object], object]:
    def checked(value: object, _: object) -> object:
        fault = _fault(value, key)
        if fault:
            raise Wrong(value, fault, right(key))
        return _kind(key)(value)

    return checked


def _fault(value: object, key: Field[object]) -> str:
    """Return what is wrong with a value, nothing when it's right."""
    kind, known = _kind(key), describe(key)
    accepted = int | float if kind is float else str if issubclass(kind, str) else kind
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        return "wrong type"
    if issubclass(kind, StrEnum):
        return "" if value in tuple(kind) else "unknown word"
    if isinstance(value, str):
        return "" if known.form.holds(value) else "wrong form"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return "" if known.low <= value <= known.high else "out of range"


def _kind(key: Field[object]) -> type:
    assert isinstance(key.type, type)
    return key.type


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    rules = (ResourceRule, PeRule, ProjectRule, QueueRule)
    for kind in (Site, Cluster, TransferQueue, Poller, *rules):
        hooks: Any = {key.name: override(struct_hook=_hook(key)) for key in fields(kind)}
        converter.register_structure_hook(kind, make_dict_structure_fn(kind, converter, **hooks))
    return converter


def _usual(section: S) -> S:
    kept = {key.name: key.default for key in fields(section) if key.default is not MISSING}
    return replace(section, **kept)


def _section_text(title: str, section: Section, usual: Section) -> str:
    lines = [f"[{title}]"]
    for key in fields(section):
        value = getattr(section, key.name)
        is_default = key.default is not MISSING and value == getattr(usual, key.name)
        lines.append(f"\n# {describe(key).meaning}\n# {right(key)}; {default(key)}")
        lines.append(f"{'#' if is_default else ''}{key.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def _toml(value: object) -> str:
    return str(value) if isinstance(value, float) else json.dumps(value, default=str)


def _shown(value: object) -> str:
    shown = SECRET.sub("://***", _toml(value))
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."


_CONVERTER = _converter()
