"""Reads gridbridge.toml into a Policy, and writes a Policy as such a file.

All that is wrong is told at once, a line each: `FILE: [section] key = value: what is wrong;
what would be right`. The file is TOML 1.0; keys and limits are those of model.policy.
"""

import os
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

from gridbridge.config import maps, references
from gridbridge.config.maps import MAPS
from gridbridge.config.references import table_of
from gridbridge.config.words import TABLES, Table, Wrong, default, key_name, kind_of, right, toml
from gridbridge.errors import ConfigError
from gridbridge.model.cluster import Cluster
from gridbridge.model.policy import Policy, Poller, Site, TransferQueue
from gridbridge.model.settings import CLUSTER_NAME, OBJECT_NAME, Form, describe
from gridbridge.model.transfer.rules import KINDS, AnyRule
from gridbridge.model.users import Users
from gridbridge.shell import trust

Section: TypeAlias = Site | Cluster | TransferQueue | Poller | AnyRule
S = TypeVar("S", bound=Section)

SINGLE: Mapping[str, type[Section]] = MappingProxyType({"site": Site, "poller": Poller})
NAMED: Mapping[str, tuple[type[Section], Form]] = MappingProxyType(
    {"cluster": (Cluster, CLUSTER_NAME), "queue": (TransferQueue, OBJECT_NAME)}
)
SECTIONS = (
    "the sections are [site], [cluster.NAME], [queue.NAME], [map.CLUSTER.KIND.NAME] and [poller]"
)
NO_SECTION = f"not a section; {SECTIONS}"
AT_ONCE = os.O_NONBLOCK  # a FIFO would wait for its writer
MAX_BYTES = 1 << 20  # a file of thousands of queues is shorter; longer ones would stop the service
HEADER = """\
# gridbridge.toml: every key with its meaning, what may stand there, and its default.
# A key behind # has its default. See docs/configuration.md.
"""


def load(path: str) -> Policy:
    """Read the configuration; ConfigError tells everything that is wrong with it.

    Untrusted is raised to root for a file that anybody else could have written.
    """
    return parse(path, read(path))


def parse(path: str, raw: bytes) -> Policy:
    """Read a configuration from the bytes of that file; ConfigError as `load`."""
    try:
        sections = tomllib.loads(raw.decode())
    except ValueError as error:
        raise ConfigError((f"{path}: {_place(error, raw)}; TOML 1.0 in UTF-8",)) from error
    except RecursionError as error:
        wrong = "its values are nested too deeply; a table of texts is all that a key has"
        raise ConfigError((f"{path}: {wrong}",)) from error
    problems = tuple(f"{path}: {problem}" for problem in _problems(sections))
    if problems:
        raise ConfigError(problems)
    return _policy(sections)


def read(path: str) -> bytes:
    """Return the file's bytes; ConfigError when it is none that may be trusted."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | AT_ONCE)) as file:
            _refuse(path, file.fileno())
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        remedy = "a readable copy of conf/gridbridge.toml has to be there"
        raise ConfigError((f"{path}: {error.strerror}; {remedy}",)) from error
    if len(raw) > MAX_BYTES:
        raise ConfigError((f"{path}: too long; at most {MAX_BYTES} bytes are read",))
    return raw


def text(policy: Policy) -> str:
    """Write a policy as its file: every key, those that have their default in a comment."""
    site = policy.site
    parts = [HEADER, _section_text("site", site, _usual(site))]
    for name, cluster in policy.clusters.items():
        usual = _usual(cluster).filled(name)
        parts.append(_section_text(f"cluster.{key_name(name)}", cluster, usual))
    for name, queue in policy.queues.items():
        parts.append(_section_text(f"queue.{key_name(name)}", queue, _usual(queue)))
    for name, rules in policy.maps.items():
        for (kind, of), rule in rules.items():
            title = f"{MAPS}.{key_name(name)}.{kind}.{key_name(of)}"
            parts.append(_section_text(title, rule, _usual(rule)))
    return "\n".join([*parts, _section_text("poller", policy.poller, _usual(policy.poller))])


def _refuse(path: str, opened: int) -> None:
    """Refuse what is no file, and to root one that others could have written."""
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        raise ConfigError((f"{path}: not a file; a copy of conf/gridbridge.toml has to be there",))
    owner = trust.demanded()
    if owner is not None:
        trust.require(os.path.abspath(path), opened, owner)


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
            yield from () if isinstance(content, dict) else (f"[{MAPS}]: {NO_SECTION}",)
        else:
            yield f"[{key_name(name)}]: unknown section; {SECTIONS}"
    yield from maps.problems(sections, _section_problems)
    yield from references.problems(sections)


def _named_problems(group: str, content: object) -> Iterator[str]:
    if not isinstance(content, dict):
        yield f"[{group}]: {NO_SECTION}"
        return
    kind, form = NAMED[group]
    for name, table in content.items():
        title = f"{group}.{key_name(name)}"
        if not form.holds(name):
            yield f"[{title}]: wrong name; {form.right}"
        yield from _section_problems(title, table, kind)


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
            yield f"{key_name(name)}: unknown key; {hint}"
        return
    notes = (note for note in error.__notes__ if isinstance(note, AttributeValidationNote))
    key = keys[next(notes).name]
    yield f"{key.name}{error}" if isinstance(error, Wrong) else f"{key.name}: missing; {right(key)}"


def _policy(sections: Table) -> Policy:
    clusters, queues = table_of(sections, "cluster"), table_of(sections, "queue")
    return Policy(
        site=_CONVERTER.structure(sections["site"], Site),
        clusters={name: _CONVERTER.structure(clusters[name], Cluster) for name in clusters},
        queues={name: _CONVERTER.structure(queues[name], TransferQueue) for name in queues},
        poller=_CONVERTER.structure(table_of(sections, "poller"), Poller),
        maps=maps.rules_of(sections, _CONVERTER.structure),
    )


def _hook(key: Field[object]) -> Callable[[object, object], object]:
    def checked(value: object, _: object) -> object:
        if isinstance(value, dict) and kind_of(key) in TABLES:
            _check_table(value, key)
        fault = _fault(value, key)
        if fault:
            raise Wrong(value, fault, right(key))
        return kind_of(key)(value)

    return checked


def _check_table(table: dict[str, object], key: Field[object]) -> None:
    """Refuse what has not its form, or is two people's account: whose a job is would be a guess."""
    known, is_users = describe(key).form, kind_of(key) is Users
    named = known if is_users else OBJECT_NAME
    for name, value in table.items():
        if not (named.holds(name) and isinstance(value, str) and known.holds(value)):
            raise Wrong(value, "wrong form", known.right, f".{key_name(name)}")
        if is_users and list(table.values()).count(value) > 1:
            raise Wrong(value, "two people's", known.right, f".{key_name(name)}")


def _fault(value: object, key: Field[object]) -> str:
    """Return what is wrong with a value, nothing when it's right."""
    kind, known = kind_of(key), describe(key)
    accepted = int | float if kind is float else str if issubclass(kind, str) else kind
    accepted = dict if kind in TABLES else accepted
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        return "wrong type"
    if issubclass(kind, StrEnum):
        return "" if value in tuple(kind) else "unknown word"
    if isinstance(value, str):
        return "" if known.form.holds(value) else "wrong form"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return "" if known.low <= value <= known.high else "out of range"


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    rules = (rule for rule, _ in KINDS.values())
    for kind in (Site, Cluster, TransferQueue, Poller, *rules):
        hooks: Any = {key.name: override(struct_hook=_hook(key)) for key in fields(kind)}
        converter.register_structure_hook(kind, make_dict_structure_fn(kind, converter, **hooks))
    return converter


def _usual(section: S) -> S:
    kept = {key.name: key.default for key in fields(section) if key.default is not MISSING}
    kept |= {
        key.name: key.default_factory()
        for key in fields(section)
        if key.default_factory is not MISSING
    }
    return replace(section, **kept)


def _section_text(title: str, section: Section, usual: Section) -> str:
    lines = [f"[{title}]"]
    for key in fields(section):
        value = getattr(section, key.name)
        is_required = key.default is MISSING and key.default_factory is MISSING
        is_default = not is_required and value == getattr(usual, key.name)
        lines.append(f"\n# {describe(key).meaning}\n# {right(key)}; {default(key)}")
        lines.append(f"{'#' if is_default else ''}{key.name} = {toml(value)}")
    return "\n".join(lines) + "\n"


_CONVERTER = _converter()
