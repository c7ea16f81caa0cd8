"""`balance plan` and `site check` report providers that give no machine list."""

from pathlib import Path

import pytest

from gridbridge.config.configuration_file import load_configuration
from gridbridge.elastic.balancer import balance_preview, balance_situation_sources
from gridbridge.elastic.balancer.balance_preview import BalanceRuleOverrides
from gridbridge.errors import ClusterStateUnknown
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.site import storage_provider_and_runner_checks
from tests.builders.programs import write_program
from tests.decisions.elastic.cells import MASTER, NOON, instance, situation, waiting
from tests.elastic.site_text import ALPHA

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
