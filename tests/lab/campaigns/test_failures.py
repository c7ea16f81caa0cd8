"""A failed task is retried at another cluster, reported, and may close a cluster; a kill runs no task twice."""

import json
from collections import Counter

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, at_beta, at_gamma, clusters_of, ledger, shown, until_state
from tests.lab.campaigns.together import ADDED, AT, Brought
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

TERMINATED = "terminated"


def test_tasks_that_a_cluster_refuses_run_at_another_cluster(site: Grid, brought: Brought) -> None:
    number = brought.numbers["refused"]
    site.until(lambda: "RUNNER_SUBMIT_ERROR" in runner.events_by_code(site, number), "a refusal", CAMPAIGN_S)
    refused = runner.events_by_code(site, number)["RUNNER_SUBMIT_ERROR"]
    site.sh(HOST, "touch campaigns/refused", user="alice")
    found = until_state(site, number, TERMINATED)

    assert (4, 0) == (found["ended"], found["failed"])
    assert "gamma" == refused["cluster"]
    assert refused["why"]


def test_a_program_that_always_fails_closes_its_clusters(site: Grid, brought: Brought) -> None:
    """After some failed tasks the campaign waits, and reports that."""
    number = brought.numbers["typo"]
    site.until(lambda: "NO_CLUSTER" in runner.events_by_code(site, number), "beta to be closed", CAMPAIGN_S)

    found = shown(site, number)
    assert "in_treatment" == found["state"]
    assert 5 <= found["failed"] < 60
    assert f"Re {found['failed']}/60" in site.on(HOST, "gridstat", str(number), user="bob").out
    assert {"EXIT_ERROR", "BLACKLIST", "NO_CLUSTER"} == {*runner.events_by_code(site, number)}
    assert 3 == runner.events_by_code(site, number)["EXIT_ERROR"]["exit_status"]


def test_only_the_owner_reads_the_output_of_a_failed_task(site: Grid, brought: Brought) -> None:
    """The owner then closes the events, so that more tasks are sent."""
    number = brought.numbers["typo"]
    site.until(lambda: "NO_CLUSTER" in runner.events_by_code(site, number), "beta to be closed", CAMPAIGN_S)
    event = str(runner.events_by_code(site, number)["EXIT_ERROR"]["number"])

    assert "what is that" in site.on(HOST, "gridevents", "-e", event, user="alice").out
    assert "what is that" not in site.on(HOST, "gridevents", "-e", event, user="bob").out
    denied = site.on(HOST, "gridevents", "-f", "-c", str(number), user="bob", timeout_s=200)
    assert (1, True) == (denied.status, "owned by another user" in denied.err)
    before = shown(site, number)["failed"]
    done = site.on(HOST, "gridevents", "-r", "-c", str(number), user="alice", timeout_s=200)
    assert 0 == done.status, done
    site.until(lambda: before > shown(site, number)["failed"], "failed tasks to wait again")
    site.on(HOST, "griddel", str(number), user="alice", timeout_s=200)


def test_an_array_of_oar_is_deleted_after_its_first_task_has_ended(site: Grid, brought: Brought) -> None:
    number = brought.numbers["first"]
    site.until(lambda: 1 == shown(site, number)["ended"], "the first task to end", CAMPAIGN_S)
    assert 0 == site.on(HOST, "griddel", str(number), user="alice", timeout_s=200).status

    site.until(lambda: not at_gamma(site, number), "gamma to have none of it", CAMPAIGN_S)


def test_each_task_runs_once_though_the_runner_is_killed(site: Grid, brought: Brought) -> None:
    """The kills come while the runner submits, releases and polls."""
    number = brought.numbers["once"]
    found = until_state(site, number, TERMINATED)

    lines = (site.sh(host, "cat ~/campaigns/once", user=user) for host, user in AT.values())
    ran = Counter("".join(lines).split())
    tasks = 40 + len(ADDED)
    assert Counter({f"{number}.{task}": 1 for task in range(tasks)}) == ran
    assert (tasks, 0) == (found["ended"], found["failed"])
    assert not at_gamma(site, number)
    assert not at_beta(site, number)


def test_tasks_added_to_a_campaign_run_and_are_recorded_like_its_first_tasks(site: Grid, brought: Brought) -> None:
    """Root's ledger lists the file of the added tasks. An ended campaign accepts no more tasks."""
    number = brought.numbers["once"]
    until_state(site, number, TERMINATED)
    told = site.on(HOST, "gridstat", str(number), "-f", "-d", "-o", "40", user="alice").out
    more = ("gridsub", "-c", str(number), "-J", '["late"]')
    late = [site.on(HOST, *more, user=user, timeout_s=200) for user in ("alice", "bob")]

    assert ["more", "0#2 again"] == [one["parameters"] for one in json.loads(told)["jobs"]]
    assert ["1", "2"] == [row[i] for row in ledger(site, number) if row[0] == "part" for i in (1, 3)]
    assert [1, 1] == [done.status for done in late]
    over = f"gridsub: campaign {number} is terminated; submit the tasks as a new campaign\n"
    assert [over, f"gridsub: campaign {number}: owned by another user\n"] == [done.err for done in late]


def test_a_prologue_and_an_epilogue_run_once_at_each_cluster(site: Grid, brought: Brought) -> None:
    """They run before the first and after the last task of the cluster. The runner is killed meanwhile."""
    number = brought.numbers["steps"]
    found = until_state(site, number, TERMINATED)

    told = {
        name: site.sh(host, "cat ~/campaigns/steps 2>/dev/null; :", user=user).split()
        for name, (host, user) in AT.items()
    }
    ran = {name: lines for name, lines in told.items() if lines}
    assert {"prologue"} == {lines[0] for lines in ran.values()}
    assert {"epilogue"} == {lines[-1] for lines in ran.values()}
    tasks = Counter(line for lines in ran.values() for line in lines[1:-1])
    assert Counter({f"{number}.{task}": 1 for task in range(12)}) == tasks
    assert clusters_of(site, number) == ran.keys()
    assert (12, 0) == (found["ended"], found["failed"])


def test_tasks_run_at_another_cluster_when_the_prologue_fails(site: Grid, brought: Brought) -> None:
    """A failed prologue is a set-up error of its cluster, not a failed task."""
    number = brought.numbers["unready"]
    site.until(lambda: "SETUP_ERROR" in runner.events_by_code(site, number), "the prologue to fail", CAMPAIGN_S)
    site.sh(HOST, "touch campaigns/unready", user="alice")
    found = until_state(site, number, TERMINATED)

    assert (2, 0) == (found["ended"], found["failed"])
    assert {"beta"} == {row[2] for row in ledger(site, number) if row[3:] and row[3] < "9"}
    assert "gamma" == runner.events_by_code(site, number)["SETUP_ERROR"]["cluster"]
    said = site.sh("gamma-master", f"cat ~/campaigns/campaign.{number}/prologue.1.err", user="al_gamma")
    assert "no room\n" == said


def test_a_property_that_a_cluster_does_not_know_is_reported(site: Grid, brought: Brought) -> None:
    number = brought.numbers["asking"]

    def refusing() -> set[str]:
        told = site.on(HOST, "gridevents", "--json", "-c", str(number), user="bob").out
        return {one["cluster"] for one in json.loads(told) if one["code"] == "RUNNER_SUBMIT_ERROR"}

    site.until(lambda: {*AT} == refusing(), "both to refuse it", CAMPAIGN_S)
    assert 0 == site.on(HOST, "griddel", str(number), user="alice", timeout_s=200).status


def test_every_user_sees_the_clusters_of_campaigns(brought: Brought) -> None:
    slots = {one["name"]: one["slots"] for one in json.loads(brought.clusters)}

    assert min(slots["beta"], slots["gamma"]) > 0
