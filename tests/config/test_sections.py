"""A capability adds sections to gridbridge.toml by one module and one line in the registry."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

import pytest

from gridbridge.config import configuration_file
from gridbridge.config.section_parsing import SectionGroupOfOneName, Table, UnnamedSection, subtable_or_empty
from gridbridge.model import site_configuration
from gridbridge.model.config_key_descriptions import setting
from gridbridge.model.site import site_section as site_sections
from gridbridge.model.site_configuration import Policy
from gridbridge.model.transfer import transfer_config_sections
from tests.config.policy_text import format_section
from tests.config.refusals import HOME, problems_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Squeeze:
    """The section of an invented capability."""

    margin: int = setting(2, "hosts that stay free", "hosts", 0, 10)


class Squeezing:
    GROUPS: tuple[SectionGroupOfOneName, ...] = (UnnamedSection(name="squeeze", kind=Squeeze),)

    def find_config_problems(self, sections: Table) -> Iterator[str]:
        if subtable_or_empty(sections, "squeeze").get("margin") == 7:
            yield "[squeeze] margin = 7: unlucky; another number"


def test_every_field_of_the_policy_is_filled_by_one_group() -> None:
    filled = [group.field for group in configuration_file.GROUPS.values()]

    assert sorted(filled) == sorted(key.name for key in fields(Policy))


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, []),
        ({"margin": 3}, []),
        ({"margin": 11}, ["[squeeze] margin = 11: out of range; expected a whole number, 0 to 10 hosts"]),
        ({"margins": 1}, ["[squeeze] margins: unknown key; margin is the nearest"]),
        (5, ["[squeeze]: not a section; expected keys below [squeeze]"]),
    ],
)
def test_a_section_group_reports_problems_of_its_section(table: object, expected: list[str]) -> None:
    (group,) = Squeezing.GROUPS

    assert expected == list(group.find_section_problems(table))


@pytest.mark.parametrize("module", [site_configuration, site_sections, transfer_config_sections])
def test_every_configuration_key_is_declared_in_one_line(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    keys = [
        key
        for section in tree.body
        if isinstance(section, ast.ClassDef)
        for key in section.body
        if isinstance(key, ast.AnnAssign)
    ]

    assert keys
    assert [ast.unparse(key.target) for key in keys if key.lineno != key.end_lineno] == []


def test_a_section_is_read_and_formatted() -> None:
    (group,) = Squeezing.GROUPS

    assert group.read({"margin": 3}) == Squeeze(margin=3)
    assert format_section("squeeze", Squeeze()) == (
        "[squeeze]\n\n# hosts that stay free\n# a whole number, 0 to 10 hosts; default 2\n#margin = 2\n"
    )


def test_a_registered_capability_checks_its_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration_file, "CAPABILITIES", (*configuration_file.CAPABILITIES, Squeezing()))

    assert "[squeeze] margin = 7: unlucky; another number" in problems_of(f"{HOME}[squeeze]\nmargin = 7\n")
