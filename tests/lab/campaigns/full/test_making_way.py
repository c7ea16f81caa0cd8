"""Best-effort tasks that hold a resource which a local job lacks are ended: the newest, and just enough.

Two campaigns fill beta: one holds the memory of its first host, and on the second host one holds
the licences of the whole cell.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, killed, outcomes, submit, until_state
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(400)]

BETA, NODE = "beta-master", "beta-n1"
SETUP = "gridbridge setup besteffort beta"
NIKITA = "runuser -u gridbridge -- /opt/gridbridge/oar-hooks/nikita"
PATHS = "PATH=$PATH:/usr/lib/gridengine; export SGE_SINGLE_LINE=1; cd /tmp;"
WITHOUT = "qconf -sc >sc; sed -i -e '/^lic /d' -e '/^mem /d' -e '/^alone /d' sc;"
OBJECTS = f"""{PATHS} {WITHOUT}
echo 'lic lic INT <= YES YES 0 0' >>sc
echo 'mem mem MEMORY <= YES YES 0 0' >>sc
echo 'alone alone BOOL EXCL YES YES 0 0' >>sc
qconf -Mc sc
qconf -mattr exechost complex_values lic=2 global
qconf -mattr exechost complex_values mem=4G,alone=true {NODE}
"""
NO_OBJECTS = f"""{PATHS}
qconf -dattr exechost complex_values lic=2 global
qconf -dattr exechost complex_values mem=4G,alone=true {NODE}
{WITHOUT} qconf -Mc sc
"""
RUN = "sh -c 'while ! [ -e ~/way.go ]; do sleep 0.2; done; echo $CIGRI_JOB_ID >>~/way.ended'"
NIKITAS = "gridbridge.campaigns.nikita.program"
KILLS = {
    "before anything": "campaigns/nikita/task_deletion_cycle.py:_preempt_tasks_for_local_job",
    "when it is noted for whom": "campaigns/nikita/task_deletion_cycle.py:_delete_tasks_of_array",
    "as root is asked": "campaigns/runner/array_commands_as_owner:2",
    "when root has told": "campaigns/runner/array_commands_as_owner:6",
}
FULL = 4  # slots
TASKS = 4  # of each campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    memory: int
    licences: int
    never: str  # asks for more memory than there is


@pytest.fixture(scope="module")
def crowd(site: Grid) -> Iterator[Crowd]:
    site.sh(BETA, OBJECTS)
    site.sh(HOST, f"{SETUP} --apply")
    site.sh(HOST, "rm -f ~/way.*", user="alice")
    memory = _submit(site, "memory", "mem = 2G")
    site.until(lambda: len(running(site, memory)) == 2, "two tasks to hold memory", CAMPAIGN_S)
    licences = _submit(site, "licences", "lic = 1")
    site.until(lambda: len(running(site, licences)) == 2, "two to hold licences", CAMPAIGN_S)
    yield Crowd(memory=memory, licences=licences, never=local(site, "-l", "mem=9G"))
    site.sh(HOST, f"griddel {memory} {licences}; :")
    site.sh(BETA, "qdel -u '*'; :")
    site.until_none(lambda: list(site.states("beta")), "beta to be empty", CAMPAIGN_S)
    site.sh(HOST, f"{SETUP} --remove --apply", timeout_s=120)
    site.sh(BETA, NO_OBJECTS)
    site.sh(HOST, "rm -f ~/way.*", user="alice")


def _submit(grid: Grid, name: str, properties: str) -> int:
    jdl = {"name": name, "nb_jobs": TASKS, "exec_file": RUN, "walltime": "0:10"}
    return submit(grid, {**jdl, "clusters": {"beta": {"properties": properties, "max_jobs": 2}}})


def running(grid: Grid, number: int) -> list[tuple[str, int]]:
    """Return a campaign's running tasks, the newest last: by start time, then by array index."""
    told = ElementTree.fromstring(grid.sh(BETA, "qstat -xml -s r -u alice"))
    rows = [{each.tag: each.text or "" for each in row} for row in told.iter("job_list")]
    ours = [row for row in rows if row["JB_name"] == f"campaign.{number}"]
    by_start = sorted(ours, key=lambda row: (row["JAT_start_time"], int(row["tasks"])))
    return [(row["JB_job_number"], int(row["tasks"])) for row in by_start]


def local(grid: Grid, *options: str) -> str:
    words = ("qsub", "-terse", *options, "-b", "y", "sleep", "600")
    done = grid.on(BETA, *words, user="alice")
    assert done.status == 0, done
    return done.out.strip()


def starts(grid: Grid, job: str) -> None:
    """Run nikita until a job runs; nikita's first answer may be older than the job."""

    def runs() -> bool:
        grid.sh(HOST, NIKITA, timeout_s=120)
        return grid.states("beta").get(job) == "r"

    grid.until(runs, f"local job {job} to run", 120)


def test_the_newest_task_on_a_host_ends_for_a_job_that_lacks_memory(site: Grid, crowd: Crowd) -> None:
    """Older tasks and tasks without memory go on. A killed nikita ends no second task."""
    before, others = running(site, crowd.memory), running(site, crowd.licences)
    job = local(site, "-l", "mem=2G")
    site.sh(HOST, f"griddel -p {crowd.memory}")

    words = f"ended for job {job}, which lacked mem: 1 task of campaign {crowd.memory} at beta"
    dry = f"{NIKITA} --dry-run"  # an answer of before the job may still count
    site.until(lambda: words in site.sh(HOST, dry, timeout_s=120), "a dry run to say so")
    kept = running(site, crowd.memory)
    kills = {what: killed(site, one, NIKITAS, user="gridbridge") for what, one in KILLS.items()}
    starts(site, job)

    assert dict.fromkeys(KILLS, True) == kills
    assert before == kept
    assert before[:1] == running(site, crowd.memory)
    assert others == running(site, crowd.licences)


def test_a_licence_is_freed_by_one_task_wherever_it_runs(site: Grid, crowd: Crowd) -> None:
    """No task ends for a job that requests more memory than the host has."""
    before = running(site, crowd.licences)
    job = local(site, "-l", "lic=1,hostname=beta-n2")
    starts(site, job)

    assert before[0] in running(site, crowd.licences)
    assert "ended" not in site.sh(HOST, NIKITA, timeout_s=120)
    assert "qw" == site.states("beta")[crowd.never]
    site.sh(HOST, f"griddel -p {crowd.licences}")  # what it sends again would take the host
    site.sh(BETA, f"qdel {job}")


def test_an_exclusive_host_is_granted_once_all_of_its_tasks_have_ended(site: Grid, crowd: Crowd) -> None:
    """While a local job runs on the host, no task is ended for the exclusive job."""
    job = local(site, "-l", "alone=true")
    kept = running(site, crowd.memory)
    told = site.sh(HOST, NIKITA, timeout_s=120)
    still = running(site, crowd.memory)
    mine = [one for one, state in site.states("beta").items() if state == "r" and "." not in one]
    site.sh(BETA, f"qdel {' '.join(mine)}")
    site.until_none(lambda: on_node(site, mine), "the local job to end")
    starts(site, job)

    assert "ended" not in told
    assert kept == still
    assert [] == running(site, crowd.memory)
    site.sh(BETA, f"qdel {job}")


def on_node(grid: Grid, jobs: list[str]) -> list[str]:
    return [one for one in grid.states("beta") if one in jobs]


def test_campaigns_succeed_and_name_the_jobs_that_preempted_their_tasks(site: Grid, crowd: Crowd) -> None:
    site.sh(BETA, f"qdel {crowd.never}")
    site.sh(HOST, f"griddel -r {crowd.memory} {crowd.licences}")
    site.sh(HOST, "touch ~/way.go", user="alice")
    found = [until_state(site, each, "terminated") for each in (crowd.memory, crowd.licences)]

    assert [(TASKS, 0)] * 2 == [(one["ended"], one["failed"]) for one in found]
    ended = Counter(site.sh(HOST, "cat ~/way.ended", user="alice").split())
    assert {1} == {*ended.values()}
    assert 2 * TASKS == len(ended)
    assert {"success": TASKS, "preempted": 2} == outcomes(site, crowd.memory)
    assert {"success": TASKS, "preempted": 1} == outcomes(site, crowd.licences)
    told = [site.sh(HOST, f"gridbridge why {crowd.memory}.{task}") for task in range(TASKS)]
    assert any("which lacked mem" in one for one in told)
    decisions = json.loads(site.sh(HOST, "gridbridge replay --json"))
    ways = [one["decision"] for one in decisions if "which lacked mem: 1 task of campaign" in one["sentence"]]
    assert site.on(HOST, "gridbridge", "replay", str(ways[0])).status == 0
