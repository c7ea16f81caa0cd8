"""A task that waits at beta is recalled to a free slot at home, and never runs twice."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.lab.away import QUIET, TELLS, ends, full_beta, lines, starts, together, wait_for, why
from tests.lab.configured import configured
from tests.lab.grid import Grid
from tests.lab.phases import closed_home, no_scheduler

pytestmark = pytest.mark.lab

AT_ONCE = 4  # beta's slots
SPOOL = "/var/spool/gridbridge"
FORGED = r"kind=record\ntransfer=gb.alpha.999999.0.1\nat=1\nremote=nowhere\nqueue=nosuch.q\n"
VERDICTS = "/var/lib/gridbridge/published/verdicts"
WISH = Path(__file__).with_name("request_recalls.sh").read_text()


@pytest.fixture(autouse=True)
def _fresh_notes(grid: Grid) -> None:
    grid.sh("alpha-master", "rm -f *.ran", user="alice")


def waits_away(grid: Grid, name: str) -> tuple[str, str]:
    """Submit a job that could run at home but waits at beta; return its id and its remote id."""
    job = grid.overflow("-N", name, *QUIET, script=TELLS)
    remote = grid.remote_id(job)
    wait_for(grid, remote, "qw")
    return job, remote


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """What happened to a job that waited at beta."""

    ran: tuple[str, ...]  # what it wrote
    why: str  # before beta had room
    state_there: str  # before beta had room; empty: gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    jobs: Mapping[str, Waited]
    decisions: list[dict[str, Any]]


@pytest.fixture(scope="module")
def waited(recalled: Recalled) -> Mapping[str, Waited]:
    return recalled.jobs


@pytest.fixture(scope="module")
def recalled(grid: Grid) -> Recalled:
    """Allow one recall per task, after 10 s, and let three jobs wait at beta for longer.

    `often` comes home and is sent again. Later `long` comes home, although it has waited for less time.
    """
    quick = r"/^\[queue.transfer-beta\]/a recall_wait_s = 10\nrecall_limit = 1"
    grid.sh("alpha-master", "rm -f *.ran", user="alice")
    grid.sh("alpha-master", f"umask 022; printf '{FORGED}' >{SPOOL}/m.forged", user="bob")
    with configured(grid, quick), full_beta(grid):
        only = grid.transfer("-N", "only", *QUIET, script=TELLS)
        often, _ = waits_away(grid, "often")
        kept = {"only": grid.remote_id(only), "often": crosses_again(grid, often)}
        long, kept["long"] = waits_away(grid, "long")
        jobs = {"only": only, "often": often, "long": long}
        grid.until(lambda: ends(grid, long), "the end of the one that waited for less", 90)
        thought_of = f"event=no_recall name=gb.alpha.{only}."
        grid.until(lambda: grid.logged(thought_of), "the other to be thought of")
        told = {name: why(grid, job) for name, job in jobs.items()}
        there = grid.states("beta")
    for job in (only, often):
        grid.until(lambda j=job: ends(grid, j), "its end")
    found = {
        name: Waited(ran=tuple(lines(grid, f"{name}.ran")), why=told[name], state_there=there.get(kept[name], ""))
        for name in jobs
    }
    refused = f"{SPOOL}/m.forged"
    grid.until(lambda: not grid.on("alpha-master", "ls", refused).out, "the forgery to be refused", 90)
    return Recalled(jobs=found, decisions=grid.decisions())


def crosses_again(grid: Grid, job: str) -> str:
    """Let a job be recalled, close home before it starts, and return its second remote id."""
    with ExitStack() as closing:
        with no_scheduler(grid):
            grid.until(lambda: "recall: recalled from beta" in why(grid, job), "its recall", 60)
            grid.until(lambda: "q" in grid.states().get(job, ""), "it to wait at home", 60)
            closing.enter_context(closed_home(grid))
        kept = grid.until(lambda: grid.remote_ids(job)[1:], "it to cross again", 60)
        wait_for(grid, *kept, "qw")
    return kept[0]


def test_a_task_that_waits_long_comes_home_to_a_free_slot(waited: Mapping[str, Waited]) -> None:
    job = waited["long"]

    assert [line.partition("-n")[0] for line in job.ran] == ["start alpha", "end"]
    assert "recalled from beta: the task waited there for" in job.why
    assert "the limit is 10 s, the task needs 1 slot and" in job.why
    assert job.state_there == ""


def test_a_task_that_could_run_nowhere_else_stays_at_its_cluster(waited: Mapping[str, Waited]) -> None:
    job = waited["only"]

    assert job.state_there == "qw"
    assert job.ran[0].startswith("start beta-")


@pytest.mark.long
def test_a_task_that_came_home_as_often_as_it_may_stays_where_it_waits(waited: Mapping[str, Waited]) -> None:
    """A task that has waited for less time comes home instead."""
    job = waited["often"]

    assert job.state_there == "qw"
    assert [line.partition("-n")[0] for line in job.ran] == ["start beta", "end"]
    assert job.why.count("recall: ") == 1
    assert waited["long"].ran[0].startswith("start alpha")


@pytest.mark.parametrize(
    ("program", "decided"),
    [("poller recall", "recall gb.alpha."), ("poller refusal", "refuse gb.alpha.999999.0.1: ")],
    ids=["recall", "refusal"],
)
def test_a_recall_is_replayed_from_the_state_file_with_the_same_result(
    grid: Grid, recalled: Recalled, program: str, decided: str
) -> None:
    """Another process replays the decision from the rows of the state file alone."""
    of_program = [one for one in recalled.decisions if one["program"] == program]
    kept = next(one for one in of_program if decided in one["sentence"])
    again = grid.replay(kept["decision"])

    assert (again.status, again.err) == (0, "")
    assert "; ".join(again.out.splitlines()) == kept["sentence"]


def test_waiting_tasks_come_home_from_a_drained_cluster(grid: Grid) -> None:
    with full_beta(grid):
        job, _ = waits_away(grid, "drained")
        grid.sh("alpha-master", "gridbridge drain beta --reason 'for a test'")
        try:
            grid.until(lambda: ends(grid, job), "its end", 90)
        finally:
            grid.sh("alpha-master", "gridbridge undrain beta")

    assert lines(grid, "drained.ran")[0].startswith("start alpha-n")
    assert "beta is drained, and the task waited there" in why(grid, job)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("wins", [1, pytest.param(20, marks=pytest.mark.long)])
def test_a_recall_races_with_the_start_and_the_job_runs_once(grid: Grid, wins: int) -> None:
    """Slots become free during recalls, so that each side wins about as often."""
    begun = recalls = 0
    for turn in count():
        if min(begun, recalls) >= wins:
            break
        assert turn < 6 + 2 * wins, (begun, recalls)
        hosts = race(grid, turn, wins)
        begun += sum(host.startswith("beta-") for host in hosts)
        recalls += sum(host.startswith("alpha-") for host in hosts)
    print(f"race: the start won {begun} times, the recall {recalls} times")  # noqa: T201


def race(grid: Grid, turn: int, wins: int) -> list[str]:
    """Run as many jobs as beta has slots; return where each of them ran."""
    names = [f"race{turn}-{n}-of-{wins}" for n in range(AT_ONCE)]
    with full_beta(grid):
        jobs = together(grid, names)
        fill = [key for key, state in grid.states("beta").items() if state == "r"]
        early, late = (free, wish) if turn % 2 else (wish, free)
        early(grid, jobs, fill)
        time.sleep(0.3 * (turn // 2 % 8))  # the pace of the race, not a wait
        late(grid, jobs, fill)
        grid.until(lambda: all(ends(grid, job) for job in jobs), f"{jobs} to end", 90)
    ran = [lines(grid, f"{name}.ran") for name in names]
    found = [host for each in ran for host in starts(each)]
    assert [len(each) for each in ran] == [2] * AT_ONCE, ran
    return found


def wish(grid: Grid, jobs: list[str], fill: list[str]) -> None:
    """Request recalls of the jobs as the service does."""
    del fill
    uid = grid.sh("alpha-master", "id -u alice").strip()
    grid.sh("alpha-master", WISH.format(jobs=" ".join(jobs), verdicts=VERDICTS, uid=uid))


def free(grid: Grid, jobs: list[str], fill: list[str]) -> None:
    del jobs
    grid.cell("beta", "qdel", *fill, user="bob")
