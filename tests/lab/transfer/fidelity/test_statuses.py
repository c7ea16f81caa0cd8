"""An exit status comes home unchanged through accounting alone, for every status and cluster.

Delta and gamma do not share the spool, and beta's wrapper is told that it doesn't: no message
reports the end.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab import delta, gamma
from tests.lab.away import QUIET, ends, once, reason
from tests.lab.configured import configured
from tests.lab.gamma import Gamma
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(400)]

STATUSES = (0, 1, 98, 99, 100, 101, 127, 128, 129, 130, 137, 143, 198, 199, 200, 201, 254, 255)
AGAIN, ERROR = 99, 100  # sge_shepherd(8)
LOST_BY_EXECD = "21"  # sge_status(5): "in recognizing job"
UNSEEN = "s/^spool_shared = true/spool_shared = false/"
HOMES = {  # where jobs of alice's write
    "beta": ("alpha-master", "alice"),
    "delta": (delta.FAR, delta.ACCOUNT),
    "gamma": (gamma.FAR, gamma.ACCOUNT),
}
SCRIPT = f"""set -- {" ".join(map(str, STATUSES))}
shift $((SGE_TASK_ID - 1))
echo "$SGE_TASK_ID $1 $RESTARTED" >>$JOB_NAME.ran
[ "$1 $RESTARTED" != "{AGAIN} 1" ] || exit 0
exit $1
"""
LIMIT_S = 180


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """The ends at home of an array with one task for each exit status."""

    exit_statuses: dict[str, str]  # of each task that ended, by its own status
    in_error: list[str]  # the tasks in error state, by their status
    ran: list[str]  # what was written there
    unable: str  # what `qstat -j` says of a job whose shell is not there


@pytest.fixture(scope="module")
def came(grid: Grid, all_open: None) -> Iterator[dict[str, Came]]:
    del all_open
    for host, account in HOMES.values():
        grid.sh(host, "rm -f to-*.ran", user=account)
    with configured(grid, UNSEEN), delta.many_slots(grid):
        delta.until_open(grid)
        Gamma(grid).until_open()
        jobs = {cluster: send(grid, cluster) for cluster in HOMES}
        unable = {cluster: send_unable(grid, cluster) for cluster in HOMES}
        try:
            for cluster in HOMES:
                jobs[cluster] = through(grid, cluster, jobs[cluster])
            yield {each: look(grid, each, job, unable[each]) for each, job in jobs.items()}
        finally:
            grid.cell("alpha", "qdel", *jobs.values(), *unable.values())
            grid.until(lambda: not grid.states(), "home to be empty", LIMIT_S)


def send(grid: Grid, cluster: str) -> str:
    options = ("-q", f"transfer-{cluster}", "-N", f"to-{cluster}", "-t", f"1-{len(STATUSES)}")
    return grid.submit(*options, *QUIET, script=SCRIPT)


def send_unable(grid: Grid, cluster: str) -> str:
    return grid.submit("-q", f"transfer-{cluster}", "-S", "/no/such/shell", *QUIET, script="true\n")


def through(grid: Grid, cluster: str, job: str) -> str:
    """Wait until a job is done, and return its id.

    If home's execd lost a task, submit the job again: a loaded execd may still clean up the task's former run.
    """
    grid.until(lambda: is_through(grid, job), f"{job} to be through", LIMIT_S)
    if not any(one["failed"].split()[0] == LOST_BY_EXECD for one in grid.records(job)):
        return job
    grid.cell("alpha", "qdel", job)
    host, account = HOMES[cluster]
    grid.sh(host, f"rm -f to-{cluster}.ran", user=account)
    return through(grid, cluster, send(grid, cluster))


def is_through(grid: Grid, job: str) -> bool:
    """Say whether all tasks but those in error state have ended."""
    left = [state for task, state in grid.states().items() if task.split(".")[0] == job]
    return all("E" in state for state in left) and bool(ends(grid, job, len(STATUSES) - len(left)))


def look(grid: Grid, cluster: str, job: str, unable: str) -> Came:
    host, account = HOMES[cluster]
    told = {str(STATUSES[int(one["taskid"]) - 1]): one for one in ends(grid, job)}
    error = [task for task in grid.states() if task.split(".")[0] == job]
    return Came(
        exit_statuses={status: one["exit_status"].split()[0] for status, one in told.items()},
        in_error=[str(STATUSES[int(task.split(".")[1]) - 1]) for task in error],
        ran=grid.sh(host, f"cat to-{cluster}.ran", user=account).splitlines(),
        unable=reason(grid, unable),
    )


@pytest.mark.parametrize("cluster", HOMES)
def test_every_exit_status_comes_home_as_it_is_and_its_task_ran_once(came: dict[str, Came], cluster: str) -> None:
    """Status 99 reruns the task, which then succeeds; 100 puts its task into error state."""
    told = came[cluster]
    expected = {str(each): str(each) for each in STATUSES} | {str(AGAIN): "0"}
    ran = [f"{task} {status} 0" for task, status in enumerate(STATUSES, 1)]
    again = f"{STATUSES.index(AGAIN) + 1} {AGAIN} 1"

    assert (expected, [str(ERROR)]) == (told.exit_statuses, told.in_error)
    assert sorted([*ran, again]) == sorted(once(told.ran))


@pytest.mark.parametrize("cluster", HOMES)
def test_a_job_that_could_not_start_shows_the_reason_and_the_host(came: dict[str, Came], cluster: str) -> None:
    """From a cluster by ssh or an OAR cluster, the wrapper's end is the only message."""
    assert f"can not find its shell or program on {cluster}-n" in came[cluster].unable
