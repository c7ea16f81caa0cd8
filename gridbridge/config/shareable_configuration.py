"""Renders gridbridge.toml for a reader outside the site: no comments, no free texts, no accounts, no passwords."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import StrEnum

from gridbridge.config.configuration_file import GROUPS
from gridbridge.config.section_parsing import (
    NamedSections,
    Table,
    UnnamedSection,
    config_key_type,
    format_toml_key,
    format_toml_value,
    subtable_or_empty,
)
from gridbridge.model import config_key_descriptions as descriptions
from gridbridge.model.transfer.transfer_config_sections import KINDS

HIDDEN = "***"
NO_TOML = "# not a TOML file: the report names the fault, and repeats no line"
SHOWN_FORMS = (
    descriptions.ABSOLUTE_PATH,
    descriptions.ACCOUNT,
    descriptions.API_ADDRESS,
    descriptions.CLUSTER_NAME,
    descriptions.OBJECT_NAME,
    descriptions.OAR_QUEUE,
    descriptions.OAR_TYPES,
    descriptions.PATH_OR_NONE,
    descriptions.PROGRAM_OR_NONE,
    descriptions.SSH_PLACE,
    descriptions.STATE_URL,
)
_PATH = re.compile('"[a-z]*:?/[^"]*"')
_OF_URL = re.compile(r"(?<=://)[^/@]*@|\?.*")  # account, password and options


def render_shareable_configuration(raw: bytes) -> str:
    """Return the file's sections and keys; values stay that can't be a secret, others and unknown names become ***."""
    try:
        sections = tomllib.loads(raw.decode())
    except (ValueError, RecursionError):
        return f"{NO_TOML}\n"
    return "".join(f"{line}\n" for line in _lines_of_sections(sections))


def names_in_configuration(raw: bytes) -> frozenset[str]:
    """Return the names of clusters, queues and hosts in a file, and other words of the rendered file but paths."""
    shown = _PATH.sub("", render_shareable_configuration(raw))
    return frozenset(re.findall(r"[A-Za-z0-9][A-Za-z0-9_+-]*", shown)) | frozenset(re.findall(r'"([^" ]+)"', shown))


def accounts_in_configuration(raw: bytes) -> frozenset[str]:
    """Return the accounts in the tables `users` of clusters."""
    try:
        clusters = subtable_or_empty(tomllib.loads(raw.decode()), "cluster")
    except (ValueError, RecursionError):
        return frozenset()
    tables = (subtable_or_empty(subtable_or_empty(clusters, name), "users") for name in clusters)
    return frozenset(str(account) for table in tables for pair in table.items() for account in pair)


def _lines_of_sections(sections: Table) -> Iterator[str]:
    for name, group in GROUPS.items():
        table = subtable_or_empty(sections, name)
        if isinstance(group, UnnamedSection):
            yield from _lines_of_section(name, table, group.kind) if table else ()
        elif isinstance(group, NamedSections):
            for part in table:
                title = f"{name}.{format_toml_key(part)}" if group.form.holds(part) else f"{name}.{HIDDEN}"
                yield from _lines_of_section(title, subtable_or_empty(table, part), group.kind)
        else:
            yield from _lines_of_mapping_rules(name, table)
    unknown = sections.keys() - GROUPS.keys()
    yield from (f"# unknown sections or keys: {len(unknown)}",) if unknown else ()


def _lines_of_mapping_rules(title: str, clusters: Table) -> Iterator[str]:
    for cluster in filter(descriptions.CLUSTER_NAME.holds, clusters):
        for kind, (section, form) in KINDS.items():
            rules = subtable_or_empty(subtable_or_empty(clusters, cluster), kind)
            for name in rules:
                shown = format_toml_key(name) if form.holds(name) and kind != "project" else HIDDEN
                yield from _lines_of_section(
                    f"{title}.{cluster}.{kind}.{shown}", subtable_or_empty(rules, name), section
                )


def _lines_of_section(title: str, table: Table, kind: type) -> Iterator[str]:
    keys = {key.name: key for key in fields(kind)}
    yield f"\n[{title}]"
    for name, value in table.items():
        if name not in keys:
            yield f"# unknown key: {HIDDEN}"
        elif isinstance(value, Mapping):
            yield f"# {name}: a table of {len(value)}"
        else:
            shown = _shareable_value(
                value, config_key_type(keys[name]), descriptions.config_key_description(keys[name])
            )
            yield f"{name} = {shown}"


def _shareable_value(value: object, kind: type, description: descriptions.ConfigKeyDescription) -> str:
    if isinstance(value, bool | int | float):
        return format_toml_value(value)
    if not isinstance(value, str):
        return HIDDEN
    if issubclass(kind, StrEnum):
        return format_toml_value(value) if value in tuple(kind) else HIDDEN
    is_shown = not value or (description.form in SHOWN_FORMS and bool(description.form.holds(value)))
    return format_toml_value(_OF_URL.sub("", value)) if is_shown else HIDDEN
