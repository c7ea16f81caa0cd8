"""The commands in the documentation work, and print the output shown there."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gridbridge.campaigns.cli.command_relay_and_runner_wait import WAITING
from tests.docs.console import PAGES, ROOT, RUNBOOK, Typed, console, matches
from tests.lab.campaigns import runner
from tests.lab.grid import LAB, Grid

pytestmark = pytest.mark.lab

END = "@@end@@"
USERS = {"#": "root", "$": "alice"}
ASKS = ("gridbridge why", "gridbridge status")
BALANCER = "/var/lib/gridbridge-admin"
NEWS_LIMIT_S = 15
CLOSE_LIMIT_S = 5
RUN = [page for page in PAGES if page != RUNBOOK and console(page.read_text())]


class Shell:
    def __init__(self, user: str) -> None:
        self.process = subprocess.Popen(
            [LAB, "on", "alpha-master", "-u", user, "--", "sh"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def type(self, command: str) -> str:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n{END}\\n'\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) != f"{END}\n":
            assert line, f"the shell ended: {lines}"
            lines.append(line)
        return "".join(line for line in lines if WAITING not in line)  # on a slow machine

    def close(self) -> None:
        try:
            self.process.communicate(timeout=CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()  # its output may stay open, held by what it ran


@pytest.fixture(scope="module")
def quiet(grid: Grid, all_open: None) -> Iterator[Grid]:
    def is_quiet() -> bool:
        told = grid.on("alpha-master", "gridbridge", "status").out.splitlines()
        is_right = grid.on("alpha-master", "gridbridge", "check").status == 0
        return is_right and ["transfer-beta", "beta", "yes"] in [row.split()[:3] for row in told]

    # a reader begins without a balancer
    grid.sh("alpha-master", f"test ! -e {BALANCER} || mv {BALANCER} {BALANCER}.away")
    runner.start(grid)
    grid.until(is_quiet, "check and status to find all well")
    yield grid
    runner.stop(grid)
    grid.sh("alpha-master", f"test ! -e {BALANCER}.away || mv {BALANCER}.away {BALANCER}")


@pytest.mark.timeout(90)
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_print_the_output_that_the_page_shows(quiet: Grid, page: Path) -> None:
    del quiet
    shells = {prompt: Shell(user) for prompt, user in USERS.items()}
    try:
        wrong = [told for typed in console(page.read_text()) if (told := check(shells, typed))]
    finally:
        for shell in shells.values():
            shell.close()

    assert not wrong, "\n".join(wrong)


def check(shells: dict[str, Shell], typed: Typed) -> str:
    """Run a page's command; return how its output differs from the page, empty when it does not.

    A read-only command is repeated for a while: a job's changes reach the state file within 2 s.
    """
    deadline = time.monotonic() + (NEWS_LIMIT_S if typed.command.startswith(ASKS) else 0)
    while not matches(typed.expected, printed := shells[typed.prompt].type(typed.command)):
        if time.monotonic() > deadline:
            return f"{typed.prompt} {typed.command}\nexpected:\n{typed.expected}printed:\n{printed}"
    return ""
