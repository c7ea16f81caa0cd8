"""`gridbridge balance explain`, and commands before the first round."""

import json
import pwd
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.decisions.elastic.nodes_needing_administrator import explain_how_to_wake_host
from gridbridge.elastic.balancer import balance_preview, balance_situation_sources
from gridbridge.model.elastic.balance_plan import BalanceSituation
from gridbridge.model.elastic.elastic_nodes import BalancerOwnedNode, ElasticNodeState
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from tests.builders.campaigns import made_policy

GOLDEN = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9"
NODE = {"up_since": "2126-01-01T11:00:00+00:00", "idle_since": "2126-01-01T11:59:40+00:00"}


def has_account() -> bool:
    return any(one.pw_name == BALANCE_ACCOUNT for one in pwd.getpwall())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(GOLDEN / "cell.xml", tmp_path / "qstat.xml")
    shutil.copy(GOLDEN / "hosts.xml", tmp_path / "qhost.xml")
    told = {"now": "2126-01-01T12:00:00+00:00", "nodes": {"alpha-n1": NODE}}
    (tmp_path / "state.json").write_text(json.dumps({**told, "master": "alpha-master"}))
    return tmp_path


def explain(folder: Path, what: str, *words: str) -> Result:
    words = ("explain", what, "--from", str(folder), *words)
    return CliRunner().invoke(gridbridge, ("balance", *words))


def job(folder: Path, reason: str) -> str:
    words = ("balance", "plan", "--from", str(folder), "--json", "-m", "9")
    told = json.loads(CliRunner().invoke(gridbridge, words).stdout)
    return next(str(one["job"]) for one in told["refused"] if one["reason"] == reason)


def test_explain_says_that_a_job_is_held(folder: Path) -> None:
    held = job(folder, "the job is held")
    done = explain(folder, held)

    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, f"job {held}: the job is held")


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ("alpha-n2", 0, "a host that is no node of the balancer is never removed"),
        ("alpha-n1", 0, "nothing is planned for the host"),
        ("alpha-n77", 1, "no such host"),
        ("999999", 1, "the job does not wait: the job runs, has ended, or never existed"),
    ],
    ids=["host", "node, without a maximum", "unknown host", "unknown job"],
)
def test_explain_says_what_happens_to_a_host_or_job(folder: Path, what: str, status: int, reason: str) -> None:
    done = explain(folder, what, "--json")

    assert (done.exit_code, json.loads(done.stdout)["reason"]) == (status, reason)


@pytest.fixture
def situation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> BalanceSituation:
    """Observe the saved round in place of the cluster."""
    situation = balance_situation_sources.load_saved_balance_situation(str(folder))
    policy = made_policy()
    monkeypatch.setattr(balance_preview.configuration_in_force, "load_config_with_home_cluster", lambda _: policy)
    monkeypatch.setattr(balance_preview, "_load_or_observe_situation", lambda *_: situation)
    return situation


def test_explain_says_that_the_nodes_are_hidden(situation: BalanceSituation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_preview, "may_not_read_balancer_nodes", lambda: True)

    shown = balance_preview.explain_balance_of_job_or_host("alpha-n2", situation.now)

    assert shown.reason == "only root and gridbridge-admin see whether the host is a node of the balancer"


def test_explain_says_how_to_wake_a_powered_off_host(
    situation: BalanceSituation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(balance_preview.host_membership_and_tags, "query_home_cluster_host_tags", lambda _: {})
    name = "alpha-n2"
    off = BalancerOwnedNode(name=name, pool="rack", machine=name, state=ElasticNodeState.STANDBY, since=situation.now)

    shown = balance_preview.explain_balance_of_job_or_host(name, situation.now, (off,))

    assert (shown.node, shown.reason) == (off, explain_how_to_wake_host(off, {}))


@pytest.mark.skipif(has_account(), reason="root would become that account")
@pytest.mark.parametrize("words", [("status",), ("drain", "alpha-n1"), ("keep", "alpha-n1"), ("history",)])
def test_before_the_first_round_the_error_names_the_missing_account(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(gridbridge, ("balance", *words))

    assert done.exit_code
    assert "gridbridge-admin" in str(done.exception)
