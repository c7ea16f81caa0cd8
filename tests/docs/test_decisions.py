"""Each decision record has the usual form, and changelog and releases name the same version."""

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from gridbridge import __version__
from tests.docs.console import ROOT

RECORDS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
SECTIONS = ["Context", "Decision", "Consequences"]
MOST_RECORDS, MOST_WORDS, MOST_LETTERS = 40, 280, 120
MOST_OF_A_RELEASE = 1500  # words of its changes: a page
RELEASES = ROOT / "docs" / "reference" / "releases.md"


def test_decisions_are_few_and_numbered_without_a_gap() -> None:
    numbers = [int(record.name[:2]) for record in RECORDS]

    assert numbers == list(range(1, len(RECORDS) + 1))
    assert len(RECORDS) <= MOST_RECORDS


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem)
def test_a_decision_has_a_title_context_decision_and_consequences(record: Path) -> None:
    text = record.read_text()

    assert re.match(r"# [A-Z`].*[^.]\n\n## Context\n", text)
    assert re.findall("^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert len(text.split()) <= MOST_WORDS


def test_the_index_has_each_decision_once_in_their_order() -> None:
    index = (ROOT / "docs" / "decisions.md").read_text()

    assert re.findall(r"^decisions/(.+)$", index, re.MULTILINE) == [record.stem for record in RECORDS]


@pytest.mark.parametrize("page", [*RECORDS, RELEASES, ROOT / "CHANGELOG.md"], ids=lambda page: page.stem)
def test_lines_of_decisions_and_changes_fit_a_window(page: Path) -> None:
    assert [line for line in page.read_text().splitlines() if len(line) > MOST_LETTERS] == []


def test_each_release_has_a_page_of_changes_at_most() -> None:
    releases = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1:]

    assert [text.splitlines()[0] for text in releases if len(text.split()) > MOST_OF_A_RELEASE] == []


def test_changelog_and_releases_name_the_version() -> None:
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert f"**Version**: {__version__}," in RELEASES.read_text()


def test_the_releases_name_the_oldest_python() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    oldest = setup["options"]["python_requires"].removeprefix(">=")

    assert f"| Python | {oldest} |" in RELEASES.read_text()
    assert f"before {oldest} |" in RELEASES.read_text()
