"""All lists of capabilities agree; CONTRIBUTING names the files with such lists."""

import ast
import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from gridbridge.config.configuration_file import CAPABILITIES
from gridbridge.site.cli.replay_command import PROGRAMS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "gridbridge"
PURE = ("model", "decisions")


def folders(layer: str) -> set[str]:
    """Return the capabilities that have a folder in a pure library."""
    return {path.parent.name for path in (PACKAGE / layer).glob("*/__init__.py")}


KNOWN = folders("model")


def contract(name: str) -> list[str]:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return setup[f"importlinter:contract:{name}"]["layers"].split("\n")


def page(name: str) -> str:
    return (ROOT / name).read_text()


def test_a_capability_is_a_folder_of_each_pure_library_and_one_of_its_own() -> None:
    assert folders("decisions") == KNOWN
    assert {name for name in KNOWN if (PACKAGE / name / "__init__.py").is_file()} == KNOWN


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_no_other_folder_is_called_as_a_capability(name: str) -> None:
    inits = PACKAGE.rglob(f"{name}/__init__.py")  # git leaves emptied folders with caches behind
    found = {str(path.parent.relative_to(PACKAGE)) for path in inits}

    assert found == {name, f"model/{name}", f"decisions/{name}"}


def test_each_capability_has_a_module_of_config_in_the_table() -> None:
    assert {one.__name__.rpartition(".")[2] for one in CAPABILITIES} == KNOWN  # type: ignore[attr-defined]  # they are modules


@pytest.mark.parametrize("name", ["layers", "decisions"])
def test_the_import_contracts_name_each_capability(name: str) -> None:
    named = {one for line in contract(name) for one in line.split(" | ")}

    assert named >= KNOWN


def test_each_module_whose_decisions_are_kept_is_in_the_table() -> None:
    """The decisions of a missing program could be recorded but not replayed."""
    journals = [path for path in PACKAGE.glob("*/*/*.py") if "make_journal_entry(" in path.read_text()]
    replays = {
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}.{name}"
        for path in journals
        for name in defined(path)
        if name.startswith("replay_")
    }

    assert {f"{one.replay.__module__}.{one.replay.__name__}" for one in PROGRAMS.values()} == replays
    assert len(replays) >= len(journals) > 3


def defined(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


def test_the_picture_of_the_tree_has_the_folders_that_there_are() -> None:
    told = set(re.findall(r"^ +(\w+)/ ", page("docs/explanation/architecture.md"), re.M))
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}

    assert there == told


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_the_tests_of_a_capability_are_where_contributing_says(name: str) -> None:
    folders = (f"tests/{name}", f"tests/decisions/{name}", f"tests/lab/{name}")
    promised = {"`tests/CAPABILITY`", "`tests/decisions/CAPABILITY`", "`tests/lab/CAPABILITY`"}

    assert promised <= set(re.findall("`.+?`", page("CONTRIBUTING.md")))
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_a_command_that_is_no_subcommand_is_a_module_that_setup_cfg_names() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    named = setup["options.entry_points"]["console_scripts"]
    programs = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in PACKAGE.glob("**/cli/**/*.py")
        if "def main(" in path.read_text()
    }

    assert {each for each in programs if f"= {each}:main" not in named} == set()


def test_contributing_names_the_files_that_get_a_line() -> None:
    (told,) = re.findall(r"^A new capability has three folders.*?fail if", page("CONTRIBUTING.md"), re.M | re.S)
    names = re.findall(r"`((?:gridbridge/|docs/|conf/|tests/|setup)[a-z_/.]+)`", told)

    assert [one for one in names if not (ROOT / one).exists()] == []
    assert {path for path in tables() if path not in names} == set()


def tables() -> set[str]:
    """Return the modules with a table of all capabilities."""
    return {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"^(CAPABILITIES\b|PROGRAMS = MappingProxyType)", path.read_text(), re.MULTILINE)
    }
