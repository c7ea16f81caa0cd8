"""Reads JSON documents that people may write; a report names each wrong value, its key, and what values are right."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from types import GenericAlias, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

from cattrs import AttributeValidationNote, BaseValidationError, Converter, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_mapping_structure_fn, override

from gridbridge.errors import ParseError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST_MISTAKES = 20  # largest number of mistakes in a message
COLLECTIONS: tuple[Any, ...] = (tuple, frozenset, Mapping)

Value = TypeVar("Value")
Hook = Callable[[object, object], Any]  # makes a value of JSON content; the second argument is the value's type


def read_json_file(path: str, data: bytes) -> Any:
    """Return the content of a JSON file; raise ParseError for other data."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"{path}: no JSON: {error}") from error


def mistake_lines(path: str, mistakes: list[str]) -> tuple[str, ...]:
    """Return a line for each of the first mistakes in a file, and the number of further mistakes."""
    lines = [f"{path}: {mistake}" for mistake in mistakes[:MOST_MISTAKES]]
    more = len(mistakes) - MOST_MISTAKES
    return (*lines, f"{path}: {more} more faults") if more > 0 else tuple(lines)


class WrongJsonValue(Exception):
    def __init__(self, content: object, right: str) -> None:
        super().__init__(f"{'missing' if content is MISSING else json.dumps(content)[:60]}; expected {right}")


def json_value_hook(
    accepted: type | UnionType, right: str, parse: Callable[[Any], object] = lambda value: value
) -> Hook:
    """Return a hook that raises WrongJsonValue if a value has another JSON type, or if `parse` raises ValueError."""

    def structure_value(content: object, _: object) -> object:
        is_accepted = isinstance(content, accepted) and isinstance(content, bool) == (accepted is bool)
        try:
            return parse(_require_json_value(content, right, is_accepted=is_accepted))
        except ValueError as error:
            raise WrongJsonValue(content, right) from error

    return structure_value


class JsonDocumentReader:
    """Makes dataclasses of JSON tables; null counts as a missing key, and an unknown key is a mistake."""

    def __init__(self, values: Mapping[type, Hook]) -> None:
        self._converter = Converter(forbid_extra_keys=True)
        self._keys: dict[type, dict[str, str]] = {}  # for each class: the key of each field
        for kind, hook in values.items():
            self._converter.register_structure_hook(kind, hook)
        self._converter.register_structure_hook_factory(
            lambda kind: get_origin(kind) in COLLECTIONS, self._hook_of_collection
        )

    def add_table(self, kind: "type[DataclassInstance]", /, **overrides: Any) -> None:
        """Add a class whose tables have a key for each field in `overrides` (cattrs.override), and no other keys."""
        others: Any = {field.name: override(omit=True) for field in fields(kind) if field.name not in overrides}
        structure = make_dict_structure_fn(kind, self._converter, **others, **overrides)
        keys = self._keys[kind] = {name: changed.rename or name for name, changed in overrides.items()}
        optional = {field.name for field in fields(kind) if (field.default, field.default_factory) != (MISSING,) * 2}
        required = {key: MISSING for name, key in keys.items() if name not in optional}

        def structure_table(content: object, _: object) -> object:
            table = _require_json_value(
                content, f"a table with {', '.join(keys.values())}", is_accepted=isinstance(content, dict)
            )
            return structure(required | {key: value for key, value in table.items() if value is not None}, kind)

        self._converter.register_structure_hook(kind, structure_table)

    def read(self, content: object, kind: type[Value]) -> tuple[Value | None, list[str]]:
        """Return the value that JSON content describes, or None and the mistakes."""
        try:
            return self._converter.structure(content, kind), []
        except (BaseValidationError, WrongJsonValue) as error:
            return None, [problem.removeprefix(".") for problem in self._describe_mistakes(error, "")]

    def structure_entries(self, content: object, kind: Any) -> dict[str, Any]:
        """Return the values of a JSON table whose keys are names."""
        table: Any = GenericAlias(Mapping, (str, kind))
        entries: dict[str, Any] = self._converter.structure(content, table)
        return entries

    def _hook_of_collection(self, kind: Any) -> Hook:
        collection, element = get_origin(kind), next(of for of in reversed(get_args(kind)) if of is not ...)
        table: Any = GenericAlias(dict, (Any, element))
        structure: Callable[..., Any] = make_mapping_structure_fn(table, self._converter)
        noun, keeps_null = "names" if element is str else "tables", element is Any or element in self._keys

        def structure_collection(content: object, _: object) -> object:
            if collection is Mapping:
                rows = _require_json_value(content, "a table", is_accepted=isinstance(content, dict))
                return structure({key: row for key, row in rows.items() if row is not None or keeps_null}, kind)
            rows = _require_json_value(content, f"a list of {noun}", is_accepted=isinstance(content, list))
            return collection(structure(dict(enumerate(rows)), kind).values())

        return structure_collection

    def _describe_mistakes(self, error: Exception, at: str) -> Iterator[str]:
        if not isinstance(error, BaseValidationError):
            yield f"{at or 'the file'}: {error}"
            return
        keys = self._keys.get(error.cl, {})
        for inner in sorted(error.exceptions, key=lambda inner: not isinstance(inner, ForbiddenExtraKeysError)):
            if isinstance(inner, ForbiddenExtraKeysError):
                right = f"one of {', '.join(keys.values())}"
                yield from (f"{at}.{key}: unknown; expected {right}" for key in sorted(inner.extra_fields))
                continue
            note: Any = inner.__notes__[-1]
            if isinstance(note, AttributeValidationNote):
                yield from self._describe_mistakes(inner, f"{at}.{keys[note.name]}")
            else:
                yield from self._describe_mistakes(
                    inner, at + (f"[{note.index}]" if isinstance(note.index, int) else f".{note.index}")
                )


def _require_json_value(content: Any, right: str, *, is_accepted: bool) -> Any:
    if not is_accepted:
        raise WrongJsonValue(content, right)
    return content
