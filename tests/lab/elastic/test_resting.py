"""Alpha's own hosts are switched off while no task waits, and on again for waiting tasks."""

import re
from collections.abc import Iterator

import pytest

from tests.lab.elastic.rack import RACK, SWITCH_AT, install_switch, make_rack, sections, switch_as_requested
from tests.lab.elastic.test_acting import BALANCE, HOST, QUIET, SET_UP, TOML, nodes, submit
from tests.lab.grid import Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

KEPT = "/etc/gridbridge/squeeze-test.toml"
OURS = r"(?ms)^\[(?:balance|demand|squeeze|(?:power|provider)\.[^]]+)\]\n.*?(?=^\[|\Z)"
OWN = ("alpha-n1", "alpha-n2")
AWAY = f"rm -rf {RACK} {KEPT} {SWITCH_AT} /etc/sudoers.d/balance-test"


@pytest.fixture
def squeezed(grid: Grid) -> Iterator[Grid]:
    grid.sh(HOST, SET_UP)
    make_rack(grid, HOST, OWN)
    install_switch(grid, HOST)
    told = re.sub(OURS, "", grid.sh(HOST, f"cat {TOML}")).rstrip("\n") + "\n" + sections(OWN, max_nodes=5)
    grid.on(HOST, "tee", KEPT, stdin=told)
    yield grid
    grid.cell("alpha", "qdel", "-u", "alice", user="root")
    grid.sh(HOST, f"sed -i 's/^enabled = true/enabled = false/' {KEPT}")
    round_(grid)
    for host in OWN:
        grid.lab("power", host, "on")
        grid.sh(HOST, f"qmod -e '*@{host}'; gridbridge balance tag {host} auto --remove")
    grid.sh(HOST, AWAY)


def round_(grid: Grid) -> str:
    told = grid.on(HOST, BALANCE, "--config", KEPT, "--apply").out
    switch_as_requested(grid, HOST, OWN)
    return told


@pytest.mark.long
def test_a_rerunnable_task_is_moved_so_that_its_host_can_be_switched_off(squeezed: Grid) -> None:
    """Two hosts are half full. The host of the `-r y` task is freed, and the other task runs on."""
    squeezed.sh(HOST, f"sed -i '/^\\[squeeze/a {MOVING}' {KEPT}")
    fixed = one_on(squeezed, "alpha-n1", "alpha-n2", "-r", "n")
    moved = one_on(squeezed, "alpha-n2", "alpha-n1", "-r", "y")
    becomes(squeezed, {"ready", "standby"})
    resting = [name for name, state in nodes(squeezed).items() if state == "standby"]
    ends = [squeezed.accounting_of_end(job, 90) for job in (fixed, moved)]

    assert resting == ["alpha-n2"]
    assert [(one["exit_status"], one["hostname"]) for one in ends] == [("0", "alpha-n1")] * 2
    assert len(squeezed.records(fixed)) == 1
    assert len(squeezed.records(moved)) == 2


MOVING = 'restriction = "rerunnable"\\nminimal_reserve = 0.25\\ntarget_reserve = 0.5'


def one_on(grid: Grid, host: str, other: str, *options: str) -> str:
    grid.cell("alpha", "qmod", "-d", f"all.q@{other}", user="root")
    job = grid.submit("-q", "all.q", *options, *QUIET, "sleep", "40")
    grid.until(lambda: grid.states("alpha").get(job) == "r", f"job {job} to run")
    grid.cell("alpha", "qmod", "-e", f"all.q@{other}", user="root")
    return job


def becomes(grid: Grid, wanted: set[str]) -> None:
    def is_so() -> bool:
        round_(grid)
        return {state for name, state in nodes(grid).items() if name in OWN} == wanted

    grid.until(is_so, f"hosts to be {wanted}", 90)


def tags(grid: Grid) -> str:
    return "".join(grid.sh(HOST, f"qconf -se {host}") for host in OWN)


def test_a_host_is_switched_off_and_on_again_when_tasks_wait(squeezed: Grid) -> None:
    """One of two idle hosts is enough as reserve."""
    told = squeezed.sh(HOST, f"gridbridge squeeze --config {KEPT}")
    becomes(squeezed, {"ready", "standby"})
    resting = next(name for name, state in nodes(squeezed).items() if state == "standby")
    power = squeezed.sh(HOST, f"cat {RACK}/{resting}.is")
    marked = "htools:standby:auto" in tags(squeezed)
    closed = squeezed.cell("alpha", "qstat", "-f", "-q", f"all.q@{resting}").out
    job = submit(squeezed, 10, 8)
    becomes(squeezed, {"ready"})
    ended = squeezed.until(lambda: len(one := squeezed.records(job)) == 10 and one, "10 records", 90)

    assert "can be powered off" in told
    assert closed.split()[-1].startswith(("d", "ad"))
    assert (power, squeezed.sh(HOST, f"cat {RACK}/{resting}.is")) == ("off\n", "on\n")
    assert marked
    assert "htools:standby" not in tags(squeezed)
    assert {one["exit_status"] for one in ended} == {"0"}
    assert resting in {one["hostname"] for one in ended}
