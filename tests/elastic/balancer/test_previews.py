"""Decisions about saved rounds, and the preview of a squeeze."""

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.elastic.balancer import squeeze_preview
from gridbridge.elastic.balancer.balance_situation_sources import load_saved_balance_situation
from gridbridge.elastic.balancer.balancer_round_decision import decide_and_report_balance
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from tests.elastic.saved_rounds import save_round
from tests.elastic.site_text import ALPHA, RACK, powered_hosts


def test_nodes_are_removed_from_a_saved_cell_without_jobs(tmp_path: Path) -> None:
    up = {"up_since": "2126-01-01T11:10:00+00:00"}
    save_round(tmp_path, "idle.xml", nodes={"alpha-n1": up, "alpha-n2": up})

    report = decide_and_report_balance(load_saved_balance_situation(str(tmp_path)), BalanceSection(max_nodes=4))

    assert report.remove == ("alpha-n1", "alpha-n2")


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
    seen = load_saved_balance_situation(str(save_round(tmp_path, "idle.xml", now=NOON.isoformat())))
    monkeypatch.setattr(squeeze_preview.balance_situation_sources, "observe_balanced_cluster", lambda *_: seen)
    monkeypatch.setattr(squeeze_preview.host_membership_and_tags, "query_home_cluster_host_tags", lambda _: {})
    path = tmp_path / "gridbridge.toml"
    path.write_text(ALPHA + RACK.replace("true", "false") + powered_hosts("alpha-n1"))

    told = squeeze_preview.preview_squeeze(NOON, path=str(path))

    assert [host for host, _ in told.untold] == ["alpha-n1"]
    assert not [one for one in caplog.records if "no_state" in one.getMessage()]
