"""Recall: a task that waits at beta comes home to a free slot, and never runs twice."""

import os
import time
from collections.abc import Iterator
from itertools import count

import pytest

from tests.lab.away import QUIET, TELLS, ends, full_beta, lines, starts, together, wait_for, why
from tests.lab.configured import configured
from tests.lab.grid import Grid

pytestmark = pytest.mark.lab

WINS = int(os.environ.get("RECALL_RACE_WINS", "1"))  # of each side, at least
AT_ONCE = 4  # beta's slots
VERDICTS = "/var/lib/gridbridge/published/verdicts"
WISH = """
for job in {jobs}; do
    transfer=gb.alpha.$job.0.1
    record=$(grep -l "^transfer=$transfer$" /var/spool/gridbridge/m.*) || continue # it ended
    wake=/var/spool/gridbridge/wake/$(sed -n s/^wake=//p $record | tail -1)
    [ -p $wake ] || continue
    mkdir -p {verdicts}/{uid}
    printf 'transfer=%s\\noutcome=recall\\nreason=recalled from beta\\n' $transfer >/tmp/wish
    chown gridbridge: {verdicts}/{uid} /tmp/wish && mv /tmp/wish {verdicts}/{uid}/$transfer
    echo 1<>$wake
done
"""


@pytest.fixture(autouse=True)
def _fresh_notes(grid: Grid) -> None:
    grid.sh("alpha-master", "rm -f *.ran", user="alice")


@pytest.fixture
def quick(grid: Grid) -> Iterator[None]:
    """Let tasks come home that waited for 10 s, once each."""
    with configured(grid, r"/^\[queue.transfer-beta\]/a recall_wait_s = 10\nrecall_limit = 1"):
        yield


def waits_away(grid: Grid, name: str, *options: str) -> tuple[str, str]:
    """Return a job that could run at home and waits at beta, and its id there."""
    job = grid.overflow("-N", name, *QUIET, *options, script=TELLS)
    remote = grid.remote_id(job)
    wait_for(grid, remote, "qw")
    return job, remote


@pytest.mark.usefixtures("quick")
def test_a_task_that_waits_long_comes_home_to_a_free_slot(grid: Grid) -> None:
    with full_beta(grid):
        job, remote = waits_away(grid, "long")
        grid.until(lambda: ends(grid, job), "its end", 60)
        told = why(grid, job)

    assert [line.partition("-n")[0] for line in lines(grid, "long.ran")] == ["start alpha", "end"]
    assert "recalled from beta: it waited there for" in told
    assert "10 s is the limit, it needs 1 slot and" in told
    assert remote not in grid.states("beta")


@pytest.mark.usefixtures("quick")
def test_what_could_run_nowhere_else_stays_where_it_waits(grid: Grid) -> None:
    with full_beta(grid):
        job = grid.transfer("-N", "only", *QUIET, script=TELLS)
        kept = grid.remote_id(job)
        told = "event=no_recall name=gb.alpha"
        log = "cat /var/lib/gridbridge/poller.log"
        grid.until(lambda: told in grid.sh("alpha-master", log), "it to be thought of", 60)

        assert grid.states("beta").get(kept) == "qw"
    grid.until(lambda: ends(grid, job), "its end")
    assert lines(grid, "only.ran")[0].startswith("start beta-")


@pytest.mark.usefixtures("quick")
def test_a_task_that_came_home_as_often_as_it_may_stays_where_it_waits(grid: Grid) -> None:
    """It goes out again; one that has waited there for less comes home then, and it does not."""
    with full_beta(grid):
        job, _ = waits_away(grid, "often")
        grid.until(lambda: "recall: recalled from beta" in why(grid, job), "its recall", 60)
        grid.cell("alpha", "qmod", "-d", "all.q", user="root")
        try:
            kept = grid.until(lambda: grid.remote_ids(job)[1:], "it to cross again", 60)
            wait_for(grid, *kept, "qw")
        finally:
            grid.cell("alpha", "qmod", "-e", "all.q", user="root")
        other, _ = waits_away(grid, "other")
        grid.until(lambda: ends(grid, other), "the end of the other", 90)
        told = why(grid, job)

        assert grid.states("beta").get(*kept) == "qw"
    grid.until(lambda: ends(grid, job), "its end")
    assert [line.partition("-n")[0] for line in lines(grid, "often.ran")] == ["start beta", "end"]
    assert told.count("recall: ") == 1


def test_a_drained_cluster_gives_back_what_waits(grid: Grid) -> None:
    with full_beta(grid):
        job, _ = waits_away(grid, "drained")
        grid.sh("alpha-master", "gridbridge drain beta --reason 'for a test'")
        try:
            grid.until(lambda: ends(grid, job), "its end", 90)
        finally:
            grid.sh("alpha-master", "gridbridge undrain beta")

    assert lines(grid, "drained.ran")[0].startswith("start alpha-n")
    assert "beta is drained, and it waited there" in why(grid, job)


@pytest.mark.timeout(1800)
def test_a_recall_races_with_the_start_and_the_job_runs_once(grid: Grid) -> None:
    """Slots get free while tasks are wished home, so that each side wins so many times."""
    begun = recalls = 0
    for turn in count():
        if min(begun, recalls) >= WINS:
            break
        assert turn < 6 + 2 * WINS, (begun, recalls)
        hosts = race(grid, turn)
        begun += sum(host.startswith("beta-") for host in hosts)
        recalls += sum(host.startswith("alpha-") for host in hosts)
    print(f"race: the start won {begun} times, the recall {recalls} times")  # noqa: T201


def race(grid: Grid, turn: int) -> list[str]:
    """Run a turn with as many jobs as beta has slots; return where each of them ran."""
    names = [f"race{turn}-{n}" for n in range(AT_ONCE)]
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
    """Wish for the jobs as the service does."""
    del fill
    uid = grid.sh("alpha-master", "id -u alice").strip()
    grid.sh("alpha-master", WISH.format(jobs=" ".join(jobs), verdicts=VERDICTS, uid=uid))


def free(grid: Grid, jobs: list[str], fill: list[str]) -> None:
    """Free every slot of beta."""
    del jobs
    grid.cell("beta", "qdel", *fill, user="bob")
