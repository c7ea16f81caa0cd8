"""Facts of a round besides the cell: run times of jobs, and free slots of other clusters."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from gridbridge.config import configuration_file
from gridbridge.elastic import balancer_round_queries, saved_balancer_round_folder
from gridbridge.elastic.balancer import balance_situation_sources
from gridbridge.model.elastic.balance_plan import BalanceSituation, SavedBalancerRoundInput, WaitingJobsHistory
from gridbridge.model.elastic.published_balance import RecentlyEndedTasks, update_learnt_run_times
from gridbridge.model.published_status_and_reports import PublishedClusterAnswer
from gridbridge.shell import safe_files
from gridbridge.state import published_json
from tests.decisions.elastic.cells import MASTER, NOON, instance
from tests.decisions.elastic.demand_cells import cell
from tests.elastic.site_text import ALPHA

SITE = f"""{ALPHA}
[cluster.beta]
qmaster_port = 6454
execd_port = 6455
[queue.transfer-beta]
cluster = "beta"
pending_limit = 9
slots = 5
"""
ROOM = PublishedClusterAnswer(
    cluster="beta", asked_at=NOON, taken_at=NOON - timedelta(seconds=9), pending=0, free_slots=7
)


def publish(folder: Path, answer: PublishedClusterAnswer) -> None:
    (folder / published_json.CLUSTERS).mkdir(exist_ok=True)
    path = f"{folder}/{published_json.CLUSTERS}/beta.json"
    safe_files.replace_file_atomically(path, published_json.encode_published_value(answer))


def look(folder: Path, there: PublishedClusterAnswer | None, state: str = "") -> BalanceSituation:
    if there:
        publish(folder, there)
    queue = instance(MASTER, (1,), slots=5, queue="transfer-beta", state=state)
    seen = cell(instance(MASTER), queue)
    policy = configuration_file.parse_configuration("FILE", SITE.encode())
    with (
        patch.object(balance_situation_sources.balancer_round_queries, "query_raw_cell_status", return_value=((), ())),
        patch.object(balance_situation_sources.balancer_round_queries, "parse_balance_situation", return_value=seen),
    ):
        return balance_situation_sources.observe_balanced_cluster(policy, NOON, str(folder / "ends.json"), str(folder))


def test_a_transfer_queue_takes_the_smaller_of_the_free_slots_on_both_sides(tmp_path: Path) -> None:
    found = look(tmp_path, ROOM)
    fewer = look(tmp_path, replace(ROOM, free_slots=2))

    assert (found.elsewhere, found.elsewhere_free) == ({"transfer-beta": 30.0}, {"transfer-beta": 4})
    assert fewer.elsewhere_free == {"transfer-beta": 2}


@pytest.mark.parametrize(
    ("there", "state"),
    [
        pytest.param(None, "", id="no poller"),
        pytest.param(replace(ROOM, pending=1), "", id="others wait there"),
        pytest.param(replace(ROOM, free_slots=0), "", id="full"),
        pytest.param(replace(ROOM, trouble="it does not answer"), "", id="in trouble"),
        pytest.param(replace(ROOM, taken_at=NOON - timedelta(seconds=61)), "", id="long ago"),
        pytest.param(replace(ROOM, taken_at=None), "", id="never"),
        *((ROOM, state) for state in ("d", "au", "a", "E")),
    ],
)
def test_a_closed_queue_or_one_to_a_busy_or_unknown_cluster_starts_nothing_soon(
    tmp_path: Path, there: PublishedClusterAnswer | None, state: str
) -> None:
    assert look(tmp_path, there, state).elsewhere == {}


def test_the_round_uses_the_learnt_run_times(tmp_path: Path) -> None:
    assert look(tmp_path, None).runtimes == {}
    runs = update_learnt_run_times((), [("alice", "align", 30.0), ("alice", "align", 90.0)])
    balancer_round_queries.write_stored_task_ends(str(tmp_path / "ends.json"), RecentlyEndedTasks(runs=runs))

    assert look(tmp_path, None).runtimes == {("alice", "align"): 60.0}


def test_a_damaged_file_of_run_times_stops_no_round(tmp_path: Path) -> None:
    (tmp_path / "ends.json").write_text("{")

    assert look(tmp_path, None).runtimes == {}


def saved(folder: Path, seen: BalanceSituation) -> SavedBalancerRoundInput:
    """Save the input of a round that observes a situation, and read the input back."""
    printed = {"qstat.xml": b"<a/>", "qhost.xml": b"<b/>"}, SavedBalancerRoundInput(now=NOON)
    queries = balance_situation_sources.balancer_round_queries
    with (
        patch.object(queries, "query_raw_cell_status", return_value=printed),
        patch.object(queries, "parse_balance_situation", return_value=seen),
    ):
        policy = configuration_file.parse_configuration("FILE", SITE.encode())
        balance_situation_sources.save_balancer_round_inputs(policy, str(folder / "saved"), NOON, str(folder))
    return saved_balancer_round_folder.read_saved_balancer_round(str(folder / "saved"))[1]


def test_a_saved_round_has_the_delays_of_transfer_queues(tmp_path: Path) -> None:
    publish(tmp_path, ROOM)
    kept = saved(tmp_path, cell(instance(MASTER, (1,), slots=5, queue="transfer-beta")))

    assert (kept.elsewhere, kept.elsewhere_free) == ({"transfer-beta": 30.0}, {"transfer-beta": 4})


def test_a_saved_round_has_the_history_of_waiting_jobs(tmp_path: Path) -> None:
    known = {7: WaitingJobsHistory(at=NOON, tasks=3, room_since=NOON - timedelta(minutes=9))}
    with patch.object(
        balance_situation_sources, "add_saved_balancer_state", lambda seen, _: replace(seen, watched=known)
    ):
        assert saved(tmp_path, cell(instance(MASTER))).watched == known
