"""Which campaign's tasks go first on real daemons: tests, affinity, priorities and shares at two slots."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.campaigns import runner
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, jobs_of, published, submit
from tests.lab.configured import configured
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

LOAD = "cat /var/lib/gridbridge/published/load"
DELTA = "delta-master"  # two slots, which no other campaign uses
PRIORITIES = 's/^#priorities = .*/priorities = \\"bob=5\\"/'
AFFINITY = '$ a [campaigns.delta]\\naffinity = \\"alice\\"'
SCRIPT = "/usr/local/bin/gb-stress"
STRESS = f'$ a [campaigns.delta]\\nstress_script = "{SCRIPT}"'
SHARES = 's/^#share_by = .*/share_by = \\"user\\"/; s/^#first_tasks = .*/first_tasks = 0/'
Wanted = tuple[str, str, int]  # a name, whose, and how many tasks


def jdl(name: str, tasks: int) -> dict[str, Any]:
    known = {"name": name, "type": "normal", "exec_file": "true", "walltime": "0:5"}
    return {**known, "nb_jobs": tasks, "clusters": {"delta": {}}}


@contextmanager
def closed(grid: Grid) -> Iterator[None]:
    """Close delta's slots until the block ends, so that one cycle decides about all new campaigns.

    The block begins when the poller's answer, which the runner uses, shows no free slot at delta.
    """
    grid.sh(DELTA, "qmod -d all.q")
    try:
        grid.until(lambda: "gb_delta_free=0" in grid.sh(HOST, LOAD), "the poller to know that")
        yield
    finally:
        grid.sh(DELTA, "qmod -e all.q")


def turns(grid: Grid, settings: str, *wanted: Wanted) -> list[str]:
    sent = brought(grid, settings, *wanted)
    return sorted(sent, key=lambda name: sent[name][0])


def brought(grid: Grid, settings: str, *wanted: Wanted) -> dict[str, list[int]]:
    runner.stop(grid)
    with configured(grid, settings):
        runner.start(grid)
        with closed(grid):
            numbers = {
                name: submit(grid, jdl(name, tasks), *options(name), user=owner) for name, owner, tasks in wanted
            }
        for number in numbers.values():
            grid.until(
                lambda: published(grid, number)["state"] == "terminated",  # noqa: B023 - at once
                f"campaign {number} to end",
                CAMPAIGN_S,
            )
        runner.stop(grid)
    runner.start(grid)
    return {name: sorted(map(int, jobs_of(grid, number))) for name, number in numbers.items()}


def options(name: str) -> tuple[str, ...]:
    return ("-t", "test") if name == "test" else ()


@pytest.mark.long
def test_tests_go_first_and_an_affinity_goes_before_age_and_priority(site: Grid) -> None:
    """A campaign of higher priority with tasks for all slots was submitted earlier."""
    found = turns(
        site, f"{PRIORITIES}; {AFFINITY}", ("higher", "bob", 4), ("at home", "alice", 2), ("test", "alice", 2)
    )

    assert found == ["test", "at home", "higher"]


@pytest.mark.long
def test_a_share_gives_a_person_a_slot_before_another_persons_older_tasks(site: Grid) -> None:
    """Without shares alice's tasks would all start in two cycles, and bob's in the third."""
    sent = brought(site, SHARES, ("first", "alice", 1), ("second", "alice", 3), ("bobs", "bob", 1))

    assert sent["bobs"][0] < sent["second"][-1], sent


@pytest.mark.long
def test_a_cluster_under_stress_gets_no_task_until_the_stress_ends(site: Grid) -> None:
    """A script of the site reports the stress."""
    runner.stop(site)
    stressed(site, "0.9")
    try:
        with configured(site, STRESS):
            runner.start(site)
            number = submit(site, jdl("stressed", 2))
            why = ("gridbridge", "why", str(number))
            site.until(lambda: "0.9" in site.on(HOST, *why, user="bob").out, "why to tell", CAMPAIGN_S)
            before = jobs_of(site, number)
            stressed(site, "0.1")
            runner.until_state(site, number, "terminated")
            runner.stop(site)
    finally:
        site.sh(HOST, f"rm -f {SCRIPT}")
        runner.start(site)

    assert before == []


def stressed(grid: Grid, told: str) -> None:
    script = f"#!/bin/sh\necho {told}\n"
    grid.on(HOST, "sh", "-c", f"cat >{SCRIPT} && chmod 755 {SCRIPT}", stdin=script)


@pytest.mark.long
def test_a_campaign_of_higher_priority_goes_before_an_older_campaign(site: Grid) -> None:
    found = turns(site, PRIORITIES, ("older", "alice", 4), ("higher", "bob", 2))

    assert found == ["higher", "older"]
