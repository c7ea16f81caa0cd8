"""Alpha grows by machines of the lab's power service, runs tasks on them, and returns them."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.lab.grid import Grid
from tests.lab.grid import unprepared_grid as unprepared_grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

HOST = "alpha-master"
BALANCE = "/opt/gridbridge/bin/gridbridge-balance"
TOML, KEPT = "/etc/gridbridge/gridbridge.toml", "/etc/gridbridge/balance-test.toml"
HOME = "/var/lib/gridbridge-admin"
OURS = r"(?ms)^\[(?:balance|demand|bootstrap|(?:pool|provider)\.[^]]+)\]\n.*?(?=^\[|\Z)"
SECTIONS = Path(__file__).with_name("balance.toml").read_text()
QUIET = ("-b", "y", "-o", "/dev/null", "-j", "y")
HELD, LISTING = f"{HOME}/test.held", f"{HOME}/test.listing"
RENT = f"""#!/bin/sh
# a round asks for the list once it has seen the cell: there it is held, if anybody wants that
[ "$1" = list ] && [ -e {HELD} ] && touch {LISTING}
while [ "$1" = list ] && [ -e {HELD} ]; do sleep 0.1; done
GRIDLAB_TOKEN={HOME}/test.token exec /opt/gridlab/power-node "$@"
"""
SET_UP = Path(__file__).with_name("set_up_balancer.sh").read_text()


@pytest.fixture(scope="module")
def acting(grid: Grid) -> Iterator[Grid]:
    if grid.on(HOST, "test", "-x", BALANCE).status != 0:
        pytest.skip("no gridbridge-balance is installed in the lab")
    with balanced(grid):
        yield grid


@contextmanager
def balanced(grid: Grid) -> Iterator[None]:
    grid.sh(HOST, SET_UP)
    grid.on(HOST, "tee", "/usr/local/bin/balance-test-rent", stdin=RENT)
    grid.sh(HOST, "chmod 755 /usr/local/bin/balance-test-rent")
    told = re.sub(OURS, "", grid.sh(HOST, f"cat {TOML}")).rstrip("\n") + "\n" + SECTIONS
    grid.on(HOST, "tee", KEPT, stdin=told)
    try:
        yield
    finally:
        grid.sh(HOST, f"rm -f {KEPT} /etc/sudoers.d/balance-test {HELD} {LISTING}")


@pytest.fixture(autouse=True)
def at_rest(acting: Grid) -> Iterator[None]:
    acting.lab("faults")
    rest(acting)
    yield
    acting.lab("faults")
    acting.cell("alpha", "qdel", "-u", "alice", user="root")
    rest(acting)


def round_(grid: Grid, *before: str) -> str:
    done = grid.on(HOST, *before, BALANCE, "--config", KEPT, "--apply", "--json")
    return done.out


def nodes(grid: Grid) -> dict[str, str]:
    """Return the states of the nodes; empty before the first cycle."""
    done = grid.on(HOST, "gridbridge", "balance", "status", "--json")
    told = json.loads(done.out) if done.status == 0 else {"nodes": []}
    return {one["name"]: one["state"] for one in told["nodes"]}


def machines(grid: Grid) -> list[dict[str, Any]]:
    found = json.loads(grid.sh(HOST, "/opt/gridlab/power-node list </dev/null"))
    assert isinstance(found, list)
    return found


def rest(grid: Grid) -> None:
    """Run cycles until no node and no machine is left.

    A failed node stays known until machine lists have lacked its machine for two minutes.
    """

    def is_over() -> bool:
        round_(grid)
        return not nodes(grid) and not machines(grid)

    grid.until(is_over, "all nodes to be given back", 180)


def comes(grid: Grid, state: str, limit_s: float = 60) -> None:
    def is_there() -> bool:
        round_(grid)
        return state in nodes(grid).values()

    grid.until(is_there, f"a node to be {state}", limit_s)


def submit(grid: Grid, tasks: int, seconds: int) -> str:
    words = ("-q", "all.q", "-t", f"1-{tasks}", *QUIET)
    return grid.submit(*words, "sleep", str(seconds)).partition(".")[0]


def ends(grid: Grid, job: str) -> list[tuple[str, str]]:
    return [(one["hostname"], one["exit_status"]) for one in grid.records(job)]


def test_a_cluster_grows_runs_tasks_on_new_nodes_and_shrinks(acting: Grid) -> None:
    """A cycle is killed midway, and the next cycle continues."""
    job = submit(acting, 40, 5)
    round_(acting, "timeout", "-s", "KILL", "2")
    comes(acting, "ready")
    rest(acting)
    told = acting.until(lambda: len(found := ends(acting, job)) == 40 and found, "40 records")

    assert {"0"} == {status for _, status in told}
    assert {host for host, _ in told} - {"alpha-n1", "alpha-n2"}
    assert {"alpha-n1", "alpha-n2"} == set(acting.sh(HOST, "qconf -sel").split()) - {HOST}


@pytest.mark.long
def test_new_nodes_are_filled_one_after_the_other(acting: Grid) -> None:
    crowd = submit(acting, 8, 600)
    acting.until(lambda: round_(acting) and ready(acting) == 2, "two nodes to be ready", 90)
    acting.cell("alpha", "qdel", crowd, user="root")
    told = in_line(acting.cell("alpha", "qconf", "-sq", "all.q").out)
    numbers = {number: host for host, number in re.findall(r"\[(alpha-n\d+)=(\d+)\]", told)}
    acting.until_none(lambda: [*at(acting, crowd)], "them to be idle")
    own = ",".join(f"all.q@{host}" for host in ("alpha-n1", "alpha-n2"))
    words = ("-q", own, "-t", "1-4", *QUIET)
    full = acting.submit(*words, "sleep", "600").partition(".")[0]
    acting.until(lambda: len(at(acting, full)) == 4, "the cell's own hosts to be full")
    job = submit(acting, 2, 600)
    where = acting.until(lambda: len(found := at(acting, job)) == 2 and found, "two to run")

    assert nodes(acting).keys() == {numbers["1"], numbers["2"]}
    assert [numbers["1"]] * 2 == where


def ready(grid: Grid) -> int:
    return list(nodes(grid).values()).count("ready")


def at(grid: Grid, job: str) -> list[str]:
    told = ElementTree.fromstring(grid.sh(HOST, "qstat -xml -s r -u alice"))
    rows = [{each.tag: each.text or "" for each in row} for row in told.iter("job_list")]
    return [one["queue_name"].partition("@")[2] for one in rows if one["JB_job_number"] == job]


def in_line(told: str) -> str:
    whole = told.replace("\\\n", " ")
    return next(line for line in whole.splitlines() if line.startswith("seq_no"))


@pytest.mark.long
def test_a_node_that_never_boots_is_given_back(acting: Grid) -> None:
    acting.lab("faults", "never")
    job = submit(acting, 6, 60)
    comes(acting, "booting")
    acting.cell("alpha", "qdel", job, user="root")
    acting.until(lambda: round_(acting) and not machines(acting), "it to be given back", 60)

    assert {} == nodes(acting) or {"failed"} == set(nodes(acting).values())


@pytest.mark.long
def test_a_node_whose_creation_answer_was_lost_joins_once(acting: Grid) -> None:
    acting.lab("faults", "lost")
    job = submit(acting, 6, 60)
    round_(acting)
    acting.lab("faults")
    comes(acting, "ready")
    made = [one["name"] for one in machines(acting)]
    acting.cell("alpha", "qdel", job, user="root")

    assert len(made) == len(set(made)) == len(nodes(acting))


def test_nodes_of_other_owners_stay_whatever_their_names(acting: Grid) -> None:
    acting.lab("faults", "others")
    before = machines(acting)
    for _ in range(3):
        round_(acting)

    assert 2 == len(before)
    assert before == machines(acting)
    assert {} == nodes(acting)


@pytest.mark.long
def test_a_node_that_gets_a_task_between_plan_and_removal_stays(acting: Grid) -> None:
    """The cycle finds an idle node, and is held until a task runs on it."""
    (name,) = _one_node(acting)
    acting.until(lambda: _is_surplus(acting, name), f"{name} to have been idle for long enough")
    with _held(acting), ThreadPoolExecutor(1) as thread:
        round_of = thread.submit(round_, acting)
        try:
            acting.until(lambda: _is_listing(acting), "the round to ask for machines", 20)
            job = _sent(acting, name, seconds=30)
            acting.until(lambda: acting.states("alpha").get(job) == "r", "its task to run", 25)
        finally:
            acting.sh(HOST, f"rm -f {HELD}")
        told = json.loads(round_of.result())

    assert f"remove {name}: not needed" in told["done"]
    assert {name: "ready"} == nodes(acting)
    assert _ran_or_waits(acting, job)


def _is_surplus(grid: Grid, name: str) -> bool:
    """Run a cycle; say whether the next cycle would remove the idle node."""
    grid.on(HOST, BALANCE, "--config", KEPT, "--apply", "-n", "4")
    plan = json.loads(grid.on(HOST, BALANCE, "--config", KEPT, "--json").out)
    return name in plan["remove"]


@contextmanager
def _held(grid: Grid) -> Iterator[None]:
    """Hold the next cycle while it lists machines; the provider's time limit is raised to 50 s."""
    whole = grid.sh(HOST, f"cat {KEPT}")
    patient = whole.replace('-rent"\ntimeout_s = 10.0', '-rent"\ntimeout_s = 50.0')
    assert whole != patient
    grid.on(HOST, "tee", KEPT, stdin=patient)
    grid.sh(HOST, f"rm -f {LISTING}; touch {HELD}")
    try:
        yield
    finally:
        grid.sh(HOST, f"rm -f {HELD} {LISTING}")
        grid.on(HOST, "tee", KEPT, stdin=whole)


def _is_listing(grid: Grid) -> bool:
    return grid.on(HOST, "test", "-e", LISTING).status == 0


def _sent(grid: Grid, name: str, seconds: int) -> str:
    sent = ("qsub", "-terse", "-q", f"all.q@{name}", *QUIET, "sleep", str(seconds))
    return grid.on(HOST, *sent, user="alice").out.strip()


RACES = 100


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_task_that_starts_while_its_node_is_removed_is_never_killed(acting: Grid) -> None:
    """A hundred tasks are sent, each at another moment of the cycle. Each runs to its end or waits."""
    took_s = 2.0  # a round that removes a node; learnt from each
    landed = 0
    for race in range(RACES):
        (name,) = _one_node(acting)
        with ThreadPoolExecutor(1) as thread:
            began = time.monotonic()
            round_of = thread.submit(_shrink, acting)
            time.sleep(took_s * (race % 10) / 10)  # the moment of the race, and no wait for it
            job = _sent(acting, name, seconds=3)
            round_of.result()
        took_s = max(1.0, time.monotonic() - began)
        landed += bool(job) and _ran_or_waits(acting, job)  # none: its queue was gone

    assert 0 < landed < RACES  # else the moments were all too early, or all too late


def _one_node(grid: Grid) -> list[str]:
    def is_ready() -> bool:
        grid.on(HOST, BALANCE, "--config", KEPT, "--apply", "-n", "4")
        return list(nodes(grid).values()) == ["ready"]

    grid.until(is_ready, "a node to be ready", 150)
    return list(nodes(grid))


def _shrink(grid: Grid) -> None:
    for _ in range(3):
        round_(grid)


def _ran_or_waits(grid: Grid, job: str) -> bool:
    def is_settled() -> str:
        state = grid.states("alpha").get(job, "")
        return "waits" if state == "qw" else "ran" if not state and grid.records(job) else ""

    if grid.until(is_settled, "the task to end or to wait", 60) == "waits":
        grid.cell("alpha", "qdel", job, user="root")
        grid.until(lambda: job not in grid.states("alpha"), "the job to be gone")
        return False
    (record,) = grid.records(job)
    assert ("0", "0") == (record["failed"].split()[0], record["exit_status"].split()[0]), record
    return True
