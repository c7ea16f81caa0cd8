"""Each attack that docs/explanation/security.md tells of names the tests that try it."""

import re

import pytest

from tests.docs.console import ROOT

TOLD = (
    (ROOT / "docs/explanation/security.md")
    .read_text()
    .partition("| somebody |")[2]
    .partition("\n\n")[0]
)
ROWS = [row for row in TOLD.splitlines() if row.startswith("| ")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:40])
def test_an_attack_is_tried_by_the_tests_that_its_row_names(row: str) -> None:
    tried = row.rstrip(" |").rpartition("| ")[2]
    for part in tried.split("; "):
        [module] = re.findall(r"`([\w/]+/test_\w+)`:", part)
        names = re.findall(r"`(test_\w+)`", part)
        text = (ROOT / "tests" / f"{module}.py").read_text()

        assert names
        assert [name for name in names if f"def {name}(" not in text] == []
