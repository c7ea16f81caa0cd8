"""A task that hangs at one real cluster succeeds as a copy at another cluster, and is counted once."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, at_beta, at_gamma, shown, submit, until_state
from tests.lab.gamma import ACCOUNT, FAR
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

AS_USER = "runuser -u gridbridge -- sudo -n /opt/gridbridge/bin/gridbridge-as-user"
AT = {"beta": (HOST, "alice"), "gamma": (FAR, ACCOUNT)}
# The slow task hangs wherever it is no copy.
RUN = """sh -c 'echo "$1 $CIGRI_COPY" | tee -a ~/finalize/ran result
case $1$CIGRI_COPY in slow0) exec sleep 600 ;; esac' sh"""
PARAMETERS = ["quick", "slow", "short", "brief"]
SLOW = 1
TERMINATED = "terminated"


def jdl(exec_file: str, **other: Any) -> dict[str, Any]:
    known = {"name": "finalize", "type": "normal", "exec_file": exec_file, "walltime": "0:15"}
    folder = {"exec_directory": "~/finalize", "clusters": {"beta": {}, "gamma": {}}}
    return known | folder | other


@pytest.fixture(scope="module", name="brought")
def _brought(site: Grid) -> Iterator[tuple[int, int]]:
    """Submit a campaign whose tasks may be copied and one whose may not; wait for the end of the first."""
    for host, user in AT.values():
        site.sh(host, "rm -rf ~/finalize ~/fetched && mkdir ~/finalize", user=user)
    plain = submit(site, jdl("true", nb_jobs=1, clusters={"beta": {}}))
    number = submit(site, jdl(RUN, params=PARAMETERS, outputs=["result"]))
    until_state(site, number, TERMINATED)
    yield number, plain
    for host, user in AT.values():
        site.sh(host, "rm -rf ~/finalize ~/fetched", user=user)


def slow(grid: Grid, number: int) -> dict[str, Any]:
    told = grid.on(HOST, "gridstat", "--json", "-j", f"{number}.{SLOW}", user="bob").out
    found = json.loads(told)
    assert isinstance(found, dict)
    return found


def test_the_copy_wins_and_the_task_is_counted_once(site: Grid, brought: tuple[int, int]) -> None:
    number, _ = brought
    found, task = shown(site, number), slow(site, number)

    assert (4, 4, 0, 0) == tuple(found[key] for key in ("tasks", "ended", "failed", "events"))
    assert ("success", 2) == (task["state"], task["attempt"])
    (other,) = task["copies"]
    assert {task["cluster"], other["cluster"]} == {"beta", "gamma"}


def test_every_task_without_a_copy_ran_once(site: Grid, brought: tuple[int, int]) -> None:
    del brought
    lines = "".join(site.sh(host, "cat ~/finalize/ran; :", user=user) for host, user in AT.values())

    expected = Counter({f"{name} 0": 1 for name in PARAMETERS} | {"slow 1": 1})
    assert expected == Counter(lines.splitlines())


def test_the_losing_attempt_is_deleted_and_ends_as_a_copy(site: Grid, brought: tuple[int, int]) -> None:
    number, _ = brought
    site.until(lambda: not at_beta(site, number), "beta to have none of it", CAMPAIGN_S)
    site.until(lambda: not at_gamma(site, number), "gamma to have none of it", CAMPAIGN_S)

    def is_told() -> bool:
        (other,) = slow(site, number)["copies"]
        return bool(other["outcome"] == "copy")

    site.until(is_told, "the loser to be told ended", CAMPAIGN_S)
    found = shown(site, number)
    assert (4, 0) == (found["ended"], found["failed"])


def test_gridbridge_why_shows_the_speculative_attempt(site: Grid, brought: tuple[int, int]) -> None:
    """Every user sees the copy, and the run time that caused it."""
    number, _ = brought

    told = site.on(HOST, "gridbridge", "why", f"{number}.{SLOW}", user="bob").out

    assert "this attempt is a copy, made after the task had run longer than" in told


def test_the_winners_output_is_fetched(site: Grid, brought: tuple[int, int]) -> None:
    number, _ = brought

    site.sh(HOST, f"gridfetch {number} ~/fetched", user="alice", timeout_s=60)

    for name in (f"{SLOW}.2.out", f"{SLOW}/result"):
        assert "slow 1\n" == site.sh(HOST, f"cat ~/fetched/{name}", user="alice")
    assert "" == site.sh(HOST, f"ls ~/fetched | grep ^{SLOW}.1. ; :", user="alice")


def test_root_submits_no_copy_that_the_owner_did_not_allow(site: Grid, brought: tuple[int, int]) -> None:
    """The helper refuses such a request of the service account.

    It also refuses a repeated copy and a third copy.
    """
    number, plain = brought
    until_state(site, plain, TERMINATED)

    refused = {
        f"send-copies c.{plain} beta 90 0:7": "declared neither idempotent nor with outputs",
        f"send-copies c.{number} beta 90 {SLOW}:3,{SLOW}:4": "gets 2 copies at most",
        f"send-copies c.{number} beta 90 {SLOW}:2": "an attempt of 1:2 was submitted before",
    }
    for asked, why in refused.items():
        assert why in site.sh(HOST, f"{AS_USER} {asked} 2>&1; :")
