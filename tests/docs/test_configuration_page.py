"""The page on gridbridge.toml has a chapter for each section that the program reads."""

import re

from gridbridge.config.configuration_file import GROUPS
from gridbridge.config.section_parsing import NamedSections, UnnamedSection
from gridbridge.model.transfer.transfer_config_sections import KINDS
from tests.docs.console import ROOT

PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text()
CHAPTER = re.compile(r"^## `\[(.+)\]`$((?:\n(?!## ).*)*)", re.MULTILINE)


def test_each_section_has_a_chapter_with_its_keys_and_no_other_has() -> None:
    """The keys themselves are written by docs/keys.py."""
    plain = [group.title for group in GROUPS.values() if isinstance(group, UnnamedSection | NamedSections)]
    titles = [*plain, *(f"[map.CLUSTER.{kind}.NAME]" for kind in KINDS)]
    chapters = {f"[{title}]": text for title, text in CHAPTER.findall(PAGE)}
    keys = {title: re.findall(r"^```{keys} (.+)$", text, re.M) for title, text in chapters.items()}

    assert {title: [title.strip("[]")] for title in titles} == keys
