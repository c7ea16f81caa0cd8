"""`gridbridge balance status`, `drain`, `keep` and `history` for a given state file."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.elastic.balancer import administrator_alerts_and_requests, balance_journal
from gridbridge.errors import StateError
from gridbridge.model.elastic.elastic_nodes import (
    AdministratorNodeRequestKind,
    ElasticNodeState,
    HostJoinStep,
    PoolFailureRecord,
)
from gridbridge.state.decision_journal import DecisionJournal
from tests.elastic.balancer.world import POOL, Trouble, World

NODE = "alpha-n10"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in ("read_balancer_state_overview", "record_node_change_request", "load_last_node_changing_rounds"):
        known = partial(getattr(administrator_alerts_and_requests, name), path=f"{tmp_path}/state.db")
        monkeypatch.setattr(administrator_alerts_and_requests, name, known)
    world = World(tmp_path, Trouble())
    world.minutes(5, waits=[timedelta(minutes=30)])
    return world


def run(*words: str) -> Result:
    return CliRunner().invoke(gridbridge, ("balance", *words))


def as_json(*words: str) -> object:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_status_prints_nodes_and_pools_as_json(world: World) -> None:
    memory = world.rows
    memory.store_administrator_request(NODE, AdministratorNodeRequestKind.KEEP)
    memory.store_pool_failure_records({POOL: PoolFailureRecord(failures=2, failed_at=world.now)})
    now = datetime.now(UTC)
    memory.store_round_time_and_cost(now, None, 12.5)
    (owned,) = memory.nodes.load_all_nodes()

    row = {"name": NODE, "state": "ready", "since": owned.since.isoformat(), "pool": POOL, "machine": "m-1"}
    row |= {"address": "10.0.0.1", "idle_since": None, "kept": False, "why": ""}
    assert as_json("status") == {
        "nodes": [row],
        "pools": [{"pool": POOL, "failures": 2}],
        "last_round": now.isoformat(),
        "spent": 12.5,
        "asked": {NODE: "keep"},
    }


def test_status_prints_a_table_and_failed_pools(world: World) -> None:
    memory = world.rows
    memory.store_administrator_request(NODE, AdministratorNodeRequestKind.DRAIN)
    memory.store_pool_failure_records({POOL: PoolFailureRecord(failures=2, failed_at=world.now)})
    head, row, failed, last = run("status").stdout.splitlines()

    assert head.split() == ["node", "state", "since", "pool", "machine", "idle", "since", "why"]
    assert row.split()[:2] == [NODE, "ready"]
    assert row.endswith("asked: drain")
    assert failed.startswith(f"pool {POOL}: 2 nodes in a row failed, the last at ")
    assert last.startswith("last round ")
    assert last.endswith(", spent this month 0.00")


def test_failures_of_a_removed_pool_are_forgotten(world: World) -> None:
    known = PoolFailureRecord(failures=2, failed_at=world.now)
    world.rows.store_pool_failure_records({POOL: known, "old": known})
    world.round()

    assert list(world.rows.pool_failure_records()) == [POOL]


@pytest.mark.parametrize(
    ("state", "step", "why"),
    [
        (ElasticNodeState.JOINING, HostJoinStep.NONE, " the node is not an execution host yet"),
        (ElasticNodeState.JOINING, HostJoinStep.ADMITTED, " the execution daemon has not reported yet"),
        (ElasticNodeState.READY, HostJoinStep.CLOSED, " a queue that somebody disabled stays disabled on the node"),
        (None, HostJoinStep.NONE, "the balancer manages no node"),
    ],
)
def test_status_says_why_a_node_accepts_no_tasks_or_that_there_is_no_node(
    world: World, state: ElasticNodeState | None, step: HostJoinStep, why: str
) -> None:
    (owned,) = world.rows.nodes.load_all_nodes()
    world.rows.nodes.replace_all_nodes([replace(owned, state=state, step=step)] if state else [])

    assert run("status").stdout.splitlines()[1 if state else 0].endswith(why)


@pytest.mark.parametrize(
    ("words", "wish", "sentence"),
    [
        (("drain",), "drain", "gets no further task from the next round on"),
        (("keep",), "keep", "is kept from the next round on"),
        (("keep", "--free"), "free", "may be removed again from the next round on"),
    ],
    ids=["drain", "keep", "free"],
)
def test_a_request_for_a_node_is_printed_and_stored_under_the_name_of_the_node(
    world: World, words: tuple[str, ...], wish: str, sentence: str
) -> None:
    done = run(*words, f"{NODE}.cluster")
    told = as_json(*words, NODE)

    assert (done.exit_code, done.stdout) == (0, f"{NODE} {sentence}\n")
    assert told == {"host": NODE, "state": "ready", "wish": wish}
    assert world.rows.administrator_requests_by_host() == {NODE: wish}


@pytest.mark.parametrize("state", [ElasticNodeState.REQUESTED, ElasticNodeState.BOOTING, ElasticNodeState.JOINING])
def test_drain_says_that_an_arriving_node_joins_first(world: World, state: ElasticNodeState) -> None:
    memory = world.rows
    (owned,) = memory.nodes.load_all_nodes()
    memory.nodes.replace_all_nodes([replace(owned, state=state)])

    assert run("drain", NODE).stdout == f"{NODE} still joins the cluster, and is drained when ready\n"


@pytest.mark.parametrize("words", [("drain",), ("keep",), ("keep", "--free")])
def test_a_request_for_an_unknown_node_is_a_one_line_error(world: World, words: tuple[str, ...]) -> None:
    done = run(*words, "alpha-n9", "--json")

    assert isinstance(done.exception, StateError)
    assert str(done.exception).startswith("alpha-n9: not a node of the balancer")
    assert (str(done.exception).count("\n"), done.stdout) == (0, "")
    assert world.rows.administrator_requests_by_host() == {}


def test_history_prints_the_last_rounds_from_old_to_new(world: World) -> None:
    every, last = as_json("history"), as_json("history", "-n", "2")
    lines = run("history", "-n", "2").stdout.splitlines()

    assert isinstance(every, list)
    assert isinstance(last, list)
    assert last == every[-2:]
    assert [set(one) for one in last] == [{"number", "at", "sentence"}] * 2
    assert [one["number"] for one in every] == sorted(one["number"] for one in every)
    assert datetime.fromisoformat(last[-1]["at"]) < world.now
    assert f"join {NODE}" in last[-1]["sentence"]
    for one, line in zip(last, lines, strict=True):
        assert line.startswith(f"{one['number']}  ")
        assert line.endswith(f"  {one['sentence']}")


def test_stored_rounds_can_be_decided_again_with_equal_acts(world: World) -> None:
    decisions = DecisionJournal(world.database()).last_decisions(20)
    kept = [each.inputs for each in decisions]

    assert [list(each["actions"]) for each in kept] == [
        balance_journal.replay_balancer_round_decision(each) for each in kept
    ]
    assert f"create {NODE}" in kept[0]["actions"]
