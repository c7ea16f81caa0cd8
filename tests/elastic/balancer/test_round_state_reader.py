"""Facts of a round besides the cell: the balancer's state file, run times of jobs, and slots of other clusters."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from gridbridge.config import configuration_file
from gridbridge.elastic import balancer_round_queries, host_membership_and_tags, saved_balancer_round_folder
from gridbridge.elastic.balancer import balance_preview, balance_situation_sources, balancer_round_decision
from gridbridge.elastic.balancer.balance_situation_sources import add_saved_balancer_state
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.model.elastic.balance_plan import (
    BalancePlanReason,
    BalanceSituation,
    SavedBalancerRoundInput,
    WaitingJobsHistory,
)
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, PoolFailureRecord
from gridbridge.model.elastic.published_balance import (
    BalancePlanReport,
    BalancerJobOrHostExplanation,
    RecentlyEndedTasks,
    update_learnt_run_times,
)
from gridbridge.model.published_status_and_reports import PublishedClusterAnswer
from gridbridge.state import published_json
from gridbridge.state.state_file import StateFile
from tests.builders.configurations import queue_text, site_text
from tests.decisions.elastic.cells import MASTER, NOON, ago, instance, situation, waiting
from tests.decisions.elastic.demand_cells import cell
from tests.elastic.site_text import ALPHA, RACK, powered_hosts

SITE = f"""{ALPHA}
[pool.usual]
slots = 4
[balance]
max_nodes = 9
"""
POLICY = configuration_file.parse_configuration("FILE", SITE.encode())
SEEN = situation(instance(MASTER, (1,), slots=1), wait=[waiting(5, tasks=12)])
WATCHED = WaitingJobsHistory(at=ago(1), tasks=12, room_since=ago(9))
STUCK = WaitingJobsHistory(at=ago(1), tasks=12, room_since=ago(30), stuck_since=ago(15))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = f"{tmp_path}/kept/state.db"
    monkeypatch.setattr(balance_situation_sources, "BALANCE_STATE", path)
    monkeypatch.setattr(balance_situation_sources, "observe_balanced_cluster", lambda *_: SEEN)
    (tmp_path / "site.toml").write_text(SITE)
    return path


@contextmanager
def rows_of(path: str) -> Iterator[BalancerStateRows]:
    database = StateFile.open(f"sqlite:///{path}")
    yield BalancerStateRows(database)
    database.close()


def keep(path: str) -> None:
    """Save three booting nodes and the records of earlier rounds in the balancer's state file."""
    Path(path).parent.mkdir()
    names = ("alpha-n1", "alpha-n2", "alpha-n3")
    since = NOON - timedelta(seconds=30)
    with rows_of(path) as rows:
        rows.nodes.replace_all_nodes(
            BalancerOwnedNode(name=name, pool="usual", state=ElasticNodeState.BOOTING, since=since) for name in names
        )
        rows.store_pool_failure_records({"large": PoolFailureRecord(no_capacity_at=since)})
        rows.store_waiting_job_histories({5: WATCHED})
        rows.store_round_time_and_cost(since, since, 4.5)


def save_rack(path: str, states: Mapping[str, ElasticNodeState]) -> None:
    with rows_of(path) as rows:
        rows.nodes.replace_all_nodes(
            BalancerOwnedNode(name=name, pool="rack", state=state, since=NOON, machine=name)
            for name, state in states.items()
        )


def preview(path: str | Path) -> BalancePlanReport:
    return balance_preview.preview_balance_plan(balance_preview.BalanceRuleOverrides(), NOON, path=str(path))


def explain_job_7(path: str | Path) -> BalancerJobOrHostExplanation:
    return balance_preview.explain_balance_of_job_or_host("7", NOON, path=str(path))


def test_the_plan_counts_booting_nodes(path: str, tmp_path: Path) -> None:
    before = preview(tmp_path / "site.toml").add
    keep(path)

    assert (3, 0) == (before, preview(tmp_path / "site.toml").add)


def test_the_situation_has_all_facts_of_the_state_file(path: str) -> None:
    keep(path)

    found = add_saved_balancer_state(SEEN, POLICY)

    since = NOON - timedelta(seconds=30)
    assert ["alpha-n1", "alpha-n2", "alpha-n3"] == sorted(one.name for one in found.nodes)
    assert (since, 4.5, {"large": since}) == (found.last_change, found.spent, found.failed)
    assert {5: WATCHED} == found.watched


def test_future_times_in_the_history_of_waiting_jobs_are_limited_to_now(path: str) -> None:
    before = NOON - timedelta(days=1)
    keep(path)

    found = add_saved_balancer_state(replace(SEEN, now=before), POLICY)

    assert {5: replace(WATCHED, at=before, room_since=before)} == found.watched


def test_plan_and_explain_report_a_stuck_job(path: str, tmp_path: Path) -> None:
    site = tmp_path / "site.toml"
    keep(path)
    with rows_of(path) as rows:
        rows.store_waiting_job_histories({7: STUCK})

    explained = explain_job_7(site)

    why = "free slots existed for 15 min, and the job did not start: a quota or an access list may be the cause"
    assert [why] == [refusal.reason for refusal in preview(site).refused if refusal.job == 7]
    assert (why, True) == (explained.reason, explained.is_known)


def test_an_absent_state_file_is_not_unreadable(path: str) -> None:
    assert not balance_situation_sources.is_balancer_state_unreadable()
    keep(path)
    assert not balance_situation_sources.is_balancer_state_unreadable()


def test_without_read_access_nodes_of_the_state_file_are_unknown(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(path)
    # root may read everything
    monkeypatch.setattr(balance_situation_sources.os, "access", lambda *_: False)

    assert balance_situation_sources.is_balancer_state_unreadable()
    assert () == add_saved_balancer_state(SEEN, POLICY).nodes


def test_powered_off_hosts_are_neither_unready_nor_counted_as_nodes(path: str, tmp_path: Path) -> None:
    """Eight of the site's nine hosts are powered off, so their daemons are silent."""
    names = [f"n{number}" for number in range(1, 10)]
    policy = configuration_file.parse_configuration("FILE", f"{SITE}{RACK}{powered_hosts(*names)}".encode())
    keep(path)
    save_rack(path, {"n1": ElasticNodeState.READY} | dict.fromkeys(names[1:], ElasticNodeState.STANDBY))
    on = [instance(name, state="" if name == "n1" else "adu") for name in names]

    found = add_saved_balancer_state(situation(*on, wait=[waiting(5)]), policy)
    told = balancer_round_decision.decide_balance_plan(found, policy.balance, policy.demand, policy.pools)

    assert sorted(names[1:]) == sorted(one.name for one in found.nodes)
    assert (BalancePlanReason.ALL_FIT, 2) == (told.verdict, told.figures.nodes)  # with the master


def test_a_ready_node_without_a_recorded_idle_time_is_idle_since_now(path: str) -> None:
    keep(path)
    with rows_of(path) as rows:
        rows.nodes.replace_all_nodes(
            [BalancerOwnedNode(name="alpha-n1", pool="usual", state=ElasticNodeState.READY, since=ago(90))]
        )

    (found,) = add_saved_balancer_state(SEEN, POLICY).nodes

    assert found.idle_since == SEEN.now


def test_the_cost_of_a_month_survives_a_clock_that_was_ahead_into_the_next_month(path: str) -> None:
    keep(path)
    ahead = NOON + timedelta(days=40)
    with rows_of(path) as rows:
        rows.store_round_time_and_cost(NOON, None, 480.0)
        rows.store_round_time_and_cost(ahead, None, 7.0)
        during = rows.month_cost(ahead)
        rows.store_round_time_and_cost(NOON, None, rows.month_cost(NOON) + 1)

        assert (7.0, 481.0, 0.0) == (during, rows.month_cost(NOON), rows.month_cost(ahead))


def test_the_plan_wakes_hosts_before_adding_nodes(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site.toml").write_text(f"{SITE}{RACK}{powered_hosts('n1', 'n2')}[squeeze]\nenabled = true\n")
    asleep = [instance(name, slots=4, state="adu") for name in ("n1", "n2")]
    seen = situation(instance(MASTER, (1,), slots=1), *asleep, wait=[waiting(5, tasks=4)])
    keep(path)
    save_rack(path, dict.fromkeys(("n1", "n2"), ElasticNodeState.STANDBY))
    monkeypatch.setattr(balance_situation_sources, "observe_balanced_cluster", lambda *_: seen)
    tags = {"n1": ("htools:standby:2",), "n2": ("htools:standby:1",)}
    monkeypatch.setattr(host_membership_and_tags, "query_home_cluster_host_tags", lambda _: tags)

    found, explained = preview(tmp_path / "site.toml"), explain_job_7(tmp_path / "site.toml")

    assert found.add == 0
    assert ": wake n2" in found.sentence
    assert found.sentence == explained.sentence


WITH_BETA = site_text("alpha", "beta") + queue_text("beta", 9, 5)
BETA_POLICY = configuration_file.parse_configuration("FILE", WITH_BETA.encode())
ROOM = PublishedClusterAnswer(
    cluster="beta", asked_at=NOON, taken_at=NOON - timedelta(seconds=9), pending=0, free_slots=7
)


def publish(folder: Path, answer: PublishedClusterAnswer) -> None:
    (folder / published_json.CLUSTERS).mkdir(exist_ok=True)
    (folder / published_json.CLUSTERS / "beta.json").write_bytes(published_json.encode_published_value(answer))


def look(folder: Path, there: PublishedClusterAnswer | None, state: str = "") -> BalanceSituation:
    if there:
        publish(folder, there)
    queue = instance(MASTER, (1,), slots=5, queue="transfer-beta", state=state)
    with answers(((), ()), cell(instance(MASTER), queue)):
        return balance_situation_sources.observe_balanced_cluster(
            BETA_POLICY, NOON, str(folder / "ends.json"), str(folder)
        )


@contextmanager
def answers(printed: object, seen: BalanceSituation) -> Iterator[None]:
    queries = balance_situation_sources.balancer_round_queries
    with (
        patch.object(queries, "query_raw_cell_status", return_value=printed),
        patch.object(queries, "parse_balance_situation", return_value=seen),
    ):
        yield


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
    with answers(printed, seen):
        balance_situation_sources.save_balancer_round_inputs(BETA_POLICY, str(folder / "saved"), NOON, str(folder))
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
