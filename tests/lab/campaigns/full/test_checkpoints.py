"""A task that is preempted or loses its host goes on at its checkpoint, at the same cluster."""

import re
from collections.abc import Iterator

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, outcomes, submit, until_state
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]

SETUP = "gridbridge setup besteffort beta"
AT = {"beta": (HOST, "alice"), "gamma": ("gamma-master", "al_gamma")}
# counts tenths of a second, writes its count where it begins, saves it at the signal, and ends when it may
COUNT = """n=$(cat state 2>/dev/null || echo 0)
echo "$n ${GRIDBRIDGE_CHECKPOINT:-0} $(hostname)" >>../../counts
trap 'echo $n >state.new; mv state.new state' USR2
until [ -e ../../go ]; do sleep 0.1; n=$((n + 1)); done
: #"""


@pytest.fixture(scope="module", autouse=True)
def _besteffort(site: Grid) -> Iterator[None]:
    site.sh(HOST, f"{SETUP} --apply")
    yield
    site.sh("beta-master", "qdel -u '*'; :")
    site.until_none(lambda: list(site.states("beta")), "beta to be empty")
    site.sh(HOST, f"{SETUP} --remove --apply")


def preempt(grid: Grid, cluster: str, number: int) -> None:
    """Run a job that needs all of the cluster until the campaign's task is preempted."""
    if cluster == "beta":
        words = "for n in 1 2; do qsub -terse -pe smp 2 -b y sleep 600; done"
        user, end = "bob", f"qdel {' '.join(grid.sh('beta-master', words, user='bob').split())}"
    else:
        said = grid.sh("gamma-master", "oarsub -l nodes=2,walltime=0:5:0 'sleep 300'", user="bo_gamma")
        user, end = "bo_gamma", f"oardel {re.findall('OAR_JOB_ID=([0-9]*)', said)[0]}"
    grid.until(lambda: outcomes(grid, number)["preempted"] == 1, "the task to be preempted", CAMPAIGN_S)
    grid.sh(f"{cluster}-master", end, user=user)


def cut_power(grid: Grid, host: str) -> None:
    grid.lab("power", host, "cut")
    grid.lab("power", host, "on")


@pytest.mark.parametrize(
    ("cluster", "is_lost"),
    [("beta", False), ("gamma", False), ("beta", True)],
    ids=["preempted by Grid Engine", "preempted by OAR", "host lost"],
)
def test_a_task_goes_on_at_its_checkpoint(site: Grid, cluster: str, *, is_lost: bool) -> None:
    host, user = AT[cluster]
    site.sh(host, "rm -rf ~/saves && mkdir ~/saves", user=user)
    keys = {"checkpointing_type": "signal", "checkpoint_files": ["state"], "checkpoint_s": 2}
    jdl = {"name": "saves", "nb_jobs": 1, "exec_file": COUNT, "exec_directory": "~/saves", "clusters": {cluster: {}}}
    number = submit(site, jdl | keys)

    def counts() -> list[list[str]]:
        return [line.split() for line in site.sh(host, "cat ~/saves/counts 2>/dev/null; :", user=user).splitlines()]

    saved = f"cat ~/saves/campaign.{number}/0.1.checkpoints 2>/dev/null; :"
    site.until(lambda: site.sh(host, saved, user=user).split(), "a checkpoint", CAMPAIGN_S)
    if is_lost:
        cut_power(site, counts()[0][2])
    else:
        preempt(site, cluster, number)
    site.until(lambda: len(counts()) == 2, "the task to go on", CAMPAIGN_S)
    why = site.sh(HOST, f"gridbridge why {number}.0")
    site.sh(host, "touch ~/saves/go", user=user)
    found = until_state(site, number, "terminated")

    (first, *_), (second, continued, _) = counts()
    assert ("0", "1") == (first, continued)
    assert int(second) > 0
    assert (1, 0) == (found["ended"], found["failed"])
    assert f"attempt 1 left a checkpoint at {cluster}, from which the next attempt continued" in why
