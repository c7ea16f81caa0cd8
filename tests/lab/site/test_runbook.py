"""Each section of the runbook is typed while its symptom is there, and prints what the page shows."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.docs.console import RUNBOOK, console
from tests.lab.campaigns import runner
from tests.lab.grid import Grid
from tests.lab.test_docs import USERS, Shell, check
from tests.lab.transfer.faults.test_full_disk import SPOOL, fill, small

pytestmark = [pytest.mark.lab, pytest.mark.timeout(150)]

HOST = runner.HOST
DRAIN = "gridbridge drain beta --reason 'new disks'"
SECTIONS = {
    title: text
    for title, text in re.findall(r"^## (.+)$((?:\n(?!## ).*)*)", RUNBOOK.read_text(), re.MULTILINE)
    if console(text)
}


@pytest.fixture(scope="module")
def standing(grid: Grid) -> Iterator[dict[str, str]]:
    """Drain beta, and return the numbers of a job and a campaign that can go to beta alone."""
    runner.start(grid)
    grid.sh(HOST, DRAIN)
    campaign = runner.submit(grid, {"name": "stands", "exec_file": "true", "nb_jobs": 1, "clusters": {"beta": {}}})
    grid.until(lambda: not grid.is_open(), "the queue to be closed")
    job = grid.transfer("-b", "y", "sleep", "1")
    yield {"job": job, "campaign": str(campaign)}
    grid.on(HOST, "gridbridge", "undrain", "beta")
    grid.cell("alpha", "qdel", job)
    runner.end_all(grid)
    runner.stop(grid)
    grid.require_ready()


@contextmanager
def full_spool(grid: Grid) -> Iterator[None]:
    with small(grid, SPOOL, "1733", "wake"):
        grid.require_ready()
        fill(grid, f"{SPOOL}/wake")
        grid.until(lambda: not grid.is_open(), "the queue to be closed")
        yield


FULL_DISK = "A disk is full"
OTHERS = ("A queue is closed", "A job waits", "A campaign stands", "A node stays", "A master has moved")


@pytest.mark.long
def test_the_section_on_a_full_disk_prints_what_the_page_shows(grid: Grid) -> None:
    with full_spool(grid):
        type_section(FULL_DISK, {})


@pytest.mark.parametrize("title", OTHERS)
def test_a_section_typed_during_its_symptom_prints_what_the_page_shows(
    standing: dict[str, str], grid: Grid, title: str
) -> None:
    grid.sh(HOST, DRAIN)
    type_section(title, standing)


def type_section(title: str, numbers: dict[str, str]) -> None:
    shells = {prompt: Shell(user) for prompt, user in USERS.items()}
    try:
        for shell in shells.values():
            shell.type("; ".join((":", *(f"{name}={value}" for name, value in numbers.items()))))
        wrong = [told for typed in console(SECTIONS[title]) if (told := check(shells, typed))]
    finally:
        for shell in shells.values():
            shell.close()

    assert not wrong, "\n".join(wrong)


def test_every_section_with_commands_has_its_symptom() -> None:
    assert {*SECTIONS} == {*OTHERS, FULL_DISK}
