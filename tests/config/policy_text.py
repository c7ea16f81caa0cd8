"""Writes a policy as the text of gridbridge.toml, with default values as comments."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from gridbridge.config import configuration_file
from gridbridge.config.config_key_listing import default_values_of_section
from gridbridge.config.section_parsing import (
    NamedSections,
    UnnamedSection,
    describe_allowed_values,
    describe_key_default,
    format_toml_key,
    format_toml_value,
)
from gridbridge.model.config_key_descriptions import config_key_description
from gridbridge.model.site_configuration import Policy

HEADER = """\
# gridbridge.toml: every key with its meaning, allowed values and default.
# A key behind # has its default. See gridbridge.toml(5).
"""


def format_policy(policy: Policy) -> str:
    return "\n".join((HEADER, *_parts(policy)))


def _parts(policy: Policy) -> Iterator[str]:
    for group in configuration_file.GROUPS.values():
        value = getattr(policy, group.field)
        if isinstance(group, UnnamedSection):
            yield format_section(group.name, value)
        elif isinstance(group, NamedSections):
            for name, section in value.items():
                yield format_section(f"{group.name}.{format_toml_key(name)}", section, name)
        else:
            for cluster, rules in value.items():
                for (kind, name), rule in rules.items():
                    title = f"{group.name}.{format_toml_key(cluster)}.{kind}.{format_toml_key(name)}"
                    yield format_section(title, rule)


def format_section(title: str, section: Any, name: str = "") -> str:
    """Return a section with each of its keys; keys with default values are comments."""
    usual = default_values_of_section(section, name)
    lines = [f"[{title}]"]
    for key in fields(section):
        value = getattr(section, key.name)
        is_default = key.name in usual and value == usual[key.name]
        lines.append(f"\n# {config_key_description(key).meaning}")
        lines.append(f"# {describe_allowed_values(key)}; {describe_key_default(key)}")
        lines.append(f"{'#' if is_default else ''}{key.name} = {format_toml_value(value)}")
    return "\n".join(lines) + "\n"
