"""A task that is preempted or loses its host goes on at its checkpoint, also at another cluster."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

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


KEYS = {"checkpointing_type": "signal", "checkpoint_files": ["state"], "checkpoint_s": 2}
JDL = {"name": "saves", "nb_jobs": 1, "exec_file": COUNT, "exec_directory": "~/saves"} | KEYS


@pytest.fixture(scope="module", autouse=True)
def _besteffort(site: Grid) -> Iterator[None]:
    site.sh(HOST, f"{SETUP} --apply")
    yield
    site.sh("beta-master", "qdel -u '*'; :")
    site.until_none(lambda: list(site.states("beta")), "beta to be empty")
    site.sh(HOST, f"{SETUP} --remove --apply")


@contextmanager
def preempted(grid: Grid, cluster: str, number: int) -> Iterator[None]:
    """Run a job that needs all of the cluster; the campaign's task is preempted before the block."""
    if cluster == "beta":
        words = "for n in 1 2; do qsub -terse -pe smp 2 -b y sleep 600; done"
        user, end = "bob", f"qdel {' '.join(grid.sh('beta-master', words, user='bob').split())}"
    else:
        said = grid.sh("gamma-master", "oarsub -l nodes=2,walltime=0:5:0 'sleep 300'", user="bo_gamma")
        user, end = "bo_gamma", f"oardel {re.findall('OAR_JOB_ID=([0-9]*)', said)[0]}"
    grid.until(lambda: outcomes(grid, number)["preempted"] == 1, "the task to be preempted", CAMPAIGN_S)
    yield
    grid.sh(f"{cluster}-master", end, user=user)


def cut_power(grid: Grid, host: str) -> None:
    grid.lab("power", host, "cut")
    grid.lab("power", host, "on")


def counts(grid: Grid, cluster: str) -> list[list[str]]:
    """Return what each attempt has noted at a cluster when it began."""
    host, user = AT[cluster]
    return [line.split() for line in grid.sh(host, "cat ~/saves/counts 2>/dev/null; :", user=user).splitlines()]


def until_saved(grid: Grid, cluster: str, number: int, checkpoints: int = 1) -> None:
    host, user = AT[cluster]
    saved = f"cat ~/saves/campaign.{number}/0.1.checkpoints 2>/dev/null; :"
    grid.until(lambda: len(grid.sh(host, saved, user=user).splitlines()) >= checkpoints, "checkpoints", CAMPAIGN_S)


@pytest.mark.parametrize(
    ("cluster", "is_lost"),
    [("beta", False), ("gamma", False), ("beta", True)],
    ids=["preempted by Grid Engine", "preempted by OAR", "host lost"],
)
def test_a_task_goes_on_at_its_checkpoint(site: Grid, cluster: str, *, is_lost: bool) -> None:
    host, user = AT[cluster]
    site.sh(host, "rm -rf ~/saves && mkdir ~/saves", user=user)
    number = submit(site, JDL | {"clusters": {cluster: {}}})
    until_saved(site, cluster, number)
    if is_lost:
        cut_power(site, counts(site, cluster)[0][2])
    else:
        with preempted(site, cluster, number):
            pass
    site.until(lambda: len(counts(site, cluster)) == 2, "the task to go on", CAMPAIGN_S)
    why = site.sh(HOST, f"gridbridge why {number}.0")
    site.sh(host, "touch ~/saves/go", user=user)
    found = until_state(site, number, "terminated")

    (first, *_), (second, continued, _) = counts(site, cluster)
    assert ("0", "1") == (first, continued)
    assert int(second) > 0
    assert (1, 0) == (found["ended"], found["failed"])
    assert f"attempt 1 left a checkpoint at {cluster}, from which the next attempt continued" in why


def test_a_task_goes_on_at_another_cluster_while_its_own_is_full(site: Grid) -> None:
    """The checkpoint is carried, and then removed at the first cluster."""
    for host, user in AT.values():
        site.sh(host, "rm -rf ~/saves && mkdir ~/saves", user=user)
    site.sh(HOST, "gridbridge drain gamma --reason 'the task begins at beta'")
    number = submit(site, JDL | {"clusters": {"beta": {}, "gamma": {}}})
    until_saved(site, "beta", number, checkpoints=6)  # a carry takes less time than to repeat the work
    site.sh(HOST, "gridbridge undrain gamma")

    with preempted(site, "beta", number):
        site.until(lambda: counts(site, "gamma"), "the task to go on at gamma", CAMPAIGN_S)
        why = site.sh(HOST, f"gridbridge why {number}.0")
        site.sh("gamma-master", "touch ~/saves/go", user="al_gamma")
        found = until_state(site, number, "terminated")

    ((begin, continued, _),) = counts(site, "gamma")
    assert "1" == continued
    assert int(begin) > 0
    assert (1, 0) == (found["ended"], found["failed"])
    assert re.search("to gamma: the carry takes about [0-9]+ s, and without the carry about [0-9]+ s are lost", why)
    left = f"ls ~/saves/campaign.{number}/0.1/state 2>/dev/null; :"
    site.until(lambda: not site.sh(HOST, left, user="alice"), "the first copy to be removed", CAMPAIGN_S)
