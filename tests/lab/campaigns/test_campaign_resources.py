"""A task gets the slots, time and exclusivity it requests on both batch systems, and no more."""

import json
from itertools import accumulate
from typing import Any

import pytest

from gridbridge.model.campaigns.task_index_and_attempt_texts import parse_attempt_ranges
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, jobs_of, ledger, shown, submit, until_state
from tests.lab.campaigns.together import AT, AT_ONCE, FOLDER, PROJECT, Brought, jdl
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

TERMINATED = "terminated"
# At beta they end at once, as if they had done something; one there a cycle.
SWALLOWED = "sh -c '[ $CIGRI_CLUSTER = beta ] || sleep 12'"
SWALLOWING = {"beta": {"max_jobs": 1}, "gamma": {"max_jobs": 2}}


def tasks_of(grid: Grid, number: int) -> list[dict[str, Any]]:
    found = json.loads(grid.on(HOST, "gridstat", str(number), "-f", "-d", user="bob").out)["jobs"]
    assert isinstance(found, list)
    return found


def test_a_task_of_two_slots_gets_both_slots_and_its_project(site: Grid, brought: Brought) -> None:
    """Grid Engine gives two slots by a parallel environment, OAR by one node."""
    number = brought.numbers["wide"]
    until_state(site, number, TERMINATED)
    told = {name: site.sh(host, f"cat {FOLDER}/wide", user=user).split() for name, (host, user) in AT.items()}
    # Gamma may have a job of the same number.
    every = [one for job in {*jobs_of(site, number)} for one in site.records(job, "beta")]
    ours = [one for one in every if one["account"].startswith(f"gc.alpha.{number}.")]

    assert {"beta": ["2", "2", "2"], "gamma": ["2", "2", "2", PROJECT]} == told
    assert [PROJECT] == [one["project"] for one in ours]


@pytest.mark.long
def test_a_task_that_overruns_its_walltime_is_retried_once_at_another_cluster(site: Grid, brought: Brought) -> None:
    """Each batch system ends the task after the campaign's walltime."""
    number = brought.numbers["overrun"]
    found = until_state(site, number, TERMINATED)
    sent = [
        (task, row[2]) for row in ledger(site, number) if row[0] == "array" for task, _ in parse_attempt_ranges(row[3])
    ]

    assert (1, 1) == (found["ended"], found["failed"])
    assert ["walltime"] == [one["state"] for one in tasks_of(site, number)]
    assert sorted((0, name) for name in AT) == sorted(sent)


def test_no_more_tasks_than_max_jobs_run_at_a_cluster(site: Grid, brought: Brought) -> None:
    """The cluster has more free slots. The runner is killed meanwhile."""
    until_state(site, brought.numbers["once"], TERMINATED)
    most = []
    for host, user in AT.values():
        lines = site.sh(host, f"sort -n {FOLDER}/busy", user=user).splitlines()
        running = list(accumulate(int(line.split()[1]) for line in lines))
        most.append(max(running, default=0))
        assert 0 == sum(running[-1:])

    assert 2 <= max(most) <= AT_ONCE


@pytest.mark.long
@pytest.mark.usefixtures("brought")  # with which its folders are there
def test_a_black_hole_gets_no_more_tasks_and_its_results_are_marked_suspect(site: Grid) -> None:
    number = submit(site, jdl(SWALLOWED, SWALLOWING, nb_jobs=80))
    asking = ("gridevents", "--json", "-c", str(number))

    def sinks() -> list[str]:
        told = json.loads(site.on(HOST, *asking, user="bob").out)
        return [one["cluster"] for one in told if one["code"] == "SINK"]

    site.until(sinks, "beta to be called a sink", CAMPAIGN_S)
    told = site.on(HOST, "gridstat", str(number), "-f", user="bob").out
    suspect = {one["cluster"] for one in tasks_of(site, number) if one.get("is_suspect")}
    why = site.on(HOST, "gridbridge", "why", str(number), user="bob").out
    trusted = site.on(HOST, "gridevents", "-f", "-c", str(number), user="alice", timeout_s=200)

    assert "success (sink)" in told
    assert {"beta"} == suspect
    assert "SINK" in why
    assert 0 == trusted.status
    site.until_none(lambda: [one for one in tasks_of(site, number) if one.get("is_suspect")], "no result to be suspect")
    if shown(site, number)["state"] == "in_treatment":
        site.on(HOST, "griddel", str(number), user="alice", timeout_s=200)
