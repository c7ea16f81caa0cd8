"""gridbridge replay lists the last decisions, repeats one, and reports errors."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.decisions.elastic.node_and_master_lifecycle import NodeLifecycleTimeouts
from gridbridge.errors import GridbridgeError
from gridbridge.model.elastic.balance_plan import BalancePlan, BalancePlanFigures, BalancePlanReason
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import BalancerNodesSnapshot
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from gridbridge.program.model_values_as_json import model_value_to_json
from gridbridge.site.cli import replay_command as service
from gridbridge.state.decision_journal import DecisionJournal, DecisionJournalEntry
from gridbridge.state.state_file import StateFile
from gridbridge.transfer.poller.poller_decision_journal import TransferPlanJournal
from tests.decisions.transfer.test_transfer_policy import (
    POLICY,
    a_situation,
    a_transfer,
    second,
    update_and_plan_transfers,
)

FIGURES = BalancePlanFigures(
    nodes=0, running=0, jobs=0, wanted=0, free=0, slots=0, slots_per_node=None, waited_s=0, unchanged_s=None
)
PATIENCE = NodeLifecycleTimeouts(boot_s=600, join_s=300, silent_s=120)
WHY = "look up end gb.alpha.7.0.1: job unlisted at beta"
TOLD = "gb.alpha.7.0.1: looking up the job's end in the remote accounting: job unlisted at beta"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "gridbridge.toml"
    path.write_text(
        f'[site]\ncluster = "alpha"\nstate = "sqlite:///{tmp_path}/state.db"\n'
        f'[cluster.alpha]\nkind = "embedded"\nfolder = "{tmp_path}/alpha"\n'
    )
    return path


@pytest.fixture
def database(config: Path) -> StateFile:
    database = StateFile.open(f"sqlite:///{config.parent}/state.db")
    transfers = [a_transfer(missed_polls=9, missing_since=second(1))]
    situation = a_situation(remote="")
    entry = TransferPlanJournal().entry_of_new_decisions(
        transfers, situation, POLICY, update_and_plan_transfers(transfers, situation, POLICY)
    )
    assert entry
    DecisionJournal(database).store_decision(entry)
    return database


def run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(gridbridge, ["replay", *words, "--config", str(config)])


def test_replay_lists_decisions_and_repeats_one(config: Path, database: StateFile) -> None:
    assert TOLD in run(config).stdout
    listed = json.loads(run(config, "--json").stdout)
    assert [(one["decision"], one["program"], one["sentence"]) for one in listed] == [(1, "poller", TOLD)]

    again = run(config, "1")
    assert (again.exit_code, again.stdout) == (0, TOLD + "\n")
    told = json.loads(run(config, "1", "--json").stdout)
    assert (told["actions"], told["now"]) == ([WHY], [WHY])


def test_a_repeated_decision_that_differs_prints_a_diff_and_returns_1(config: Path, database: StateFile) -> None:
    [kept] = DecisionJournal(database).last_decisions(1)
    inputs = {**kept.inputs, "actions": ["close gb.alpha.7.0.1: \x1b[2Jgone"]}
    DecisionJournal(database).store_decision(
        DecisionJournalEntry(at=second(0), program="poller", sentence="x", inputs=inputs)
    )

    again = run(config, "2")
    assert again.exit_code == 1
    assert again.stdout == f"- gb.alpha.7.0.1: closing the transfer: \ufffd[2Jgone\n+ {TOLD}\n"


def test_an_unknown_or_unreadable_decision_is_a_one_line_error(config: Path, database: StateFile) -> None:
    unknown = run(config, "77")
    assert unknown.exit_code == 1
    assert unknown.stderr == "gridbridge: decision 77: no decision of this number in the journal\n"

    DecisionJournal(database).store_decision(
        DecisionJournalEntry(at=second(0), program="poller", sentence="x", inputs={"of": "old"})
    )
    with pytest.raises(GridbridgeError, match="decision 2: can't be replayed"):
        raise run(config, "2").exception or AssertionError


def test_replay_creates_no_state_file(config: Path) -> None:
    with pytest.raises(GridbridgeError, match="no service has run here yet"):
        raise run(config).exception or AssertionError
    assert not (config.parent / "state.db").exists()


def test_replay_balancer_reads_the_balancers_own_journal(
    config: Path, database: StateFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    monkeypatch.setattr(service, "switch_process_to_account", lambda account, *_: asked.append(account))
    monkeypatch.setattr(service, "BALANCE_STATE", f"{tmp_path}/balance.db")
    none = run(config, "--balancer", "1")
    own = DecisionJournal(StateFile.open(f"sqlite:///{tmp_path}/balance.db"))
    world = BalancerNodesSnapshot(cluster="alpha", now=second(0), kept=(), machines={})
    plan = BalancePlan(verdict=BalancePlanReason.NO_NEED, figures=FIGURES)
    known = {"world": world, "patience": PATIENCE, "plan": plan, "rules": BalanceSection()}
    inputs = {name: model_value_to_json(value) for name, value in known.items()}
    inputs |= {"asked": None, "rest": None, "ended": [], "done": [], "actions": []}
    own.store_decision(DecisionJournalEntry(at=second(0), program="balance", sentence="add 1", inputs=inputs))
    again = run(config, "--balancer", "1", "--json")
    (listed,) = json.loads(run(config, "--balancer", "--json").stdout)

    assert isinstance(none.exception, GridbridgeError)
    assert (again.exit_code, json.loads(again.stdout)["program"]) == (0, "balance")
    assert (listed["decision"], listed["sentence"]) == (1, "add 1")
    assert set(asked) == {BALANCE_ACCOUNT}
