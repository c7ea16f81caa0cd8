"""The installed man pages have whole sentences and the usual sections."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from gridbridge.config import section_parsing as words
from gridbridge.config.configuration_file import GROUPS
from gridbridge.config.section_parsing import NamedSections, UnnamedSection
from gridbridge.model.config_key_descriptions import config_key_description
from gridbridge.model.transfer.transfer_config_sections import KINDS
from tests.docs.console import ROOT

SOURCES = list((ROOT / "docs/reference/commands").glob("*.md"))
WITHOUT = {"gridbridge-methods.8"}  # several programs, which Grid Engine calls


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    words = ("-E", "-W", "-q", "-b", "man", "-d", f"{folder}/.doctrees", ROOT / "docs", folder)
    subprocess.run((sys.executable, "-m", "sphinx", *words), check=True)
    return folder


def test_no_man_page_has_an_empty_link_or_a_table_wider_than_a_line(pages: Path) -> None:
    """Linked pages are not installed, and tbl(1) does not fold columns."""
    found = {page.name: page.read_text() for page in pages.iterdir() if page.is_file()}

    assert len(found) > len(SOURCES)
    assert [name for name, text in found.items() if "<>" in text or "\n.TS" in text] == []


def test_each_command_has_a_synopsis_and_a_description(pages: Path) -> None:
    for source in SOURCES:
        text = (pages / source.stem).read_text()
        titles = [line[4:] for line in text.splitlines() if line.startswith(".SH ")]
        synopsis = [] if source.stem in WITHOUT else ["SYNOPSIS"]
        assert titles[: len(synopsis) + 2] == ["NAME", *synopsis, "DESCRIPTION"], source.name


def test_the_words_of_an_option_keep_their_brackets(pages: Path) -> None:
    array, model = ((pages / name).read_text() for name in ("gridsub.1", "gridbridge-squeeze.1"))

    assert r"\-\-array <N\-M[:STEP]>" in array
    assert r"\-\-print\-commands [FILE]" in model


def test_a_required_argument_of_griddel_is_not_called_optional(pages: Path) -> None:
    """The command griddel needs an ID unless it gets -c or -j."""
    text = (pages / "griddel.1").read_text()

    assert "Optional argument" not in text
    assert "Required, but with" in text


def test_the_page_on_gridbridge_toml_has_each_key_with_its_meaning_and_default(pages: Path) -> None:
    text = (pages / "gridbridge.toml.5").read_text()
    for written, shown in ((r"\\\(dq", '"'), (r"\\\(aq", "'"), (r"\\f[BIP]|\\", "")):
        text = re.sub(written, shown, text)
    plain = [group.kind for group in GROUPS.values() if isinstance(group, UnnamedSection | NamedSections)]
    keys = [key for kind in (*plain, *(kind for kind, _ in KINDS.values())) for key in fields(kind)]
    entries = [
        f"{key.name}\n{config_key_description(key).meaning}. {words.describe_allowed_values(key)};"
        f" {words.describe_key_default(key)}\n"
        for key in keys
    ]

    assert [entry for entry in entries if entry not in text] == []
