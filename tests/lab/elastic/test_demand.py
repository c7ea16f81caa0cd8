"""The demand that the balancer's policy computes from several kinds of jobs waiting in the lab's alpha."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.elastic.test_plan import plan
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

HOST = "alpha-master"
TOML = "/var/lib/gridbridge/gridbridge.toml"
MAXIMUM = "s/^#max_nodes = .*/max_nodes = 20/"
POOL = '[pool.usual]\nslots = 4\nresources = { gbt_mem = "8G" }\n'
COMPLEXES = ("gbt_mem gbt_mem MEMORY <= YES YES 0 0", "gbt_lic gbt_lic INT <= YES YES 0 0")
POOL_FILE = ("--config", "pool.toml")
OTHER = "other.q"  # no node of the pool is in it
LISTED, PROJECT = "listed.q", "project.q"  # new nodes are in both; neither is for everybody
CHECKPOINT = "gbt_ckpt"  # in no queue
QUEUE = (
    "qconf -sq | sed 's/^qname .*/qname {0}/; s/^hostlist .*/hostlist @allhosts/;"
    " s/^slots .*/slots 0/; s/^{1} .*/{1} {2}/' >queue && qconf -Aq queue"
)
PROJECT_ROWS = "name gbt_project\\noticket 0\\nfshare 0\\nacl NONE\\nxacl NONE\\n"
CHECKPOINT_ROWS = (
    f"ckpt_name {CHECKPOINT}\\ninterface USERDEFINED\\nckpt_command none\\nmigr_command none\\n"
    "restart_command none\\nclean_command none\\nckpt_dir /tmp\\nsignal none\\nwhen sx\\n"
)
SLEEP = ("-b", "y", "-o", "/dev/null", "-j", "y", "sleep", "600")


@pytest.fixture(scope="module")
def full(grid: Grid) -> Iterator[Grid]:
    lines = "\n".join(COMPLEXES)
    for script in (
        "qconf -au bob gbt_staff",
        f"printf '{PROJECT_ROWS}' >project && qconf -Aprj project",
        f"printf '{CHECKPOINT_ROWS}' >ckpt && qconf -Ackpt ckpt",
        f"qconf -sc >complexes && (cat complexes; echo '{lines}') >more && qconf -Mc more",
        "qconf -rattr exechost complex_values gbt_lic=1 global",
        f"qconf -sq | sed 's/^qname .*/qname {OTHER}/; s/^hostlist .*/hostlist alpha-n1/;"
        " s/^slots .*/slots 0/' >queue && qconf -Aq queue",
        f"{QUEUE.format(LISTED, 'user_lists', 'gbt_staff,[alpha-n1=NONE]')}",
        f"{QUEUE.format(PROJECT, 'projects', 'gbt_project')}",
    ):
        grid.sh(HOST, f"cd /root && {script}")
    grid.sh(HOST, f"umask 022 && (sed '{MAXIMUM}' {TOML}; echo '{POOL}') >pool.toml", user="bob")
    usual = grid.submit("-q", "all.q", "-t", "1-3", *SLEEP)
    licensed = grid.submit("-q", "all.q", "-l", "gbt_lic=1", *SLEEP)
    try:
        grid.until(lambda: 4 == list(grid.states().values()).count("r"), "alpha to be full")
        yield grid
    finally:
        grid.cell("alpha", "qdel", usual, licensed, user="root")
        grid.until(lambda: not grid.states(), "alpha to be empty")
        grid.sh(HOST, "rm -f pool.toml", user="bob")
        gone = f"{LISTED}; qconf -dq {PROJECT}; qconf -dprj gbt_project; qconf -dul gbt_staff"
        grid.sh(HOST, f"qconf -dq {gone}; qconf -dckpt {CHECKPOINT}")
        grid.sh(HOST, f"qconf -dq {OTHER}; qconf -dattr exechost complex_values gbt_lic=1 global")
        grid.sh(HOST, "cd /root && qconf -Mc complexes && rm -f complexes more queue ckpt project")


@contextmanager
def waiting(grid: Grid, *requests: str) -> Iterator[list[int]]:
    jobs = [grid.submit(*request.split(), *SLEEP) for request in requests]
    try:
        grid.until(lambda: all(_waits(grid, job) for job in jobs), f"{jobs} to wait")
        yield [int(job) for job in jobs]
    finally:
        grid.cell("alpha", "qdel", *jobs, user="root")


def _waits(grid: Grid, job: str) -> bool:
    return any("qw" == at for key, at in grid.states().items() if job == key.partition(".")[0])


@pytest.mark.parametrize(
    ("requests", "nodes"),
    [
        (["-q all.q -pe smp 4"] * 2, 2),
        (["-q all.q -pe smp 3"] * 2, 2),
        (["-q all.q -pe mpi 6"], 2),
        (["-q all.q -l gbt_mem=6G"] * 3, 3),
        (["-q all.q -l gbt_mem=4G"] * 3, 2),
        (["-q all.q -t 1-10 -tc 3"], 1),
        (["-q all.q -t 1-10"], 3),
        ([f"-q all.q,{OTHER}", "-q all.q -pe smp 2"], 1),
    ],
    ids=["whole nodes", "one each", "two nodes", "memory", "two of it", "-tc", "array", "queues"],
)
def test_as_many_nodes_are_added_as_the_waiting_tasks_need(full: Grid, requests: list[str], nodes: int) -> None:
    with waiting(full, *requests):
        found = plan(full, *POOL_FILE)

    assert (nodes, "usual") == (found["add"], found["pool"]), found


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ("-q all.q -pe smp 9", "the job needs 9 slots on one host, and a new node has 4"),
        ("-q all.q -l gbt_mem=9G", "the job needs 9G of gbt_mem on one host, and a new node has 8G"),
        ("-q all.q -l gbt_lic=1", "the job needs 1 of gbt_lic, and the whole cell has 0 left"),
        (f"-q {OTHER}", f"no new node would be in a queue that the job may use ({OTHER})"),
        (f"-q {LISTED}", "no queue of a new node admits user alice"),
        (f"-q {PROJECT}", "no queue of a new node admits jobs without a project"),
        (f"-q all.q -ckpt {CHECKPOINT}", f"no queue of a new node admits checkpointing environment {CHECKPOINT}"),
    ],
    ids=["slots", "memory", "licence", "queue", "users", "project", "checkpoint"],
)
def test_a_job_that_no_new_node_could_run_adds_none_and_gets_the_reason(full: Grid, request_: str, reason: str) -> None:
    with waiting(full, request_) as (job,):
        found = plan(full, *POOL_FILE)
        told = full.on(HOST, *f"gridbridge balance explain {job} --config pool.toml".split(), user="bob")

    assert 0 == found["add"], found
    assert {"job": job, "reason": reason} in found["refused"]
    assert f"{job}: {reason}" in told.out
