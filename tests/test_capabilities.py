"""All places that know every capability know the same ones: CONTRIBUTING names these places."""

import ast
import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from gridbridge.config.capabilities import CAPABILITIES
from gridbridge.services.capabilities import JOURNALLED

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gridbridge"
LAYERS = ("model", "decisions", "apply", "services")
SHARED = {"tools", "watch", "work"}  # folders of services that are no capability's


def folders(layer: str) -> set[str]:
    """Return the capabilities of a layer, by its folders."""
    found = {path.parent.name for path in (PACKAGE / layer).glob("*/__init__.py")}
    return found - SHARED


KNOWN = folders("model")


def contract(name: str) -> list[str]:
    """Return the layers of an import contract."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup[f"importlinter:contract:{name}"]["layers"].split("\n")


def page(name: str) -> str:
    """Return a page of the docs."""
    return (ROOT / name).read_text()


@pytest.mark.parametrize("layer", LAYERS)
def test_a_capability_is_called_alike_in_every_layer(layer: str) -> None:
    assert folders(layer) == KNOWN


def test_each_capability_has_a_module_of_config_in_the_table() -> None:
    assert {one.__name__.rpartition(".")[2] for one in CAPABILITIES} == KNOWN  # type: ignore[attr-defined]  # they are modules


@pytest.mark.parametrize("name", ["capabilities", "services"])
def test_the_import_contracts_name_each_capability(name: str) -> None:
    named = {one for line in contract(name) for one in line.split(" | ")}

    assert named >= KNOWN


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_an_import_contract_says_what_a_capability_knows_of_each_other(name: str) -> None:
    """The contract of one layer does not see what a layer takes from another."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    told = [
        one["forbidden_modules"]
        for one in setup.values()
        if f"gridbridge.decisions.{name}" in one.get("source_modules", "").split("\n")
    ]

    for other in KNOWN - {name}:
        assert any(f"gridbridge.services.{other}" in one.split("\n") for one in told)


def test_each_module_whose_decisions_are_kept_is_in_the_table() -> None:
    """A decision of another program could be kept, but not made again."""
    keeps = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (PACKAGE / "services").rglob("*.py")
        if "PROGRAM" in assigned(path)
    }

    assert {one.__name__ for one in JOURNALLED} == keeps  # type: ignore[attr-defined]  # they are modules
    assert len({one.PROGRAM for one in JOURNALLED}) == len(keeps)


def assigned(path: Path) -> set[str]:
    """Return the names that a module assigns by itself."""
    assigns = (one for one in ast.parse(path.read_text()).body if isinstance(one, ast.Assign))
    return {name.id for one in assigns for name in one.targets if isinstance(name, ast.Name)}


def test_the_picture_of_the_tree_has_each_capability() -> None:
    shown = set(re.findall(r"^ +(\w+)/ ", page("docs/explanation/architecture.md"), re.M))

    assert KNOWN - shown == set()


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_tests_of_a_capability_are_where_contributing_says(name: str) -> None:
    """One that has no rule in a layer has no tests of that layer, but some in most of them."""
    told = page("CONTRIBUTING.md")
    tested = {layer for layer in (*LAYERS, "lab") if (ROOT / "tests" / layer / name).is_dir()}

    assert {"`tests/LAYER/CAPABILITY`", "`tests/lab/CAPABILITY`"} <= set(re.findall("`.+?`", told))
    assert {"decisions", "services", "lab"} <= tested


def test_a_command_that_is_no_subcommand_is_a_module_that_setup_cfg_names() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    named = setup["options.entry_points"]["console_scripts"]
    programs = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in (PACKAGE / "cli").rglob("*.py")
        if "def main(" in path.read_text()
    }

    assert {each for each in programs if f"= {each}:main" not in named} == set()


def test_contributing_names_the_files_that_get_a_line() -> None:
    (told,) = re.findall(
        r"^A new capability is new files.*?\n\n", page("CONTRIBUTING.md"), re.M | re.S
    )
    names = re.findall(r"`((?:gridbridge/|docs/|conf/|tests/|setup)[a-z_/.]+)`", told)

    assert [one for one in names if not (ROOT / one).exists()] == []
    assert {one for one in names if one.endswith("/capabilities.py")} == {
        str(path.relative_to(ROOT)) for path in PACKAGE.rglob("capabilities.py")
    }
