"""Transfers to gamma run exactly once although its server, its database or a node fails."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.away import once
from tests.lab.configured import configured
from tests.lab.gamma import ACCOUNT, DISK, FAR, LONG_S, NODES, QUEUE, Gamma
from tests.lab.grid import Grid
from tests.lab.transfer.home.claimed import frozen_poller

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

RAN = 'echo "$JOB_ID" >>ran\n'
UNTIL_GO = f"until [ -e go ]; do sleep 0.1; done\n{RAN}"
BESTEFFORT = r'/^\[queue.transfer-gamma\]/a oar_type = "besteffort"'
STANDBY, NEVER_HALTED = 2147483646, 2147483647  # available_upto


@pytest.fixture(scope="module")
def gamma(grid: Grid, open_to_gamma: None) -> Iterator[Gamma]:
    """Return gamma with its queue open, where all transferred jobs are best effort."""
    far = Gamma(grid)
    with configured(grid, BESTEFFORT):
        far.until_open()
        yield far
    far.clear()


@pytest.fixture(autouse=True)
def healed(gamma: Gamma) -> Iterator[None]:
    gamma.grid.sh(FAR, "rm -f go ran ./*.[oe][0-9]*", user=ACCOUNT)
    yield
    gamma.grid.sh(FAR, "labctl start postgresql; labctl start oar-server")
    for node in NODES:
        gamma.grid.sh(node, f"chmod 755 {DISK}")
        usual = f"-s Alive -p available_upto={NEVER_HALTED}"
        gamma.grid.sh(FAR, f"oarnodesetting -h {node} {usual}")
    gamma.clear()


def go(gamma: Gamma) -> None:
    gamma.grid.sh(FAR, "touch go", user=ACCOUNT)


def until_each_ran_once(gamma: Gamma, *jobs: str) -> None:
    """Wait for the ends at home; assert that each job ran once at gamma."""
    records = [gamma.grid.accounting_of_end(job, LONG_S) for job in jobs]

    assert [("0", "0")] * len(jobs) == [(each["failed"].split()[0], each["exit_status"]) for each in records]
    assert sorted(jobs) == sorted(once(gamma.read("ran").split()))


@pytest.mark.long
def test_a_restarted_server_finds_its_jobs_again(gamma: Gamma) -> None:
    """One job runs and ends while the server is down, one job waits, and one job is sent."""
    running = gamma.submit(UNTIL_GO)
    gamma.until_state(gamma.number(running), "Running")
    waiting = gamma.submit(RAN, "-pe", "smp", "2")
    gamma.number(waiting)
    gamma.grid.sh(FAR, "labctl stop oar-server")
    sent = gamma.submit(RAN)
    gamma.until_told(sent, "Cannot connect to executor")
    go(gamma)
    gamma.grid.sh(FAR, "labctl start oar-server")

    until_each_ran_once(gamma, running, waiting, sent)


@pytest.mark.long
def test_a_stopped_database_is_waited_for(gamma: Gamma) -> None:
    running = gamma.submit(UNTIL_GO)
    gamma.until_state(gamma.number(running), "Running")
    with frozen_poller(gamma.grid):  # it would close the queue
        gamma.grid.sh(FAR, "labctl stop postgresql")
        sent = gamma.submit(RAN)
        gamma.grid.until(lambda: "r" in gamma.grid.states()[sent], f"{sent} to be sent")
    gamma.until_told(running, "gamma, which has not answered")
    gamma.until_told(sent, "DBI connect")
    told = gamma.grid.on("alpha-master", "gridbridge", "check").out
    gamma.grid.sh(FAR, "labctl start postgresql")
    go(gamma)

    assert "gamma: OAR server" in told
    until_each_ran_once(gamma, running, sent)


@pytest.fixture
def closed_at_home(gamma: Gamma) -> Iterator[None]:
    gamma.grid.switch("-d", "all.q")
    yield
    gamma.grid.switch("-e", "all.q", QUEUE)


@pytest.mark.usefixtures("closed_at_home")
@pytest.mark.long
def test_a_preempted_best_effort_job_is_put_back_at_home(gamma: Gamma) -> None:
    """OAR kills the job to run an ordinary job. A preemption counts as no failure, so the job runs again.

    A job that may not run twice ends as killed.
    """
    best = gamma.submit(UNTIL_GO, "-r", "y", "-pe", "smp", "2")
    once_only = gamma.submit(UNTIL_GO, "-r", "n")
    number = gamma.number(best)
    for each in (number, gamma.number(once_only)):
        gamma.until_state(each, "Running")
    gamma.grid.switch("-d", QUEUE)
    wanted = "-l /nodes=2/resource_id=2,walltime=0:5:0"
    urgent = gamma.grid.sh(FAR, f"oarsub {wanted} 'sleep 300'", user="bo_gamma")
    gamma.until_told(best, "BESTEFFORT_KILL")
    kind = gamma.job(number)["queue"]
    gamma.grid.until(lambda: "q" in gamma.grid.states().get(best, ""), "it to be put back")
    killed = gamma.grid.accounting_of_end(once_only, LONG_S)
    gamma.grid.sh(FAR, f"oardel {urgent.rpartition('OAR_JOB_ID=')[2].split()[0]}", user="bo_gamma")
    gamma.grid.switch("-e", QUEUE)
    go(gamma)

    assert "besteffort" == kind
    assert "137" == killed["exit_status"].split()[0]
    until_each_ran_once(gamma, best)


@pytest.mark.long
@pytest.mark.usefixtures("closed_at_home")
def test_nothing_is_left_of_a_job_that_oar_resubmits_by_itself(gamma: Gamma) -> None:
    """No node can store the job's node list, so OAR keeps resubmitting it."""
    for node in NODES:
        gamma.grid.sh(node, f"chmod 555 {DISK}")
    job = gamma.submit(RAN, "-r", "y")
    number = gamma.number(job)
    gamma.grid.switch("-d", QUEUE)
    gamma.until_told(job, "RESUBMIT_JOB_AUTOMATICALLY")
    gamma.until_clean()
    seen = gamma.grid.sh(FAR, f"oarstat -f -J --sql 'job_id > {number}'", user="gb_gamma")
    for node in NODES:
        gamma.grid.sh(node, f"chmod 755 {DISK}")
        gamma.grid.sh(FAR, f"oarnodesetting -h {node} -s Alive")
    gamma.grid.switch("-e", QUEUE)

    assert int(number) in {copy["resubmit_job_id"] for copy in json.loads(seen).values()}
    until_each_ran_once(gamma, job)


@pytest.mark.long
def test_jobs_wait_while_a_node_is_absent_and_run_on_the_other(gamma: Gamma) -> None:
    gamma.grid.sh(FAR, "oarnodesetting -h gamma-n1 -s Absent")
    jobs = [gamma.submit(f"hostname >>hosts\n{RAN}", "-pe", "smp", "2") for _ in range(2)]
    until_each_ran_once(gamma, *jobs)

    assert ["gamma-n2"] * 2 == gamma.read("hosts").split()
    gamma.grid.sh(FAR, "rm hosts", user=ACCOUNT)
    gamma.grid.until(lambda: free_slots(gamma) == 2, "the absent node to be none")
    gamma.grid.sh(FAR, f"oarnodesetting -h gamma-n1 -p available_upto={STANDBY}")
    gamma.grid.until(lambda: free_slots(gamma) == 4, "the node in standby to be free")
    absent = gamma.grid.sh(FAR, "oarnodes -s")
    assert "Absent" in absent


def free_slots(gamma: Gamma) -> int:
    told = gamma.grid.on("alpha-master", "gridbridge", "status", "--json").out
    rows = {row["cluster"]: row["free_slots"] for row in json.loads(told)["clusters"]}
    return int(rows["gamma"])
