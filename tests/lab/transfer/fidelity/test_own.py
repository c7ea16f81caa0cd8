"""Inside a transferred job its own number addresses the job itself, as at home."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.lab.away import QUIET, lines
from tests.lab.configured import configured
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

NODES = ("beta-n1", "beta-n2")
SCRIPT = """qstat -j $JOB_ID | sed -n 's/^job_number: *//p' >own.number
echo $GRIDBRIDGE_REMOTE_JOB_ID >own.there
qsub -hold_jid $JOB_ID -N next -o /dev/null -j y next.sh $JOB_ID >/dev/null
qalter -ac told=$JOB_ID $JOB_ID >/dev/null
qstat -j $JOB_ID | grep -o told=.* >own.told
sleep 3
echo own >>own.ran
qdel $JOB_ID
sleep 60
echo survived >>own.ran
"""
NEXT = "echo next $1 >>own.ran\n"
BY_REMOTE = r'/^\[queue.transfer-beta\]/a identity = "remote"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Came:
    """The output of commands that a job ran on itself."""

    job: str
    status: str
    number: list[str]
    there: list[str]
    told: list[str]
    ran: list[str]


@pytest.fixture(scope="module")
def submitting(grid: Grid) -> Iterator[None]:
    grid.cell("beta", "qconf", "-as", ",".join(NODES), user="root")
    yield
    grid.cell("beta", "qconf", "-ds", ",".join(NODES), user="root")


@pytest.fixture(scope="module")
def came(grid: Grid, submitting: None) -> Came:
    del submitting
    grid.sh("alpha-master", f"rm -f own.* && printf '{NEXT}' >next.sh", user="alice")
    empty = ("-b", "y", "-o", "/dev/null", "-j", "y", "true")
    at_beta = grid.submit(*empty, cluster="beta")
    while grid.submit(*empty) == at_beta:
        pass  # until the next job numbers of alpha and beta differ
    job = grid.transfer("-N", "own", *QUIET, script=SCRIPT)
    record = grid.accounting(job)
    grid.until(lambda: len(lines(grid, "own.ran")) > 1, "the next one to run", 30)
    number, there, told, ran = (lines(grid, f"own.{name}") for name in ("number", "there", "told", "ran"))
    status = record["exit_status"].split()[0]
    return Came(job=job, status=status, number=number, there=there, told=told, ran=ran)


def test_a_job_queries_and_changes_itself_under_its_own_number(came: Came) -> None:
    assert came.number == came.there != [came.job]
    assert came.told == [f"told={came.job}"]


def test_a_dependent_job_starts_after_a_transferred_job_that_deletes_itself(came: Came) -> None:
    """The home id in `-hold_jid` is translated. The same id in an argument arrives unchanged."""
    assert came.status == "137"
    assert came.ran == ["own", f"next {came.job}"]


def test_a_queue_may_give_its_jobs_their_remote_number(grid: Grid, submitting: None) -> None:
    del submitting
    grid.sh("alpha-master", "rm -f own.*", user="alice")
    with configured(grid, BY_REMOTE):
        script = "echo $JOB_ID $GRIDBRIDGE_HOME_JOB_ID >own.both; qdel $JOB_ID; sleep 60\n"
        job = grid.transfer("-N", "own", *QUIET, script=script)
        record = grid.accounting(job)

    assert lines(grid, "own.both") == [f"{grid.remote_id(job)} {job}"]
    assert record["exit_status"].split()[0] == "137"
