"""`balance plan` and `explain` know the nodes of the balancer's state file, if the account may read the file."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from gridbridge.config import configuration_file
from gridbridge.elastic import host_membership_and_tags
from gridbridge.elastic.balancer import balance_preview, balance_situation_sources, balancer_round_decision
from gridbridge.elastic.balancer.balance_situation_sources import add_saved_balancer_state
from gridbridge.elastic.balancer_state_file import BalancerStateRows
from gridbridge.model.elastic.balance_plan import BalancePlanReason, WaitingJobsHistory
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState, PoolFailureRecord
from gridbridge.model.elastic.published_balance import BalancePlanReport, BalancerJobOrHostExplanation
from gridbridge.state.state_file import StateFile
from tests.decisions.elastic.cells import MASTER, NOON, ago, instance, situation, waiting
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
        rows.store_job_histories({5: WATCHED})
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
        rows.store_job_histories({7: STUCK})

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
