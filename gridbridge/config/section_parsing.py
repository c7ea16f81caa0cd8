"""Parses sections of gridbridge.toml, and finds their mistakes."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from cattrs import AttributeValidationNote, ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from gridbridge.model.config_key_descriptions import (
    OBJECT_NAME,
    AccountByUser,
    ConfigTextFormat,
    PathByCluster,
    QueueDefaultRequests,
    config_key_description,
)
from gridbridge.model.site_configuration import ClusterKind
from gridbridge.model.transfer.transfer_config_sections import KINDS, AnyRule

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Table: TypeAlias = Mapping[str, object]

TABLE_TYPES = (
    AccountByUser,
    QueueDefaultRequests,
    PathByCluster,
)  # types of keys whose value is a table of texts
MAX_VALUE_CHARS = 80  # longest part of a wrong value that a message repeats
BARE_KEY = re.compile("[A-Za-z0-9_-]+")
SECRET = re.compile('://[^"]*(@|password=)[^"]*')


class ConfigKeyProblem(ValueError):
    def __init__(self, value: object, wrong: str, right: str, part: str = "") -> None:
        super().__init__(f"{part} = {shorten_and_redact_value(value)}: {wrong}; expected {right}")


def describe_allowed_values(key: Field[object]) -> str:
    kind, description = config_key_type(key), config_key_description(key)
    if issubclass(kind, StrEnum):
        return " or ".join(shorten_and_redact_value(word) for word in kind)
    if kind in (str, *TABLE_TYPES):
        return description.form.right
    if kind is bool:
        return "true or false"
    noun = "a whole number" if kind is int else "a number"
    return f"{noun}, {description.low} to {description.high} {description.unit}".rstrip()


def describe_key_default(key: Field[object]) -> str:
    if key.default_factory is not MISSING:
        return f"default {shorten_and_redact_value(key.default_factory())}"
    if key.default is MISSING:
        return "required"
    return f"default {config_key_description(key).inherits or shorten_and_redact_value(key.default)}"


def config_key_type(key: Field[object]) -> type:
    assert isinstance(key.type, type)
    return key.type


def format_toml_key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def format_toml_value(value: object) -> str:
    if isinstance(value, dict):
        pairs = ", ".join(f"{format_toml_key(name)} = {format_toml_value(part)}" for name, part in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return str(value) if isinstance(value, float) else json.dumps(value, default=str)


def shorten_and_redact_value(value: object) -> str:
    shown = SECRET.sub("://***", format_toml_value(value))
    return shown if len(shown) <= MAX_VALUE_CHARS else f"{shown[:MAX_VALUE_CHARS]}..."


def batch_system_of_cluster_section(cluster: Table) -> str:
    return str(cluster.get("kind", ClusterKind.GRIDENGINE))


def subtable_or_empty(tables: Table, name: str) -> Table:
    table = tables.get(name)
    return table if isinstance(table, dict) else {}


S = TypeVar("S", bound="DataclassInstance")
MAPS = "map"
NO_SECTION = "not a section; expected lines KEY = VALUE below"

_CONVERTER = Converter(forbid_extra_keys=True, detailed_validation=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnamedSection(Generic[S]):
    name: str
    kind: type[S]

    @property
    def field(self) -> str:
        """The field of Policy that the section fills; the field is named like the section."""
        return self.name

    @property
    def title(self) -> str:
        return f"[{self.name}]"

    def find_section_problems(self, content: object) -> Iterator[str]:
        return find_problems_within_section(self.name, content, self.kind)

    def read(self, content: Table) -> S:
        """Return the parsed section; missing keys get their defaults."""
        return parse_section(content, self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSections(Generic[S]):
    name: str
    field: str
    kind: type[S]
    form: ConfigTextFormat

    @property
    def title(self) -> str:
        return f"[{self.name}.NAME]"

    def find_section_problems(self, content: object) -> Iterator[str]:
        if not isinstance(content, dict):
            yield f"[{self.name}]: {NO_SECTION} {self.title}"
            return
        if keys := _find_keys_without_section_name(content, self.kind):
            written = ", ".join(map(format_toml_key, keys))
            yield f"[{self.name}] {written}: below a section without a name; expected below {self.title}"
        for name, table in content.items():
            if name in keys:
                continue
            title = f"{self.name}.{format_toml_key(name)}"
            if not self.form.holds(name):
                yield f"[{title}]: wrong name; expected {self.form.right}"
            yield from find_problems_within_section(title, table, self.kind, self.title)

    def read(self, content: Table) -> dict[str, S]:
        return {name: parse_section(table, self.kind) for name, table in content.items()}


class RequestMappingSections:
    name = MAPS
    field = "maps"
    title = f"[{MAPS}.CLUSTER.KIND.NAME]"

    def find_section_problems(self, content: object) -> Iterator[str]:
        """Report an error if `map` is not a section; `config.transfer` checks the mapping rules inside."""
        if not isinstance(content, dict):
            yield f"[{MAPS}]: {NO_SECTION} {self.title}"

    def read(self, content: Table) -> dict[str, dict[tuple[str, str], AnyRule]]:
        return {
            cluster: {
                (kind, name): parse_section(rule, KINDS[kind][0])
                for kind in subtable_or_empty(content, cluster)
                for name, rule in subtable_or_empty(subtable_or_empty(content, cluster), kind).items()
            }
            for cluster in content
        }


# sections of gridbridge.toml with the same title, which fill one field of Policy
SectionGroupOfOneName: TypeAlias = "UnnamedSection[Any] | NamedSections[Any] | RequestMappingSections"


class CapabilityConfigModule(Protocol):
    """A module of gridbridge.config with the sections of one capability."""

    GROUPS: tuple[SectionGroupOfOneName, ...]

    def find_config_problems(self, sections: Table) -> Iterator[str]:
        """Find contradictions between sections of gridbridge.toml."""


def find_misplaced_keys(sections: Table, groups: Iterable[SectionGroupOfOneName]) -> Iterator[str]:
    """Report each key in a wrong section, with the sections to which the key belongs."""
    judged = [group for group in groups if isinstance(group, UnnamedSection | NamedSections)]
    names = {group.title: {key.name for key in fields(group.kind)} for group in judged}
    for group in (group for group in judged if isinstance(group, UnnamedSection)):
        for key in sorted(subtable_or_empty(sections, group.name).keys() - names[group.title]):
            if homes := [title for title, keys in names.items() if key in keys]:
                others = " and ".join(homes)
                yield f"{group.title} {format_toml_key(key)}: this is a key of {others}"


def find_keys_above_sections(sections: Table, groups: Iterable[SectionGroupOfOneName]) -> Iterator[tuple[str, str]]:
    """Yield each key that stands above every section, such as `queue = 5`, with a message about it."""
    judged = [group for group in groups if isinstance(group, UnnamedSection | NamedSections)]
    for name, value in sections.items():
        homes = [group for group in judged if name in (key.name for key in fields(group.kind))]
        singles = [group.title for group in homes if isinstance(group, UnnamedSection)]
        is_of_tables = isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
        if isinstance(value, dict) or is_of_tables:
            continue
        if singles or name not in (group.name for group in judged):
            titles = singles or [group.title for group in homes]
            right = " or ".join(titles) if titles else "a section that has it"
            yield name, f"{format_toml_key(name)}: a key above every section; expected below {right}"


def drop_nameless_section_values(sections: Table, groups: Iterable[SectionGroupOfOneName]) -> Table:
    """Return the sections, without keys directly below a title that lacks a NAME, such as [queue]."""
    names = [group.name for group in groups if isinstance(group, NamedSections)]
    named = {
        name: {part: table for part, table in subtable_or_empty(sections, name).items() if isinstance(table, dict)}
        for name in names
        if subtable_or_empty(sections, name)
    }
    return {**sections, **named}


def find_problems_within_section(
    title: str, table: object, kind: "type[DataclassInstance]", written: str = ""
) -> Iterator[str]:
    """Find the mistakes within one section; `written` is the section's title as users write it."""
    if not isinstance(table, dict):
        yield f"[{title}]: {NO_SECTION} {written or f'[{title}]'}"
        return
    try:
        parse_section(table, kind)
    except ClassValidationError as group:
        yield from (f"[{title}] {problem}" for problem in _describe_section_parse_errors(group.exceptions, kind))


def parse_section(table: object, kind: type[S]) -> S:
    """Parse a section; ClassValidationError contains all mistakes."""
    _register_section_parser(kind)
    return _CONVERTER.structure(table, kind)


def _find_keys_without_section_name(content: Table, kind: "type[DataclassInstance]") -> list[str]:
    keys = {key.name for key in fields(kind)}
    return [name for name, part in content.items() if name in keys and not isinstance(part, dict)]


def _describe_section_parse_errors(errors: Sequence[Exception], kind: "type[DataclassInstance]") -> Iterator[str]:
    keys = {key.name: key for key in fields(kind)}
    forbidden = (fault for fault in errors if isinstance(fault, ForbiddenExtraKeysError))
    unknown = sorted(name for fault in forbidden for name in fault.extra_fields)
    meant = {name: get_close_matches(name, keys, 1) for name in unknown}
    for name, near in meant.items():
        hint = f"{near[0]} is the nearest" if near else f"the keys are {', '.join(keys)}"
        yield f"{format_toml_key(name)}: unknown key; {hint}"
    for error in (error for error in errors if not isinstance(error, ForbiddenExtraKeysError)):
        key = keys[next(note for note in error.__notes__ if isinstance(note, AttributeValidationNote)).name]
        if isinstance(error, ConfigKeyProblem):
            yield f"{key.name}{error}"
        elif [key.name] not in meant.values():
            yield f"{key.name}: missing; expected {describe_allowed_values(key)}"


@cache
def _register_section_parser(kind: "type[DataclassInstance]") -> None:
    hooks: Any = {key.name: override(struct_hook=_config_value_checker(key)) for key in fields(kind)}
    _CONVERTER.register_structure_hook(kind, make_dict_structure_fn(kind, _CONVERTER, **hooks))


def _config_value_checker(key: Field[object]) -> Callable[[object, object], object]:
    def checked_config_value(value: object, _: object) -> object:
        if isinstance(value, dict) and config_key_type(key) in TABLE_TYPES:
            _check_values_of_text_table(value, key)
        fault = _config_value_fault(value, key)
        if fault:
            raise ConfigKeyProblem(value, fault, describe_allowed_values(key))
        return config_key_type(key)(value)

    return checked_config_value


def _check_values_of_text_table(table: dict[str, object], key: Field[object]) -> None:
    """Refuse malformed texts, and a remote account of two users, which would hide a job's owner."""
    form, is_users = config_key_description(key).form, config_key_type(key) is AccountByUser
    named = form if is_users else OBJECT_NAME
    for name, value in table.items():
        if not (named.holds(name) and isinstance(value, str) and form.holds(value)):
            raise ConfigKeyProblem(value, "wrong form", form.right, f".{format_toml_key(name)}")
        if is_users and list(table.values()).count(value) > 1:
            raise ConfigKeyProblem(value, "the account of several people", form.right, f".{format_toml_key(name)}")


def _config_value_fault(value: object, key: Field[object]) -> str:
    kind, description = config_key_type(key), config_key_description(key)
    accepted = int | float if kind is float else str if issubclass(kind, str) else kind
    accepted = dict if kind in TABLE_TYPES else accepted
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        return "wrong type"
    if issubclass(kind, StrEnum):
        return "" if value in tuple(kind) else "unknown word"
    if isinstance(value, str):
        return "" if description.form.holds(value) else "wrong form"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return "" if description.low <= value <= description.high else "out of range"
