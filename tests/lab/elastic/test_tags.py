"""Tags of hosts in a real cell: written, read by the squeeze, and removed."""

import json

import pytest

from tests.lab.grid import Grid

HOST = "alpha-master"
pytestmark = pytest.mark.lab


def tag(grid: Grid, *words: str) -> str:
    done = grid.on(HOST, "gridbridge", "balance", "tag", *words, user="root")
    assert done.status == 0, done
    return done.out.strip()


def test_a_host_keeps_its_tags_in_its_cell(grid: Grid) -> None:
    try:
        first, second = tag(grid, "alpha-n2", "3"), tag(grid, "alpha-n2", "auto")
        shown = grid.cell("alpha", "qconf", "-se", "alpha-n2", user="root").out
    finally:
        left, none = (tag(grid, "alpha-n2", "3", "--remove"), tag(grid, "alpha-n2", "auto", "--remove"))

    assert first == "alpha-n2: htools:standby:3"
    assert second == "alpha-n2: htools:standby:3 htools:standby:auto"
    assert "gb_tags=htools:standby:3+htools:standby:auto" in shown
    assert (left, none) == ("alpha-n2: htools:standby:auto", "alpha-n2: no tags")
    assert "gb_tags=" not in grid.cell("alpha", "qconf", "-se", "alpha-n2", user="root").out


def test_a_host_that_the_cell_does_not_know_is_refused_in_one_line(grid: Grid) -> None:
    done = grid.on(HOST, "gridbridge", "balance", "tag", "nohost", "1", user="root")

    assert (done.status, done.out) == (2, ""), done
    assert done.err == "gridbridge: nohost: cluster alpha has no such execution host\n"


def test_an_ordinary_user_can_not_tag_a_host(grid: Grid) -> None:
    done = grid.on(HOST, "gridbridge", "balance", "tag", "alpha-n2", "1", user="bob")

    assert (done.status, done.out) == (2, ""), done
    assert done.err.startswith("gridbridge: qconf: ")
    assert "must be manager" in done.err


def test_a_squeeze_of_a_real_cell_prints_its_numbers(grid: Grid) -> None:
    told = json.loads(grid.on(HOST, "gridbridge", "squeeze", "--json", user="bob").out)

    assert (told["off"], told["on"], told["deeds"]) == ([], [], [])
    assert "standard requests could start on 2 hosts" in told["sentence"]
