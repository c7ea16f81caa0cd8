"""How sections of gridbridge.toml become classes of the model, are judged and are written.

A capability lists its groups of sections; each fills one field of model.policy.Policy.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from cattrs import AttributeValidationNote, ClassValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, override

from gridbridge.config.mistakes import (
    TABLES,
    KeyMistake,
    Table,
    default,
    key_name,
    kind_of,
    right,
    table_of,
    toml,
)
from gridbridge.model.settings import OBJECT_NAME, TextFormat, Users, setting_of_field

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")
NO_SECTION = "not a section; its keys stand below"

_CONVERTER = Converter(forbid_extra_keys=True, detailed_validation=True)


class SectionGroup(Protocol):
    """All sections of one name, and the field of Policy that they fill."""

    @property
    def name(self) -> str:
        """Its name in the file."""
        ...

    @property
    def field(self) -> str:
        """The field of Policy."""
        ...

    @property
    def title(self) -> str:
        """How its sections are written."""
        ...

    def problems(self, content: object) -> Iterator[str]:
        """Find what is wrong with each section by itself."""
        ...

    def read(self, content: Table) -> object:
        """Return the field's value; the sections are right."""
        ...

    def text(self, value: Any) -> Iterator[str]:
        """Write the sections."""
        ...


class Capability(Protocol):
    """What brings sections: a module of this package, named in its registry."""

    GROUPS: tuple[SectionGroup, ...]

    def problems(self, sections: Table) -> Iterator[str]:
        """Find mistakes that no section shows by itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleSection(Generic[S]):
    """A section that is there once, or left out."""

    name: str
    kind: type[S]

    @property
    def field(self) -> str:
        """The field is called as the section is."""
        return self.name

    @property
    def title(self) -> str:
        """As [poller]."""
        return f"[{self.name}]"

    def problems(self, content: object) -> Iterator[str]:
        """Find what is wrong with it."""
        return problems_of(self.name, content, self.kind)

    def read(self, content: Table) -> S:
        """Return it with its defaults."""
        return structured(content, self.kind)

    def text(self, value: S) -> Iterator[str]:
        """Write it."""
        yield text_of(self.name, value, usual(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSections(Generic[S]):
    """Sections that have a name each."""

    name: str
    field: str
    kind: type[S]
    form: TextFormat  # of the names
    filled: Callable[[S, str], S] = lambda section, _: section  # with what the name gives it

    @property
    def title(self) -> str:
        """As [queue.NAME]."""
        return f"[{self.name}.NAME]"

    def problems(self, content: object) -> Iterator[str]:
        """Find what is wrong with each and with its name."""
        if not isinstance(content, dict):
            yield f"[{self.name}]: {NO_SECTION} {self.title}"
            return
        if keys := _nameless(content, self.kind):
            written = ", ".join(map(key_name, keys))
            yield f"[{self.name}] {written}: below a section without a name; {self.title}"
        for name, table in content.items():
            if name in keys:
                continue
            title = f"{self.name}.{key_name(name)}"
            if not self.form.holds(name):
                yield f"[{title}]: wrong name; {self.form.right}"
            yield from problems_of(title, table, self.kind, self.title)

    def read(self, content: Table) -> dict[str, S]:
        """Return them by their names."""
        return {name: structured(table, self.kind) for name, table in content.items()}

    def text(self, value: Mapping[str, S]) -> Iterator[str]:
        """Write them in their order."""
        for name, section in value.items():
            as_usual = self.filled(usual(section), name)
            yield text_of(f"{self.name}.{key_name(name)}", section, as_usual)


def misplaced(sections: Table, groups: Iterable[SectionGroup]) -> Iterator[str]:
    """Say of keys that a section does not have which other sections have them."""
    judged = [group for group in groups if isinstance(group, SingleSection | NamedSections)]
    names = {group.title: {key.name for key in fields(group.kind)} for group in judged}
    for group in (group for group in judged if isinstance(group, SingleSection)):
        for key in sorted(table_of(sections, group.name).keys() - names[group.title]):
            if homes := [title for title, keys in names.items() if key in keys]:
                yield f"{group.title} {key_name(key)}: this is a key of {' and '.join(homes)}"


def above_all(sections: Table, groups: Iterable[SectionGroup]) -> Iterator[tuple[str, str]]:
    """Give the keys that stand above every section, and what is wrong with each.

    The name of sections (`queue = 5`) is such a key where a section that has no name has it.
    """
    judged = [group for group in groups if isinstance(group, SingleSection | NamedSections)]
    for name, value in sections.items():
        homes = [group for group in judged if name in (key.name for key in fields(group.kind))]
        singles = [group.title for group in homes if isinstance(group, SingleSection)]
        if isinstance(value, dict) or _is_of_tables(value):
            continue
        if singles or name not in (group.name for group in judged):
            titles = singles or [group.title for group in homes]
            right = " or ".join(titles) if titles else "a section that has it"
            yield name, f"{key_name(name)}: a key above every section; below {right}"


def named_alone(sections: Table, groups: Iterable[SectionGroup]) -> Table:
    """Return the sections without what stands where a section's name is missing."""
    nested = {
        group.name: table_of(sections, group.name)
        for group in groups
        if isinstance(group, NamedSections)
    }
    named = {
        name: {part: table for part, table in tables.items() if isinstance(table, dict)}
        for name, tables in nested.items()
        if tables
    }
    return {**sections, **named}


def problems_of(
    title: str, table: object, kind: "type[DataclassInstance]", written: str = ""
) -> Iterator[str]:
    """Find what is wrong with one section by itself; `written` is how people write its title."""
    if not isinstance(table, dict):
        yield f"[{title}]: {NO_SECTION} {written or f'[{title}]'}"
        return
    try:
        structured(table, kind)
    except ClassValidationError as group:
        yield from (f"[{title}] {problem}" for problem in _all_problems(group.exceptions, kind))


def structured(table: object, kind: type[S]) -> S:
    """Return a section; ClassValidationError tells all that is wrong with it."""
    _register(kind)
    return _CONVERTER.structure(table, kind)


def usual(section: S) -> S:
    """Return a section with every default that there is."""
    defaults = {key.name: key.default for key in fields(section) if key.default is not MISSING}
    defaults |= {
        key.name: key.default_factory()
        for key in fields(section)
        if key.default_factory is not MISSING
    }
    return replace(section, **defaults)


def text_of(title: str, section: S, as_usual: S) -> str:
    """Write a section: every key, with default values as comments."""
    lines = [f"[{title}]"]
    for key in fields(section):
        value = getattr(section, key.name)
        is_required = key.default is MISSING and key.default_factory is MISSING
        is_default = not is_required and value == getattr(as_usual, key.name)
        lines.append(f"\n# {setting_of_field(key).meaning}\n# {right(key)}; {default(key)}")
        lines.append(f"{'#' if is_default else ''}{key.name} = {toml(value)}")
    return "\n".join(lines) + "\n"


def _nameless(content: Table, kind: "type[DataclassInstance]") -> list[str]:
    """Return the section's own keys that stand where its name belongs."""
    keys = {key.name for key in fields(kind)}
    return [name for name, part in content.items() if name in keys and not isinstance(part, dict)]


def _is_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _all_problems(errors: Sequence[Exception], kind: "type[DataclassInstance]") -> Iterator[str]:
    """Tell unknown keys first; a key to which one of them is nearest is not missing as well."""
    keys = {key.name: key for key in fields(kind)}
    forbidden = (fault for fault in errors if isinstance(fault, ForbiddenExtraKeysError))
    unknown = sorted(name for fault in forbidden for name in fault.extra_fields)
    meant = {name: get_close_matches(name, keys, 1) for name in unknown}
    for name, near in meant.items():
        hint = f"{near[0]} is the nearest" if near else f"the keys are {', '.join(keys)}"
        yield f"{key_name(name)}: unknown key; {hint}"
    for error in errors:
        if not isinstance(error, ForbiddenExtraKeysError):
            yield from _problem_text(
                error, keys[_key_of(error)], [_key_of(error)] in meant.values()
            )


def _key_of(error: Exception) -> str:
    notes = (note for note in error.__notes__ if isinstance(note, AttributeValidationNote))
    return next(notes).name


def _problem_text(error: Exception, key: Field[object], is_meant: bool) -> Iterator[str]:
    if isinstance(error, KeyMistake):
        yield f"{key.name}{error}"
    elif not is_meant:
        yield f"{key.name}: missing; {right(key)}"


@cache
def _register(kind: "type[DataclassInstance]") -> None:
    hooks: Any = {key.name: override(struct_hook=_hook(key)) for key in fields(kind)}
    _CONVERTER.register_structure_hook(kind, make_dict_structure_fn(kind, _CONVERTER, **hooks))


def _hook(key: Field[object]) -> Callable[[object, object], object]:
    def checked(value: object, _: object) -> object:
        if isinstance(value, dict) and kind_of(key) in TABLES:
            _check_table(value, key)
        fault = _fault(value, key)
        if fault:
            raise KeyMistake(value, fault, right(key))
        return kind_of(key)(value)

    return checked


def _check_table(table: dict[str, object], key: Field[object]) -> None:
    """Refuse a wrong form, or one account for two people: a job's owner would not be known."""
    form, is_users = setting_of_field(key).form, kind_of(key) is Users
    named = form if is_users else OBJECT_NAME
    for name, value in table.items():
        if not (named.holds(name) and isinstance(value, str) and form.holds(value)):
            raise KeyMistake(value, "wrong form", form.right, f".{key_name(name)}")
        if is_users and list(table.values()).count(value) > 1:
            raise KeyMistake(value, "the account of two people", form.right, f".{key_name(name)}")


def _fault(value: object, key: Field[object]) -> str:
    """Return what is wrong with a value, nothing when it's right."""
    kind, description = kind_of(key), setting_of_field(key)
    accepted = int | float if kind is float else str if issubclass(kind, str) else kind
    accepted = dict if kind in TABLES else accepted
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        return "wrong type"
    if issubclass(kind, StrEnum):
        return "" if value in tuple(kind) else "unknown word"
    if isinstance(value, str):
        return "" if description.form.holds(value) else "wrong form"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return "" if description.low <= value <= description.high else "out of range"
