"""The program and the configuration on the documentation page about providers work."""

import re
import tomllib
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.elastic.providers.site_program_provider import SiteProgramProvider
from gridbridge.errors import ProviderOutOfMachines
from gridbridge.model.elastic.elastic_nodes import ProviderMachineState
from tests.builders.programs import write_program

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
PAGES = [(DOCS / name).read_text() for name in ("providers.md", "squeeze.md")]
SITE = '[site]\ncluster = "alpha"\n'


@pytest.fixture
def shown(tmp_path: Path) -> SiteProgramProvider:
    (script,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```$", PAGES[0], re.MULTILINE | re.DOTALL)
    program = write_program(tmp_path / "rent-node", script)
    (tmp_path / "nodes").mkdir()
    env = {"PATH": "/usr/bin:/bin", "NODES": str(tmp_path / "nodes")}
    return SiteProgramProvider(program=str(program), timeout_s=20, env=env)


def test_the_documented_program_creates_lists_and_destroys_nodes(shown: SiteProgramProvider) -> None:
    tags = {"gridbridge": "alpha", "gridbridge-pool": "rented"}
    none = shown.list_machines()
    first, second = (shown.create_machine(f"alpha-n{number}", tags) for number in (7, 8))
    shown.destroy_machine(first)
    shown.destroy_machine(first)

    assert () == none
    assert (second,) == shown.list_machines()
    assert (ProviderMachineState.PENDING, "rented") == (second.state, second.pool)


def test_the_documented_program_has_four_nodes(shown: SiteProgramProvider) -> None:
    for number in range(4):
        shown.create_machine(f"alpha-n{number}", {})

    with pytest.raises(ProviderOutOfMachines, match=r"create: all four are rented$"):
        shown.create_machine("alpha-n4", {})


def test_the_documented_sections_are_a_valid_configuration() -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", "".join(PAGES), re.MULTILINE | re.DOTALL)
    assert blocks

    for block in blocks:
        assert configuration_file.parse_configuration("FILE", (SITE + block).encode()).providers
        assert tomllib.loads(block)["provider"]
