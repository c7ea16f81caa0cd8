"""Local jobs preempt exactly as many best-effort tasks as they need, and the preempted tasks run again.

Beta's two hosts have two slots each. Plain jobs in the best-effort queues fill the slots in the
first tests, campaigns in the later ones.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, arrays_at_gamma, outcomes, submit, until_state
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

BETA, NODE = "beta-master", "beta-n1"
SETUP = "gridbridge setup besteffort beta"
PATHS = "PATH=$PATH:/usr/lib/gridengine; export SGE_SINGLE_LINE=1; cd /tmp;"
DUMP = f"""{PATHS}
for what in -sc -sql '-sq all.q' '-srqs hosts' '-se global'; do qconf $what 2>&1; done
"""
# A licence of the whole cell, memory of a host, and a quota for every host.
OBJECTS = f"""{PATHS}
qconf -sc >sc && sed -i -e '/^lic /d' -e '/^mem /d' sc
echo 'lic lic INT <= YES YES 0 0' >>sc
echo 'mem mem MEMORY <= YES YES 0 0' >>sc
qconf -Mc sc
qconf -mattr exechost complex_values lic=1 global
qconf -mattr exechost complex_values mem=4G {NODE}
printf '%s\\n' '{{' 'name hosts' 'enabled TRUE' 'limit hosts {{*}} to slots=2' '}}' >rqs
qconf -Arqs rqs
"""
NO_OBJECTS = f"""{PATHS}
qconf -drqs hosts
qconf -dattr exechost complex_values lic=1 global
qconf -dattr exechost complex_values mem=4G {NODE}
qconf -sc >sc && sed -i -e '/^lic /d' -e '/^mem /d' sc && qconf -Mc sc
"""
SECOND = f"""{PATHS}
qconf -sq all.q |
    sed -e 's/^qname .*/qname long.q/' -e 's/^subordinate_list .*/subordinate_list NONE/' >long.q
qconf -Aq long.q
"""
FULL = {"gb-be1@beta-n1": 1, "gb-be2@beta-n1": 1, "gb-be1@beta-n2": 1, "gb-be2@beta-n2": 1}
PASSES = 15  # of the scheduler, one a second


@pytest.fixture(scope="module")
def before(grid: Grid) -> Iterator[str]:
    grid.sh(BETA, OBJECTS)
    yield grid.sh(BETA, DUMP)
    grid.sh(BETA, f"qdel -u '*'; {PATHS} qconf -sql | grep -qx long.q && qconf -dq long.q; :")
    grid.sh(HOST, f"{SETUP} --remove --apply")
    grid.sh(BETA, NO_OBJECTS)


@pytest.fixture(scope="module")
def site(site: Grid, before: str) -> Grid:
    del before
    site.sh(HOST, f"{SETUP} --apply")
    return site


@pytest.fixture
def full(site: Grid) -> Iterator[Grid]:
    site.sh(BETA, "qsub -t 1-4 -l gb_besteffort=true -b y sleep 600", user="bob")
    site.until(lambda: besteffort(site) == FULL, "four best-effort jobs to run")
    yield site
    site.sh(BETA, "qdel -u '*'; :")
    site.until_none(lambda: list(site.states("beta")), "beta to be empty")


def besteffort(grid: Grid) -> dict[str, int]:
    """Return the used slots of beta's best-effort queue instances, without unused instances."""
    return {name: used for name, used, _ in instances(grid) if used and name.startswith("gb-be")}


def suspended(grid: Grid) -> set[str]:
    return {name for name, _, state in instances(grid) if name.startswith("gb-be") and "S" in state}


def instances(grid: Grid) -> list[tuple[str, int, str]]:
    rows = (line.split() for line in grid.sh(BETA, "qstat -f -u '*'").splitlines())
    found = (row for row in rows if row and "@" in row[0])
    return [(row[0], int(row[2].split("/")[1]), row[5] if row[5:] else "") for row in found]


def local(grid: Grid, *options: str) -> str:
    words = ("qsub", "-terse", "-l", f"hostname={NODE}", *options, "-b", "y", "sleep", "600")
    done = grid.on(BETA, *words, user="alice")
    assert done.status == 0, done
    return done.out.strip()


def test_a_dry_run_prints_the_best_effort_set_up_and_changes_nothing(grid: Grid, before: str) -> None:
    said = grid.sh(HOST, f"{SETUP} --script")

    assert "qconf -Aq" in said
    assert said.index("-Mrqs") < said.index("-Aq") < said.index("-mattr queue subordinate_list")
    assert grid.sh(BETA, DUMP) == before


def test_best_effort_queues_are_made_once_and_confirmed_by_the_check(site: Grid) -> None:
    """The set-up changes only the cell's lists that have to name the queues."""
    assert "nothing to do" in site.sh(HOST, f"{SETUP} --apply")
    told = json.loads(site.on(HOST, "gridbridge", "check", "--json").out)["items"]
    ours = {one["name"]: one["state"] for one in told if "gb-be" in one["name"] + one["found"]}
    assert {"ok"} == set(ours.values())
    assert {"queue all.q: subordinate_list", "queue gb-be2: slots"} <= ours.keys()
    assert "resource quota hosts" in {one["name"] for one in told}
    found = [one for one in told if one["name"] == "alpha: best-effort queues"]
    assert found[0]["found"].startswith("none")


def test_a_limit_that_keeps_local_jobs_behind_tasks_is_named(site: Grid) -> None:
    """The check names a host's `slots`, which jobs of every queue consume."""
    value = f"exechost complex_values slots=2 {NODE}"
    site.sh(BETA, f"qconf -mattr {value}")
    try:
        done = site.on(HOST, "sh", "-c", SETUP)
    finally:
        site.sh(BETA, f"qconf -dattr {value}")

    assert f"consumable slots: best-effort tasks use slots at {NODE}" in done.err


@pytest.mark.parametrize(
    ("options", "left"),
    [((), {"gb-be2@beta-n1"}), (("-pe", "smp", "2"), set()), (("-l", "mem=3G,lic=1"), {"gb-be2@beta-n1"})],
    ids=["one slot", "a parallel job", "memory and a licence"],
)
def test_a_local_job_preempts_only_as_many_tasks_as_it_needs(
    full: Grid, options: tuple[str, ...], left: set[str]
) -> None:
    """The job preempts only tasks on its host. Neither a quota nor consumed resources delay the job."""
    job = local(full, *options)

    full.until(lambda: full.states("beta").get(job) == "r", "the local job to run", 15)
    full.until(lambda: on_node(besteffort(full)) == left, "tasks to make way", 15)
    assert {name: n for name, n in FULL.items() if "n2" in name}.items() <= besteffort(full).items()


@pytest.fixture
def exclusive(site: Grid) -> Iterator[None]:
    row = "alone alone BOOL EXCL YES YES 0 1000"
    site.sh(BETA, f"{PATHS} (qconf -sc; echo {row}) >sc && qconf -Mc sc")
    site.sh(BETA, f"{PATHS} qconf -mattr exechost complex_values alone=true {NODE}")
    yield
    site.sh(BETA, f"{PATHS} qconf -dattr exechost complex_values alone=true {NODE}")
    site.sh(BETA, f"{PATHS} qconf -sc | sed '/^alone /d' >sc && qconf -Mc sc")


@pytest.mark.long
@pytest.mark.usefixtures("exclusive")
def test_an_exclusive_job_waits_until_the_hosts_tasks_have_ended(full: Grid) -> None:
    """Grid Engine preempts tasks only for a job that has started; `setup` warns of this."""
    told = full.on(HOST, "sh", "-c", SETUP).err
    job = local(full, "-l", "alone=true")
    states = {_states_a_pass_later(full, job) for _ in range(3)}
    kept = besteffort(full)
    full.sh(BETA, "qdel -u bob")
    full.until(lambda: full.states("beta").get(job) == "r", "the local job to run", 15)

    assert "consumable alone: " in told
    assert NODE in told
    assert {"qw"} == states
    assert kept == FULL


def on_node(names: dict[str, int]) -> set[str]:
    return {name for name in names if name.endswith(NODE)}


@pytest.mark.long
def test_a_host_full_of_local_jobs_gets_no_best_effort_task(site: Grid) -> None:
    _full_of_local_jobs(site, PASSES)


@pytest.mark.long
def test_a_full_host_gets_no_best_effort_task_in_a_hundred_scheduler_runs(site: Grid) -> None:
    _full_of_local_jobs(site, 100)


def _full_of_local_jobs(grid: Grid, passes: int) -> None:
    grid.on(BETA, *["qsub", "-t", "1-4", "-b", "y", "sleep", "600"], user="alice")
    grid.until(lambda: len(suspended(grid)) == 4, "all to be suspended", 15)
    job = grid.sh(BETA, "qsub -terse -t 1-8 -l gb_besteffort=true -b y sleep 600", user="bob")
    number = job.partition(".")[0]
    seen = Counter(state for _ in range(passes) for state in (_states_a_pass_later(grid, number),))
    grid.sh(BETA, "qdel -u '*'; :")
    grid.until_none(lambda: list(grid.states("beta")), "beta to be empty")

    assert {"qw"} == set(seen)
    assert [] == grid.records(number, "beta")


def _states_a_pass_later(grid: Grid, job: str) -> str:
    grid.sh(BETA, "sleep 1")
    listed = grid.states("beta")
    return ",".join({state for name, state in listed.items() if name.split(".")[0] == job})


@pytest.mark.long
def test_on_a_host_with_two_local_queues_a_local_job_preempts_all_tasks(site: Grid) -> None:
    """Grid Engine does not add up the slots of both queues."""
    site.sh(BETA, SECOND)
    site.sh(HOST, f"{SETUP} --apply")
    site.sh(BETA, "qsub -t 1-4 -l gb_besteffort=true -b y sleep 600", user="bob")
    site.until(lambda: besteffort(site) == FULL, "four best-effort jobs to run")

    local(site, "-q", "long.q")

    site.until(lambda: on_node(besteffort(site)) == set(), "tasks to make way", 15)
    assert 2 == len(besteffort(site))
    site.sh(BETA, "qdel -u '*'; :")
    site.until_none(lambda: list(site.states("beta")), "beta to be empty")
    site.sh(BETA, f"{PATHS} qconf -dq long.q")
    site.sh(HOST, f"{SETUP} --apply")


# A task notes that it began and its checkpoint signals, waits until the tests let it go, and notes
# that it has ended.
RUN = """sh -c 'trap "echo saved $1 $CIGRI_CLUSTER >>notes" USR2
echo "began $1 $CIGRI_CLUSTER" >>notes
while ! [ -e go ]; do sleep 0.2; done
echo "ended $1 $CIGRI_CLUSTER" >>notes' sh"""
LEFT = "sh -c 'while ! [ -e removed ]; do sleep 0.2; done'"
AT = {"beta": (HOST, "alice"), "gamma": ("gamma-master", "al_gamma")}


@pytest.fixture(scope="module")
def waysides(site: Grid) -> Iterator[int]:
    for host, user in AT.values():
        site.sh(host, "rm -rf ~/waysides && mkdir ~/waysides", user=user)
    number = _submit(site, "waysides", RUN, ("beta", "gamma"), 12)
    site.until(lambda: besteffort(site) == FULL, "beta to be full", CAMPAIGN_S)
    site.until(lambda: began(site, "gamma") == 4, "gamma to be full", CAMPAIGN_S)
    yield number
    for host, user in AT.values():
        site.sh(host, "rm -rf ~/waysides", user=user)


@pytest.fixture(scope="module")
def staying(site: Grid, waysides: int) -> int:
    """Submit a second campaign whose tasks stay at beta."""
    del waysides
    return _submit(site, "left", LEFT, ("beta",), 2)


def _submit(grid: Grid, name: str, command: str, clusters: tuple[str, ...], tasks: int) -> int:
    jdl: dict[str, Any] = {"name": name, "nb_jobs": tasks, "exec_file": command}
    jdl |= {"exec_directory": "~/waysides", "walltime": "0:10"}
    return submit(grid, {**jdl, "clusters": {one: {} for one in clusters}})


def notes(grid: Grid) -> list[list[str]]:
    texts = (grid.sh(host, "cat ~/waysides/notes", user=user) for host, user in AT.values())
    return [line.split() for line in "".join(texts).splitlines()]


def began(grid: Grid, cluster: str) -> int:
    host, user = AT[cluster]
    told = grid.sh(host, "cat ~/waysides/notes 2>/dev/null || :", user=user)
    return told.count("began")


def test_a_campaigns_tasks_do_not_count_against_transfers(site: Grid, waysides: int) -> None:
    """Beta still has four free slots for an ordinary job, and no task waits in its way."""
    del waysides

    def values() -> dict[str, str]:
        told = site.sh(HOST, f"qconf -se {HOST} | grep -o 'gb_beta_[a-z]*=[0-9]*'")
        return dict(re.findall("gb_beta_([a-z]*)=([0-9]*)", told))

    expected = {"free": "4", "pending": "0"}
    site.until(lambda: expected.items() <= values().items(), "beta to be free for transfers, with no task waiting")


def test_preempted_tasks_run_again_and_each_succeeds_once(site: Grid, waysides: int, staying: int) -> None:
    del staying
    job = local(site, "-pe", "smp", "2")
    theirs = site.sh("gamma-master", "oarsub -l nodes=1,walltime=0:5:0 'sleep 300'", user="bo_gamma")
    site.until(lambda: site.states("beta").get(job) == "r", "the local job to run", 15)
    site.until(lambda: outcomes(site, waysides)["preempted"] >= 3, "tasks to make way", CAMPAIGN_S)
    site.sh(BETA, f"qdel {job}")
    number = re.findall("OAR_JOB_ID=([0-9]*)", theirs)[0]
    site.sh("gamma-master", f"oardel {number}", user="bo_gamma")
    for host, user in AT.values():
        site.sh(host, "touch ~/waysides/go", user=user)

    found = until_state(site, waysides, "terminated")

    assert (12, 12, 0) == (found["tasks"], found["ended"], found["failed"])
    ended = Counter(task for what, task, _ in notes(site) if what == "ended")
    assert {str(task): 1 for task in range(12)} == ended
    assert 12 == outcomes(site, waysides)["success"]
    saved = Counter(cluster for what, _, cluster in notes(site) if what == "saved")
    assert saved["beta"] >= 2, "tasks that made way got no checkpoint signal"
    site.until_none(lambda: arrays_at_gamma(site), "the arrays' files to be gone")


def test_removing_best_effort_queues_preempts_their_tasks_and_restores_the_cell(
    site: Grid, before: str, staying: int
) -> None:
    """The preempted tasks run at another cluster, or at beta as ordinary jobs."""
    site.until(lambda: besteffort(site), "a task to run", CAMPAIGN_S)

    site.sh(HOST, f"{SETUP} --remove --apply", timeout_s=120)

    assert before == site.sh(BETA, DUMP)
    site.sh(HOST, "touch ~/waysides/removed", user="alice")
    found = until_state(site, staying, "terminated")
    assert 0 == found["failed"]
    assert outcomes(site, staying)["preempted"] > 0
