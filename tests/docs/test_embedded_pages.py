"""The commands of pages for `lab/apart bash`, in a checkout, work and print the output shown there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.campaigns.cli.command_relay_and_runner_wait import WAITING
from tests.apart import Apart
from tests.docs.console import PAGES, ROOT, console, matches

pytestmark = pytest.mark.apart

FENCE = "```shell-session\n"
TYPED = [page for page in PAGES if FENCE in page.read_text()]


@pytest.fixture
def shell(apart: tuple[str, ...]) -> Iterator[Apart]:
    made = Apart(apart)
    made.type(f"cd {ROOT}")
    yield made
    made.close()


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.stem)
def test_the_commands_of_a_page_without_root_print_the_output_shown(shell: Apart, page: Path) -> None:
    block = "".join(part.partition("```")[0] for part in page.read_text().split(FENCE)[1:])
    typed = console(f"```console\n{block}```\n")
    wrong = [
        (each.command, printed)
        for each in typed
        if not matches(each.expected, printed := _printed(shell, each.command))
    ]

    assert (len(typed) > 10, wrong) == (True, [])


def _printed(shell: Apart, command: str) -> str:
    """Return the output of a command without warnings about a slow machine."""
    lines = shell.type(command)[0].splitlines(keepends=True)
    return "".join(line for line in lines if WAITING not in line)
