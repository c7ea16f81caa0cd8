"""What docs/how-to/embedded.md types in `lab/apart sh` works and prints what it says."""

from collections.abc import Iterator

import pytest

from tests.apart import Apart
from tests.docs.console import ROOT, console, matches

pytestmark = pytest.mark.apart

PAGE = (ROOT / "docs" / "how-to" / "embedded.md").read_text()


@pytest.fixture
def shell(apart: tuple[str, ...]) -> Iterator[Apart]:
    """Return a shell as the page has it."""
    made = Apart(apart)
    yield made
    made.close()


def test_what_the_page_types_without_root_prints_what_it_says(shell: Apart) -> None:
    block = "".join(part.partition("```")[0] for part in PAGE.split("```shell-session\n")[1:])
    typed = console(f"```console\n{block}```\n")
    wrong = [
        (each.command, printed)
        for each in typed
        if not matches(each.expected, printed := shell.type(each.command)[0])
    ]

    assert (len(typed) > 15, wrong) == (True, [])
