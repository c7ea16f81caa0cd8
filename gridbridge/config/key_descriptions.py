"""Describes the keys of gridbridge.toml, their values and their faults for messages."""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field
from enum import StrEnum
from typing import TypeAlias

from gridbridge.model.cluster import ClusterKind
from gridbridge.model.key_settings import QueueDefaultRequests, RemoteAccountNames, config_key_description

Table: TypeAlias = Mapping[str, object]

TABLE_TYPES = (RemoteAccountNames, QueueDefaultRequests)  # types of tables of texts within a section
MAX_VALUE_CHARS = 80  # most characters of a wrong value in a message
BARE_KEY = re.compile("[A-Za-z0-9_-]+")
SECRET = re.compile('://[^"]*(@|password=)[^"]*')


class ConfigKeyProblem(ValueError):
    """A value that a key of gridbridge.toml does not allow."""

    def __init__(self, value: object, wrong: str, right: str, part: str = "") -> None:
        super().__init__(f"{part} = {shorten_and_redact_value(value)}: {wrong}; {right}")


def describe_allowed_values(key: Field[object]) -> str:
    """Describe the values that a gridbridge.toml key allows."""
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
    """Describe a key's default value, or say that the key is required."""
    if key.default_factory is not MISSING:
        return f"default {shorten_and_redact_value(key.default_factory())}"
    if key.default is MISSING:
        return "required"
    return f"default {config_key_description(key).inherits or shorten_and_redact_value(key.default)}"


def config_key_type(key: Field[object]) -> type:
    """Return the type of the values of a gridbridge.toml key."""
    assert isinstance(key.type, type)
    return key.type


def format_toml_key(name: str) -> str:
    """Format a key as TOML."""
    return name if BARE_KEY.fullmatch(name) else json.dumps(name)


def format_toml_value(value: object) -> str:
    """Format a value as TOML."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{format_toml_key(name)} = {format_toml_value(part)}" for name, part in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    return str(value) if isinstance(value, float) else json.dumps(value, default=str)


def shorten_and_redact_value(value: object) -> str:
    """Format a value for a message: shortened, and without secrets."""
    shown = SECRET.sub("://***", format_toml_value(value))
    return shown if len(shown) <= MAX_VALUE_CHARS else f"{shown[:MAX_VALUE_CHARS]}..."


def batch_system_of_cluster_section(cluster: Table) -> str:
    """Return the kind of a cluster's batch system, as its section says."""
    return str(cluster.get("kind", ClusterKind.GRIDENGINE))


def subtable_or_empty(tables: Table, name: str) -> Table:
    """Return a table within a table, empty when it is missing."""
    table = tables.get(name)
    return table if isinstance(table, dict) else {}
