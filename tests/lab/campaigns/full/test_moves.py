"""Tasks that wait at a full cluster are moved to an idle cluster, and run there exactly once."""

import json
from collections.abc import Iterator

import pytest

from tests.lab.campaigns.full.test_nikita import AS_USER, NIKITA, QUEUE, RUN, closed_queue, filled
from tests.lab.campaigns.runner import CAMPAIGN_S, HOST, killed, published, submit, until_state
from tests.lab.gamma import ACCOUNT, FAR, NODES
from tests.lab.grid import Grid

pytestmark = [pytest.mark.lab, pytest.mark.timeout(500)]

TASKS = 4
REBALANCE = "gridbridge rebalance"
NIKITAS = "gridbridge.campaigns.nikita.program"
KILLS = {
    "before anything": "campaigns/nikita/task_deletion_cycle.py:_delete_waiting_tasks_of_array",
    "as root is asked": "campaigns/runner/array_commands_as_owner:2",
    "when root has told": "campaigns/runner/array_commands_as_owner:6",
}


@pytest.fixture(scope="module")
def waiting(site: Grid) -> Iterator[int]:
    with closed_queue(site):
        with filled(site, *NODES):
            clusters = {"beta": {"queue": QUEUE}, "gamma": {}}
            known = {"name": "moved", "type": "normal", "exec_file": RUN, "walltime": "0:5"}
            number = submit(site, {**known, "clusters": clusters, "nb_jobs": TASKS})
            site.until(
                lambda: sum(one["waiting"] for one in published(site, number)["at"]) > 1,
                "tasks to wait at beta",
                CAMPAIGN_S,
            )
            site.sh(HOST, f"griddel -p {number}", user="alice")  # nothing more is sent
        yield number
    site.sh(HOST, "rm -f ~/flooded", user="alice")
    site.sh(FAR, "rm -f ~/flooded", user=ACCOUNT)


def test_a_rebalance_command_reports_why_a_task_can_not_be_moved(site: Grid, waiting: int) -> None:
    done = site.on(HOST, "gridbridge", "rebalance", "job", "99")
    bob = site.on(HOST, "gridbridge", "rebalance", "plan", user="bob")

    assert (done.status, done.err) == (2, "gridbridge: tasks at clusters: jobs: no 99; expected one of: none\n")
    assert bob.status == 2
    assert "Traceback" not in bob.err


def test_waiting_tasks_start_at_another_cluster_and_run_once(site: Grid, waiting: int) -> None:
    """Nikita is killed meanwhile. Neither a dry run nor a quiesced rebalancer moves a task."""
    site.sh(HOST, f"griddel -r {waiting}", user="alice")
    plan = json.loads(site.sh(HOST, f"{REBALANCE} host beta --json"))
    site.sh(HOST, f"{REBALANCE} quiesce")
    quiet = site.sh(HOST, f"{REBALANCE} auto --apply")
    site.sh(HOST, f"{REBALANCE} quiesce --off")
    done = site.sh(HOST, f"{REBALANCE} host beta --apply")
    kills = {what: killed(site, one, NIKITAS, user="gridbridge") for what, one in KILLS.items()}
    site.sh(HOST, NIKITA, timeout_s=120)
    told = site.sh(HOST, "gridbridge replay --json")
    site.until(lambda: published(site, waiting)["ended"] > 0, "a task to end at gamma", CAMPAIGN_S)
    site.cell("beta", "qmod", "-e", QUEUE, user="root")
    found = until_state(site, waiting, "terminated")
    ran = site.sh(HOST, "cat ~/flooded 2>/dev/null; :", user="alice").split()
    ran += (at_gamma := site.sh(FAR, "cat ~/flooded", user=ACCOUNT).split())

    assert plan["moves"], plan
    assert dict.fromkeys(KILLS, True) == kills
    assert all((one["from"], one["to"]) == ("beta", "gamma") for one in plan["moves"])
    assert "nothing is moved until" in quiet
    assert "moved: 0, dropped: 0" in quiet
    assert f"moved: {len(plan['moves'])}, dropped: 0" in done
    assert f"moved: {len(plan['moves'])} tasks of campaign {waiting} at beta" in told
    assert (found["ended"], found["failed"]) == (TASKS, 0)
    assert sorted(ran) == [f"{waiting}.{n}" for n in range(TASKS)]
    assert {f"{waiting}.{one['number']}" for one in plan["moves"]} <= {*at_gamma}


def test_a_move_is_replayed_from_the_journal_with_the_same_result(site: Grid, waiting: int) -> None:
    del waiting
    listed = json.loads(site.sh(HOST, "gridbridge replay --json"))
    moves = [one["decision"] for one in listed if one["program"] == "rebalance"]

    assert moves
    assert site.on(HOST, "gridbridge", "replay", str(moves[-1])).status == 0


def test_root_deletes_only_waiting_tasks(site: Grid, waiting: int) -> None:
    """The helper reports an ended task as ended, and refuses malformed array indexes."""
    told = site.sh(HOST, f"{AS_USER} delete-waiting c.{waiting} beta 1 1-2; echo $?").splitlines()
    odd = site.sh(HOST, f"{AS_USER} delete-waiting c.{waiting} beta 1 ''; echo $?").splitlines()

    assert told[-1] == "1"
    assert odd[-1] == "2"
