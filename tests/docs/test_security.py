"""Each entry of the attacks page names the tests that try the attack."""

import re

import pytest

from tests.docs.console import ROOT

PAGE = (ROOT / "docs/reference/attacks.md").read_text()
ENTRIES = re.findall(r"^(\S.*)\n: (?:.|\n)*?^: (`[\w/]+/test_(?:.|\n)*?)\.$", PAGE, re.MULTILINE)


def test_each_attack_has_a_line_of_tests() -> None:
    attacks = re.findall(r"^(?![#:\s]).+\n: ", PAGE, re.MULTILINE)

    assert len(ENTRIES) == len(attacks) > 100


@pytest.mark.parametrize("tests", [entry[1] for entry in ENTRIES], ids=[e[0] for e in ENTRIES])
def test_an_attack_is_tried_by_the_tests_that_its_entry_names(tests: str) -> None:
    for part in tests.split(";"):
        [module] = re.findall(r"`([\w/]+/test_\w+)`", part)
        names = re.findall(r"`(test_\w+)`", part)
        text = (ROOT / "tests" / f"{module}.py").read_text()

        assert [name for name in names if f"def {name}(" not in text] == []
