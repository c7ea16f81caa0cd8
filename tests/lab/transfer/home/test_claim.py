"""Claims by file at beta: a task comes home while beta is silent, and never runs twice.

The lab's hosts share the spool through their machine's disk, which stays reachable when a link is cut.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count

import pytest

from tests.lab.away import QUIET, TELLS, cut, ends, full_beta, lines, starts, together, wait_for, why
from tests.lab.grid import Grid
from tests.lab.transfer.home.claimed import claimed, claims, frozen_poller

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

WINS = int(os.environ.get("CLAIM_RACE_WINS", "20"))  # of each side, at least
AT_ONCE = 4  # beta's slots


@pytest.fixture(scope="module")
def by_file(grid: Grid) -> Iterator[None]:
    with claimed(grid, "beta", "file"):
        yield


@pytest.fixture(autouse=True)
def _fresh(grid: Grid, by_file: None) -> Iterator[None]:
    grid.require_ready()
    yield
    grid.lab("net", "beta-master", "heal")
    grid.until(lambda: claims(grid) == "", "no claim to be left", 120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Messages about two jobs that came home from silent beta, and the accounting of a remote copy."""

    told: Mapping[str, str]
    copy: Mapping[str, str]


@pytest.fixture(scope="module")
def silence(grid: Grid, by_file: None) -> Silence:
    """Cut off beta while it is full, and free its slots when the link is back.

    The service is frozen at that time, so the copy that starts has to fence itself. The other copy is held until
    the service runs again and deletes it.
    """
    grid.sh("alpha-master", "rm -f silent.ran copy.ran", user="alice")
    with full_beta(grid):
        ids = dict(zip(("silent", "copy"), together(grid, ["silent", "copy"]), strict=True))
        remotes = {name: grid.remote_id(job) for name, job in ids.items()}
        with ExitStack() as frozen:
            with cut(grid, "beta"):
                grid.until(lambda: all(ends(grid, job) for job in ids.values()), "their ends", 120)
                told = {name: why(grid, job) for name, job in ids.items()}
                frozen.enter_context(frozen_poller(grid))
            grid.sh("beta-master", f"qalter -h o {remotes['silent']}")
            free(grid)
            copy = grid.accounting(remotes["copy"], "beta", 120)
        wait_for(grid, remotes["silent"], "", limit_s=90)
    return Silence(told=told, copy=copy)


def hosts(grid: Grid, name: str) -> list[str]:
    """Return the clusters where a job started, in order; assert that the job ended once."""
    told = lines(grid, f"{name}.ran")
    found = [host.partition("-")[0] for host in starts(told)]
    assert told[1:] == ["end"], told
    return found


def test_a_job_that_has_its_claim_runs_as_without_claims(grid: Grid) -> None:
    grid.sh("alpha-master", "rm -f usual.ran", user="alice")
    job = grid.transfer("-N", "usual", *QUIET, script=TELLS + "exit 7\n")
    record = grid.accounting_of_end(job)

    assert record["exit_status"].split()[0] == "7"
    assert hosts(grid, "usual") == ["beta"]


READS = r"""
cat /var/spool/gridengine/beta/execd/*/job_scripts/$0 2>/dev/null
qstat -j $0
cat /var/spool/gridengine/beta/execd/*/active_jobs/$0.1/* 2>/dev/null
ls -l /var/spool/gridbridge /var/spool/gridbridge/claims 2>&1
cat /var/spool/gridbridge/claims/*.key 2>&1
"""


def test_nobody_else_can_take_a_claim(grid: Grid) -> None:
    """Every user at beta may read the job's script, arguments, environment and context."""
    job = grid.transfer("-N", "seen", *QUIET, script="sleep 60\n")
    remote = grid.remote_id(job)
    wait_for(grid, remote, "r")
    grid.until(lambda: len(claims(grid).split()) == 2, "the job's claim and its key")
    claim, key = sorted(claims(grid).split(), key=len, reverse=True)
    host = grid.cell("beta", "qstat", "-u", "alice", user="bob").out
    on = next(name for name in ("beta-master", "beta-n1", "beta-n2") if name in host)
    script = f"set -- {remote}; " + READS.replace("$0", "$1")
    told = grid.sh(on, f"{script}\nexit 0", user="bob")
    word = claim.removeprefix(key.removesuffix(".key"))
    refused = grid.on(on, "cat", f"/var/spool/gridbridge/claims/{key}", user="bob")
    grid.cell("alpha", "qdel", job)

    assert key in told
    assert len(word) == 32
    assert word not in told
    assert (refused.status, "Permission denied" in refused.err) == (1, True)


def test_a_task_comes_home_from_a_silent_cluster_and_nothing_is_left_there(grid: Grid, silence: Silence) -> None:
    for told in silence.told.values():
        assert "claimed by home: recalled from beta: beta has not answered for" in told
        assert "the limit is 12 s, the task needs 1 slot and" in told
    assert hosts(grid, "silent") == ["alpha"]


def test_a_copy_that_starts_when_the_link_is_back_fences_itself(grid: Grid, silence: Silence) -> None:
    assert silence.copy["exit_status"].split()[0] == "199"
    assert hosts(grid, "copy") == ["alpha"]


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_recall_races_with_the_start_for_the_claim_and_the_job_runs_once(grid: Grid) -> None:
    """Slots become free during recalls, so that each side wins about as often."""
    grid.sh("alpha-master", "rm -f race*.ran", user="alice")
    begun = recalls = 0
    for turn in count():
        if min(begun, recalls) >= WINS:
            break
        assert turn < 8 + 2 * WINS, (begun, recalls)
        ran = race(grid, turn)
        begun += ran.count("beta")
        recalls += ran.count("alpha")
    print(f"race: the start won {begun} times, the recall {recalls} times")  # noqa: T201


def race(grid: Grid, turn: int) -> list[str]:
    names = [f"race{turn}-{n}" for n in range(AT_ONCE)]
    with full_beta(grid):
        jobs = together(grid, names)
        time.sleep(10)  # what was just released is not recalled (decisions.recall.SETTLED)
        early, late = (free, drain) if turn % 2 else (drain, free)
        try:
            early(grid)
            time.sleep(0.7 * (turn // 2 * 3 % 11))  # the pace of the race, not a wait
            late(grid)
            grid.until(lambda: all(ends(grid, job) for job in jobs), f"{jobs} to end", 120)
        finally:
            grid.sh("alpha-master", "gridbridge undrain beta")
    grid.require_ready()
    return [host for name in names for host in hosts(grid, name)]


def drain(grid: Grid) -> None:
    """Drain beta, so that the service recalls all jobs that wait there."""
    grid.sh("alpha-master", "gridbridge drain beta --reason 'for a race'")


def free(grid: Grid) -> None:
    fill = [key for key, state in grid.states("beta").items() if state == "r"]
    grid.cell("beta", "qdel", *fill, user="bob")
