"""The words in which a configuration and its mistakes are told."""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field
from enum import StrEnum
from typing import TypeAlias

from gridbridge.model.cluster import ClusterKind
from gridbridge.model.settings import QueueDefaults, Users, setting_of_field

Table: TypeAlias = Mapping[str, object]

TABLES = (Users, QueueDefaults)  # of texts, within a section
MAX_SHOWN = 80  # characters of a wrong value
BARE_KEY = re.compile("[A-Za-z0-9_-]+")
SECRET = re.compile('://[^"]*(@|password=)[^"]*')


class KeyMistake(ValueError):
    """A value that its key can't have."""

    def __init__(self, value: object, wrong: str, right: str, part: str = "") -> None:
        super().__init__(f"{part} = {shown(value)}: {wrong}; {right}")


def right(key: Field[object]) -> str:
    """Say in a few words what may stand behind a key."""
    kind, description = kind_of(key), setting_of_field(key)
    if issubclass(kind, StrEnum):
        return " or ".join(shown(word) for word in kind)
    if kind in (str, *TABLES):
        return description.form.right
    if kind is bool:
        return "true or false"
    noun = "a whole number" if kind is int else "a number"
    return f"{noun}, {description.low} to {description.high} {description.unit}".rstrip()


def default(key: Field[object]) -> str:
    """Say what holds when the key isn't there."""
    if key.default_factory is not MISSING:
        return f"default {shown(key.default_factory())}"
    if key.default is MISSING:
        return "required"
    return f"default {setting_of_field(key).inherits or shown(key.default)}"


def kind_of(key: Field[object]) -> type:
    """Return the type of a key's values."""
    assert isinstance(key.type, type)
    return key.type


def key_name(name: str) -> str:
    """Write a key as TOML does."""
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def toml(value: object) -> str:
    """Write a value as TOML does."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{key_name(name)} = {toml(part)}" for name, part in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return str(value) if isinstance(value, float) else json.dumps(value, default=str)


def shown(value: object) -> str:
    """Show a value in a message, shortened, without a secret."""
    shown = SECRET.sub("://***", toml(value))
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]}..."


def kind_name(cluster: Table) -> str:
    """Return which batch system runs a cluster."""
    return str(cluster.get("kind", ClusterKind.GRIDENGINE))


def table_of(tables: Table, name: str) -> Table:
    """Return a section, empty when there is none."""
    table = tables.get(name)
    return table if isinstance(table, dict) else {}
