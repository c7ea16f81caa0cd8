"""Writes a section's keys of gridbridge.toml from the code: `{keys} cluster.NAME` in a page."""

from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from gridbridge.config import section_parsing
from gridbridge.config.configuration_file import GROUPS
from gridbridge.config.section_parsing import NamedSections, UnnamedSection
from gridbridge.model.config_key_descriptions import config_key_description
from gridbridge.model.transfer.transfer_config_sections import KINDS


def sections() -> dict[str, type[Any]]:
    """Return the class of every section by its title without brackets."""
    plain = {
        group.title.strip("[]"): group.kind
        for group in GROUPS.values()
        if isinstance(group, UnnamedSection | NamedSections)
    }
    return plain | {f"map.CLUSTER.{kind}.NAME": rule for kind, (rule, _) in KINDS.items()}


class Keys(Directive):
    """A list of a section's keys: meaning, allowed values, default."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        section = sections()[self.arguments[0]]
        items = map(_item, fields(section))
        return [nodes.definition_list("", *items, classes=["keys"])]


def _item(key: Field[Any]) -> nodes.definition_list_item:
    term = nodes.term("", "", nodes.literal("", key.name))
    text = nodes.paragraph("", "", *_described(key))
    return nodes.definition_list_item("", term, nodes.definition("", text))


def _described(key: Field[Any]) -> Iterator[nodes.Node]:
    yield nodes.Text(f"{config_key_description(key).meaning}. ")
    yield nodes.emphasis("", section_parsing.describe_allowed_values(key))
    default = section_parsing.describe_key_default(key)
    if default.startswith("default ") and not config_key_description(key).inherits:
        yield nodes.Text("; default ")
        yield nodes.literal("", default.removeprefix("default "))
    else:
        yield nodes.Text(f"; {default}")


def setup(app: Sphinx) -> None:
    """Have Sphinx know the directive."""
    app.add_directive("keys", Keys)
