"""Previews of plans and squeezes, also of saved rounds and of providers that give no machine list."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from gridbridge.config.configuration_file import load_configuration
from gridbridge.elastic.balancer import balance_preview, balance_situation_sources, squeeze_preview
from gridbridge.elastic.balancer.balance_preview import BalanceRuleOverrides
from gridbridge.elastic.balancer.balance_situation_sources import load_saved_balance_situation
from gridbridge.elastic.balancer.balancer_round_decision import decide_and_report_balance
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.elastic.balancer_config_sections import BalanceSection
from gridbridge.model.fixed_paths import BALANCE_ACCOUNT
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.site import storage_provider_and_runner_checks
from tests.builders.programs import write_program
from tests.decisions.elastic.cells import MASTER, NOON, instance, situation, waiting
from tests.elastic.saved_rounds import save_round
from tests.elastic.site_text import ALPHA, RACK, powered_hosts


def test_nodes_are_removed_from_a_saved_cell_without_jobs(tmp_path: Path) -> None:
    up = {"up_since": "2126-01-01T11:10:00+00:00"}
    save_round(tmp_path, "idle.xml", nodes={"alpha-n1": up, "alpha-n2": up})

    report = decide_and_report_balance(load_saved_balance_situation(str(tmp_path)), BalanceSection(max_nodes=4))

    assert report.remove == ("alpha-n1", "alpha-n2")


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


SITE = f"""{ALPHA}
[provider.works]
kind = "command"
program = "{{folder}}/works"
[provider.lacks]
kind = "command"
program = "{{folder}}/none"
[balance]
max_nodes = 9
"""
POOL = """
[pool.{name}]
provider = "{provider}"
slots = 4
priority = {priority}
"""
SEEN = situation(instance(MASTER, (1,), slots=1), wait=[waiting(5, tasks=12)])


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a gridbridge.toml with two providers and no pool. The program of one provider is missing."""
    monkeypatch.setattr(balance_situation_sources, "BALANCE_STATE", f"{tmp_path}/state.db")
    monkeypatch.setattr(balance_situation_sources, "observe_balanced_cluster", lambda *_: SEEN)
    write_program(tmp_path / "works", "#!/bin/sh\necho '[]'\n")
    path = tmp_path / "site.toml"
    path.write_text(SITE.format(folder=tmp_path))
    return path


def pool(site: Path, name: str, provider: str, priority: int = 0) -> None:
    with site.open("a") as file:
        file.write(POOL.format(name=name, provider=provider, priority=priority))


def judged(site: Path) -> dict[str, FindingSeverity]:
    found = storage_provider_and_runner_checks.check_provider_lists(load_configuration(str(site)), str(site))
    return {each.item: each.state for each in found}


def test_a_slow_machine_list_is_only_a_warning_of_the_check(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_provider_and_runner_checks, "LIST_LIMIT_S", 0.01)
    pool(site, "usual", "works")

    assert judged(site) == {"lists of providers": FindingSeverity.WARNING}


def test_a_pool_with_a_machine_list_is_part_of_the_plan(site: Path) -> None:
    pool(site, "usual", "works")
    told = balance_preview.preview_balance_plan(BalanceRuleOverrides(), NOON, path=str(site))

    assert (told.add, told.pool, told.unseen) == (3, "usual", ())
    assert judged(site) == {"pool usual: provider's list": FindingSeverity.OK}


def test_the_plan_adds_no_nodes_of_a_pool_without_a_machine_list(site: Path) -> None:
    pool(site, "usual", "lacks", priority=9)
    pool(site, "other", "works")
    told = balance_preview.preview_balance_plan(BalanceRuleOverrides(), NOON, path=str(site))

    assert (told.add, told.pool) == (3, "other")
    (unseen,) = told.unseen
    assert unseen.startswith("pool usual: the provider gives no list of machines, ")
    assert "No such file or directory" in unseen
    assert judged(site) == {
        "pool usual: provider's list": FindingSeverity.BROKEN,
        "pool other: provider's list": FindingSeverity.OK,
    }


def test_without_any_machine_list_the_plan_is_an_error(site: Path) -> None:
    pool(site, "usual", "lacks")

    with pytest.raises(ClusterStateUnknown, match="no provider gave a whole list of its machines: pool usual"):
        balance_preview.preview_balance_plan(BalanceRuleOverrides(), NOON, path=str(site))
