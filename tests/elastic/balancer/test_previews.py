"""Decisions about saved rounds, and the preview of a squeeze."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.elastic import saved_balancer_round_folder
from gridbridge.elastic.balancer import balance_situation_sources, squeeze_preview
from gridbridge.elastic.balancer.balance_situation_sources import load_saved_balance_situation
from gridbridge.elastic.balancer.balancer_round_decision import decide_and_report_balance
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.elastic.balance_plan import SavedBalancerRoundInput
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.elastic.elastic_nodes import ElasticNode
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from tests.elastic.site_text import ALPHA, RACK, powered_hosts

GOLDEN = Path(__file__).parents[2] / "golden" / "gridengine-8.1.9"
BUSY = {"qstat.xml": (GOLDEN / "cell.xml").read_bytes(), "qhost.xml": (GOLDEN / "hosts.xml").read_bytes()}
LATER = datetime(2126, 1, 1, tzinfo=UTC)
IDLE_ROW = b"<job_info><queue_info>%s</queue_info><job_info/></job_info>"
QUEUE = (
    b"<Queue-List><name>all.q@alpha-n%d</name><slots_used>0</slots_used><slots_resv>0</slots_resv>"
    b"<slots_total>2</slots_total></Queue-List>"
)


def kept(*nodes: str) -> SavedBalancerRoundInput:
    since = LATER - timedelta(minutes=50)
    found = tuple(ElasticNode(name=name, up_since=since) for name in nodes)
    return SavedBalancerRoundInput(now=LATER, master="alpha-master", nodes=found)


def test_nodes_are_added_for_a_saved_cell_with_many_jobs(tmp_path: Path) -> None:
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), BUSY, kept("alpha-n1", "alpha-n2"))
    told = decide_and_report_balance(
        load_saved_balance_situation(str(tmp_path)), BalanceSection(max_nodes=4, add_nodes_per_iteration=9)
    )

    assert (told.add, told.remove, told.pool) == (1, (), None)


def test_nodes_are_removed_from_a_saved_cell_without_jobs(tmp_path: Path) -> None:
    idle = BUSY | {"qstat.xml": IDLE_ROW % b"".join(QUEUE % n for n in (1, 2))}
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), idle, kept("alpha-n1", "alpha-n2"))

    report = decide_and_report_balance(load_saved_balance_situation(str(tmp_path)), BalanceSection(max_nodes=4))
    assert report.remove == ("alpha-n1", "alpha-n2")


def test_a_saved_round_with_an_incomplete_answer_is_not_an_idle_cell(tmp_path: Path) -> None:
    cut = BUSY | {"qstat.xml": BUSY["qstat.xml"][:2000]}
    saved_balancer_round_folder.write_saved_balancer_round(str(tmp_path), cut, kept("alpha-n1"))

    with pytest.raises(ClusterStateUnknown, match=f"^{tmp_path}: qstat: broken XML"):
        load_saved_balance_situation(str(tmp_path))


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_preview_by_root_runs_as_the_account_of_the_balancer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_root = Mock()
    monkeypatch.setattr(squeeze_preview, "drop_root_to_account", leave_root)
    monkeypatch.setattr(
        squeeze_preview.balance_situation_sources,
        "observe_balanced_cluster",
        Mock(side_effect=ClusterStateUnknown("enough")),
    )
    path = tmp_path / "gridbridge.toml"
    path.write_text(ALPHA)

    with pytest.raises(ClusterStateUnknown):
        squeeze_preview.preview_squeeze(NOON, path=str(path))

    leave_root.assert_called_once_with(BALANCE_ACCOUNT)


def test_hosts_with_unknown_power_state_are_reported_and_not_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(squeeze_preview, "drop_root_to_account", Mock())
    shutil.copy(GOLDEN / "idle.xml", tmp_path / "qstat.xml")
    shutil.copy(GOLDEN / "hosts.xml", tmp_path / "qhost.xml")
    (tmp_path / "state.json").write_text(json.dumps({"now": NOON.isoformat(), "master": "m"}))
    seen = balance_situation_sources.load_saved_balance_situation(str(tmp_path))
    monkeypatch.setattr(squeeze_preview.balance_situation_sources, "observe_balanced_cluster", lambda *_: seen)
    monkeypatch.setattr(squeeze_preview.host_membership_and_tags, "query_home_cluster_host_tags", lambda _: {})
    path = tmp_path / "gridbridge.toml"
    path.write_text(ALPHA + RACK.replace("true", "false") + powered_hosts("alpha-n1"))

    told = squeeze_preview.preview_squeeze(NOON, path=str(path))

    assert [host for host, _ in told.untold] == ["alpha-n1"]
    assert not [one for one in caplog.records if "no_state" in one.getMessage()]
