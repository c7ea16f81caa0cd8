"""Lists every key of gridbridge.toml with its value in force, its default and its meaning."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any

from gridbridge.config import configuration_file, section_parsing
from gridbridge.config.section_parsing import NamedSections, UnnamedSection, format_toml_key
from gridbridge.model.config_key_descriptions import config_key_description
from gridbridge.model.site_configuration import ClusterSection, Policy
from gridbridge.model.transfer.transfer_config_sections import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKeyListing:
    section: str  # title without brackets, such as `cluster.beta`, or `cluster.NAME` if the site has no such section
    key: str
    value: object  # None: the section does not exist
    default: object  # None: the key is required
    unit: str
    allowed: str
    meaning: str

    @property
    def is_default(self) -> bool:
        return self.value is None or self.value == self.default


def list_config_keys(policy: Policy) -> Iterator[ConfigKeyListing]:
    """Yield every key, in the order of conf/gridbridge.toml; a missing section is listed once, with its NAME."""
    for group in configuration_file.GROUPS.values():
        content = getattr(policy, group.field)
        if isinstance(group, UnnamedSection):
            yield from _keys_of_section(group.name, content)
        elif isinstance(group, NamedSections):
            for name, section in content.items():
                yield from _keys_of_section(f"{group.name}.{format_toml_key(name)}", section, name)
            if not content:
                yield from _keys_of_missing_section(group.title.strip("[]"), group.kind)
        else:
            yield from _keys_of_mapping_rules(content)


def _keys_of_mapping_rules(rules_by_cluster: Mapping[str, Mapping[tuple[str, str], Any]]) -> Iterator[ConfigKeyListing]:
    titles_by_rule = {
        f"{section_parsing.MAPS}.{format_toml_key(cluster)}.{kind}.{format_toml_key(name)}": rule
        for cluster, rules in rules_by_cluster.items()
        for (kind, name), rule in rules.items()
    }
    for title, rule in titles_by_rule.items():
        yield from _keys_of_section(title, rule)
    if not titles_by_rule:
        for kind, (rule_class, _) in KINDS.items():
            yield from _keys_of_missing_section(f"{section_parsing.MAPS}.CLUSTER.{kind}.NAME", rule_class)


def default_values_of_section(section: Any, name: str = "") -> dict[str, object]:
    """Return the defaults of a section's keys without the required keys; `name` is the NAME of [cluster.NAME]."""
    usual = {key.name: default for key in fields(section) if (default := _default_of_key(key)) is not None}
    if isinstance(section, ClusterSection):  # some defaults depend on the cluster's name and kind
        inherited = replace(section, cell="", binaries="").with_defaults(name)
        return usual | {"cell": inherited.cell, "binaries": inherited.binaries}
    return usual


def _keys_of_section(title: str, section: Any, name: str = "") -> Iterator[ConfigKeyListing]:
    defaults = default_values_of_section(section, name)
    for key in fields(section):
        yield _listing_of_key(title, key, getattr(section, key.name), defaults.get(key.name))


def _keys_of_missing_section(title: str, section_class: Any) -> Iterator[ConfigKeyListing]:
    return (_listing_of_key(title, key, None, _default_of_key(key)) for key in fields(section_class))


def _listing_of_key(title: str, key: Field[Any], value: object, default: object) -> ConfigKeyListing:
    description = config_key_description(key)
    return ConfigKeyListing(
        section=title,
        key=key.name,
        value=value,
        default=default,
        unit=description.unit,
        allowed=section_parsing.describe_allowed_values(key),
        meaning=description.meaning,
    )


def _default_of_key(key: Field[Any]) -> object:
    if key.default_factory is not MISSING:
        return key.default_factory()
    return None if key.default is MISSING else key.default
