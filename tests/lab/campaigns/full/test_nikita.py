"""Tasks that wait where they can't start are wiped on real clusters, and run once at a later time."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, arrays_at_gamma, published, submit, until_state
from tests.lab.gamma import ACCOUNT, FAR, NODES
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(500)]

NIKITA = "runuser -u gridbridge -- /opt/gridbridge/oar-hooks/nikita"
AS_USER = "runuser -u gridbridge -- sudo -n /opt/gridbridge/bin/gridbridge-as-user"
QUEUE = "later.q"
LOAD = "cat /var/lib/gridbridge/published/load"
STAYS = "cat /var/lib/gridbridge/published/stays/beta"
COPY = f"qconf -sq all.q | sed s/all.q/{QUEUE}/ >/tmp/later"
ADD = f"{COPY} && qconf -Aq /tmp/later && qmod -d {QUEUE}"
EMPTY = "oardel --sql \"job_name = 'filler' AND state = 'Running'\"; :"
FULL = f"network_address='{NODES[0]}'"
GATE = "~/gated.go"
AT = ((HOST, "alice"), (FAR, ACCOUNT))
RUN = "sh -c 'echo \"$CIGRI_JOB_ID\" >>~/flooded'"


@pytest.fixture(scope="module")
def wiped(site: Grid) -> Iterator[tuple[int, int, int]]:
    """Return three ended campaigns. Waiting tasks of two, at beta and at gamma, were wiped once.

    Each cluster has free slots that the tasks can't use: in another queue at beta, on another node at
    gamma. The third campaign, one task of two slots, waited beside the first one.
    """
    with filled(site, NODES[0]), closed_queue(site):
        numbers = (
            _submit(site, {"beta": {"queue": QUEUE}}, 2),
            _submit(site, {"gamma": {"properties": FULL}}, 2),
            _submit(site, {"beta": {"queue": QUEUE, "resources": "/core=2"}}, 1),
        )
        told: list[str] = []

        def both() -> bool:
            told.append(site.sh(HOST, NIKITA, timeout_s=120))
            return all(f"of campaign {each} at" in "".join(told) for each in numbers[:2])

        site.until(lambda: _wait(site, numbers[2]) == 1, "the task of two slots to wait", CAMPAIGN_S)
        site.until(both, "both campaigns to be wiped", CAMPAIGN_S)
        assert "gb_beta_pending=0" in site.sh(HOST, LOAD)  # though an ordinary task waits there
        site.cell("beta", "qmod", "-e", QUEUE, user="root")
        site.sh(FAR, EMPTY, user=ACCOUNT)
        for each in numbers:
            until_state(site, each, "terminated")
        assert f"of campaign {numbers[2]} at" not in "".join(told)
        yield numbers
    site.sh(HOST, "rm -f ~/flooded", user="alice")
    site.sh(FAR, "rm -f ~/flooded", user=ACCOUNT)


@contextmanager
def filled(grid: Grid, *nodes: str) -> Iterator[None]:
    for node in nodes:
        where = f"-p \"network_address='{node}'\""
        fill = f"oarsub -n filler -l /resource_id=2,walltime=0:10:0 {where} 'sleep 600'"
        grid.sh(FAR, fill, user=ACCOUNT)
    try:
        yield
    finally:
        grid.sh(FAR, EMPTY, user=ACCOUNT)


@contextmanager
def closed_queue(grid: Grid) -> Iterator[None]:
    grid.cell("beta", "sh", "-c", ADD, user="root")
    grid.until(lambda: QUEUE in grid.sh(HOST, STAYS), "submissions to know that queue")
    try:
        yield
    finally:
        grid.cell("beta", "qmod", "-d", QUEUE, user="root")
        grid.cell("beta", "qconf", "-dq", QUEUE, user="root")


def _submit(grid: Grid, clusters: dict[str, Any], tasks: int) -> int:
    known = {"name": "flooded", "type": "normal", "exec_file": RUN, "walltime": "0:5"}
    return submit(grid, {**known, "clusters": clusters, "nb_jobs": tasks})


@pytest.mark.parametrize(("which", "host", "user"), [(0, HOST, "alice"), (1, FAR, ACCOUNT)])
def test_wiped_tasks_are_sent_again_and_run_once(
    site: Grid, wiped: tuple[int, int, int], which: int, host: str, user: str
) -> None:
    number = wiped[which]
    found = until_state(site, number, "terminated")

    assert (found["ended"], found["failed"]) == (2, 0)
    ran = site.sh(host, f"grep '^{number}[.]' ~/flooded", user=user).split()
    assert [f"{number}.0", f"{number}.1"] == sorted(ran)
    assert ":2" in site.sh(HOST, f"cat /var/lib/gridbridge-ledger/c.{number}")
    site.until_none(lambda: arrays_at_gamma(site), "the arrays' files to be gone")


@pytest.mark.long
def test_a_single_task_of_several_slots_is_not_wiped(site: Grid, wiped: tuple[int, int, int]) -> None:
    found = until_state(site, wiped[2], "terminated")

    assert (found["ended"], found["failed"]) == (1, 0)
    assert ":2" not in site.sh(HOST, f"cat /var/lib/gridbridge-ledger/c.{wiped[2]}")


def test_the_journal_lists_wiped_tasks_and_its_replay_decides_the_same(site: Grid, wiped: tuple[int, int, int]) -> None:
    listed = json.loads(site.sh(HOST, "gridbridge replay --json"))
    words = f"wiped: 2 tasks of campaign {wiped[0]} at beta, which wait above the flood rate"
    wipes = [one["decision"] for one in listed if words in one["sentence"]]

    assert wipes
    done = site.on(HOST, "gridbridge", "replay", str(wipes[0]))
    assert done.status == 0, done


@pytest.fixture
def gated(site: Grid) -> Iterator[tuple[int, int]]:
    for host, user in AT:
        site.sh(host, f"rm -f {GATE}", user=user)
    run = f"sh -c 'until [ -e {GATE} ]; do sleep 0.2; done'"
    known = {"name": "gated", "exec_file": run, "walltime": "0:5", "nb_jobs": 2}
    numbers = [submit(site, {**known, "clusters": {name: {}}}) for name in ("beta", "gamma")]
    site.until(lambda: all(_run(site, each) == 2 for each in numbers), "all to run", CAMPAIGN_S)
    yield numbers[0], numbers[1]
    for host, user in AT:
        site.sh(host, f"rm -f {GATE}", user=user)


def _run(grid: Grid, number: int) -> int:
    return sum(one["running"] for one in published(grid, number)["at"])


def _wait(grid: Grid, number: int) -> int:
    return sum(one["waiting"] for one in published(grid, number)["at"])


def test_a_cancelled_running_task_ends_and_the_other_task_goes_on(site: Grid, gated: tuple[int, int]) -> None:
    """A task that its owner cancelled has not failed."""
    told = [site.on(HOST, "griddel", "-j", f"{each}.1", user="alice").out for each in gated]
    site.sh(HOST, NIKITA, timeout_s=120)
    ended = [(each, 1) for each in gated]
    site.until(
        lambda: ended == [(each, published(site, each)["ended"]) for each in gated],
        "the cancelled ones to end",
        CAMPAIGN_S,
    )
    for host, user in AT:
        site.sh(host, f"touch {GATE}", user=user)
    found = [until_state(site, each, "terminated") for each in gated]

    assert told == [f"Task {each}.1 cancelled\n" for each in gated]
    assert [(one["ended"], one["failed"]) for one in found] == [(2, 0), (2, 0)]


@pytest.mark.parametrize("places", ["", "0", "1-", "1;id", "2-1"])
def test_root_refuses_an_invalid_array_index(site: Grid, wiped: tuple[int, int], places: str) -> None:
    """An empty array index would mean the whole array."""
    script = f"{AS_USER} delete-array c.{wiped[0]} beta 1 '{places}'; echo $?"

    assert site.sh(HOST, f"{script} 2>&1").splitlines()[-1] == "2"
