"""A mistake in gridbridge.toml stops no user command: the configuration in force is used."""

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from gridbridge.errors import ConfigError
from gridbridge.program import configuration_in_force, status_and_why_reports
from gridbridge.transfer.cli import qacct_remote, qstat_remote
from tests.builders.configurations import site_text

RIGHT = site_text("alpha")
WRONG = RIGHT.replace("[site]", "[sit]")
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder with the wrong file and the saved configuration, as seen by a user."""
    (tmp_path / "there").write_text(WRONG)
    (tmp_path / "kept").write_text(RIGHT)
    monkeypatch.setattr(configuration_in_force, "CONFIG", str(tmp_path / "there"))
    monkeypatch.setattr(configuration_in_force, "IN_FORCE", str(tmp_path / "kept"))
    monkeypatch.setattr(configuration_in_force.safe_files, "required_trusted_file_owner", lambda: None)
    return tmp_path


def test_a_configuration_without_its_home_cluster_is_refused(here: Path) -> None:
    other = here / "other.toml"
    other.write_text(RIGHT.replace('cluster = "alpha"', 'cluster = "hub"'))

    with pytest.raises(ConfigError) as told:
        configuration_in_force.load_config_with_home_cluster(str(other))

    wrong = "section [cluster.hub] of the home cluster is missing; present: [cluster.alpha]"
    assert str(told.value) == f'{other}: [site] cluster = "hub": {wrong}'


def test_the_configuration_in_force_replaces_a_wrong_file_only(here: Path) -> None:
    policy, wrong = configuration_in_force.load_config_or_one_in_force(f"{here}/there")
    (here / "there").write_text(RIGHT.replace("alpha", "beta"))
    later, nothing = configuration_in_force.load_config_or_one_in_force(f"{here}/there")

    assert policy.site.cluster == "alpha"
    assert "[site] cluster: missing" in wrong
    assert (later.site.cluster, nothing) == ("beta", "")


def test_user_commands_work_while_the_file_is_wrong(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands are `qacct_remote`, `qstat_remote -j` and `gridbridge why` with its accounting."""
    record = SimpleNamespace(owner="alice")
    monkeypatch.setattr(status_and_why_reports, "home_accounting_records", lambda *_: (record,))
    there = f"{here}/there"
    qstat_remote.SingleRemoteJobQueries(there)

    assert qacct_remote.sum_remote_usage("alice", None, NOW, str(here), there)[0] == ()
    assert status_and_why_reports.job_owners_in_home_accounting(1, there) == {"alice"}


@pytest.mark.parametrize(
    ("name", "kept", "owner"),
    [("there", None, None), ("there", WRONG, None), ("mine", RIGHT, None), ("there", RIGHT, 0)],
    ids=["nothing saved", "a wrong one saved", "a file that the user named", "root, with one of the service"],
)
def test_a_mistake_is_reported_if_no_saved_configuration_may_replace_the_file(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str, kept: str | None, owner: int | None
) -> None:
    monkeypatch.setattr(configuration_in_force.safe_files, "required_trusted_file_owner", lambda: owner)
    (here / "mine").write_text(WRONG)
    (here / "kept").write_text(kept) if kept else (here / "kept").unlink()

    with pytest.raises(ConfigError, match="sit"):
        configuration_in_force.load_config_or_one_in_force(f"{here}/{name}")
