"""Several kinds of remote machine have a queue each, set up as the configuration page describes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.configured import configured
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

HOST = "alpha-master"
PAGE = Path(__file__).parents[3] / "docs/how-to/mapping.md"
QUEUE = "transfer-beta-big"
AVAILABLE = "1M"  # for the 64G of the page, which the lab's nodes have not


def lines_of_the_page() -> tuple[list[str], list[str]]:
    part = PAGE.read_text().partition("## Several kinds")[2].partition("\n## ")[0]
    indented = [line.strip() for line in part.splitlines() if line.startswith("    ")]
    typed = [line for line in indented if re.match("{|qconf|gridbridge", line)]
    toml = [line for line in indented if line not in typed]
    first = next(n for n, line in enumerate(toml) if line.startswith(f"[queue.{QUEUE}]"))
    return toml[first:], typed


@pytest.fixture(scope="module", autouse=True)
def big(grid: Grid) -> Iterator[None]:
    toml, typed = lines_of_the_page()
    lines = "\\n".join(toml).replace("64G", AVAILABLE).replace("'", "")
    with configured(grid, f"$ a \\\\n{lines}"):
        try:
            for line in typed:
                grid.sh(HOST, line)
            grid.require_ready()
            yield
        finally:
            grid.sh(HOST, f"gridbridge setup transfer beta --queue {QUEUE} --remove --apply")
            grid.sh(HOST, "qconf -sc | grep -v '^big ' >/tmp/complexes; qconf -Mc /tmp/complexes")


def asked(grid: Grid, job: str) -> list[str]:
    told = grid.cell("beta", "qstat", "-j", grid.remote_id(job)).out
    lines = [line for line in told.splitlines() if line.startswith("hard resource_list")]
    return lines[0].split()[2].split(",") if lines else []


STAYS = "remote=false"  # not to be tried in beta's queue back
KINDS = {
    "of that kind": (("-l", "big=true"), QUEUE, ["mem_free=1M", STAYS]),
    "more than usual": (("-l", "big=true,mem_free=2M"), QUEUE, ["mem_free=2M", STAYS]),
    "of no kind": (("-l", "remote=true"), "transfer-beta", [STAYS]),
}


@pytest.fixture(scope="module")
def crossed(grid: Grid, big: None) -> dict[str, tuple[str, list[str], str]]:
    """Submit a job of every kind; return its id, its remote requests, and the rows of qstat at home."""
    del big
    jobs = {kind: grid.submit(*KINDS[kind][0], script="sleep 600\n") for kind in KINDS}
    got = {kind: asked(grid, job) for kind, job in jobs.items()}
    here = grid.cell("alpha", "qstat", "-u", "*").out
    grid.cell("alpha", "qdel", *jobs.values())
    for job in jobs.values():
        grid.until_gone(job)
    return {kind: (job, got[kind], here) for kind, job in jobs.items()}


@pytest.mark.parametrize("kind", KINDS.keys())
def test_a_job_requests_the_resources_of_its_queues_machines(
    crossed: dict[str, tuple[str, list[str], str]], kind: str
) -> None:
    _, queue, expected = KINDS[kind]
    job, got, here = crossed[kind]

    assert got == expected
    assert re.search(rf"^ *{job} .* {queue}@", here, re.MULTILINE)


def test_a_job_is_explained_for_a_queue(grid: Grid) -> None:
    job = grid.submit("-h", "-l", "big=true", script="true\n")
    for_queue = grid.on(HOST, "gridbridge", "explain", job, "--to", QUEUE, user="alice")
    for_other = grid.on(HOST, "gridbridge", "explain", job, "--to", "transfer-beta", user="alice")
    for_cluster = grid.on(HOST, "gridbridge", "explain", job, "--to", "beta", user="alice")
    grid.cell("alpha", "qdel", job)
    grid.until_gone(job)

    assert "-hard -l mem_free=1M" in for_queue.out
    assert (for_other.status, "mem_free" in for_other.out) == (0, False)
    assert for_cluster.status == 2
    assert for_cluster.err == (
        "gridbridge: beta: its transfer queues request different resources;"
        " expected --to transfer-beta or --to transfer-beta-big\n"
    )


def test_check_finds_both_queues_right(grid: Grid) -> None:
    found = json.loads(grid.on(HOST, "gridbridge", "check", "--json").out)["items"]
    states = {item["name"]: item["state"] for item in found}

    assert [name for name, state in states.items() if state == "broken"] == []
    assert {states[f"queue {queue}: slots"] for queue in (QUEUE, "transfer-beta")} == {"ok"}


def test_setup_keeps_the_requests_of_a_queue(grid: Grid) -> None:
    words = ("setup", "transfer", "beta", "--queue", QUEUE, "--slots", "9", "--apply")
    done = grid.on(HOST, "gridbridge", *words)
    section = grid.sh(HOST, f"sed -n '/^.queue.{QUEUE}/,/^$/p' /etc/gridbridge/gridbridge.toml")

    assert done.status == 0, done.err
    assert "slots = 9" in section
    assert f'asks = {{ mem_free = "{AVAILABLE}" }}' in section
