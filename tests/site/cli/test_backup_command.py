"""gridbridge backup and restore as administrators see the two commands."""

import fcntl
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gridbridge.cli.main import gridbridge
from gridbridge.site import site_backup
from gridbridge.site.site_backup import LEDGER, SPOOL, STATE, SavedPlaces, SavedStateFile
from gridbridge.state.state_file import StateFile

TOML = '[site]\ncluster = "{}"\n[cluster.{}]\nkind = "embedded"\nfolder = "/nowhere"\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a site whose ledger knows campaign 7."""
    path = str(tmp_path / "state.db")
    StateFile.open(f"sqlite:///{path}").close()
    for name in ("spool/campaigns", "ledger"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ledger/c.7").write_text("end\n")
    (tmp_path / "gridbridge.toml").write_text(TOML.format("alpha", "alpha"))
    state = SavedStateFile(name=STATE, path=path, account="", locks={"gridbridge-poller": str(tmp_path / "lock")})
    folders = {SPOOL: str(tmp_path / "spool"), LEDGER: str(tmp_path / "ledger")}
    monkeypatch.setattr(site_backup, "saved_places", lambda _: SavedPlaces(state_files=(state,), folders=folders))
    return tmp_path


def run(site: Path, command: str, *options: str) -> Result:
    words = [command, *options, str(site / "backup"), "--config", str(site / "gridbridge.toml")]
    return CliRunner().invoke(gridbridge, words)


def test_a_backup_and_its_restoration_tell_their_parts(site: Path) -> None:
    saved = run(site, "backup")
    tried, restored = run(site, "restore", "--dry-run"), run(site, "restore")

    assert saved.output == "state.db: schema 0001\nspool: 0 files\nledger: 1 files\n"
    assert f"would replace {site}/state.db by the file of 20" in tried.output
    assert f"replaced {site}/state.db by the file of 20" in restored.output
    assert (site / "state.db.before-restore").exists()


def test_a_dry_run_changes_nothing(site: Path) -> None:
    run(site, "backup")
    before = sorted(path.name for path in site.rglob("*"))
    tried = run(site, "restore", "--dry-run")

    assert (tried.exit_code, sorted(path.name for path in site.rglob("*"))) == (0, before)


def test_restoring_is_refused_while_the_service_runs(site: Path) -> None:
    run(site, "backup")
    with open(site / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = run(site, "restore")

    wrong = "running: gridbridge-poller (process unknown); expected no program; --stop stops them"
    assert str(told.exception) == wrong
    assert not (site / "state.db.before-restore").exists()


def test_a_lost_ledger_is_put_back_only_if_asked(site: Path) -> None:
    run(site, "backup")
    (site / "ledger/c.7").unlink()
    refused, done = run(site, "restore"), run(site, "restore", "--lost-ledger")

    assert "root's ledger is lost; --lost-ledger puts" in str(refused.exception)
    assert done.exit_code == 0
    assert (site / "ledger/c.7").read_text() == "end\n"


def test_the_backup_of_another_site_is_refused(site: Path) -> None:
    run(site, "backup")
    (site / "gridbridge.toml").write_text(TOML.format("beta", "beta"))

    assert str(run(site, "restore").exception) == "this is a backup of site alpha; expected one of beta"


def test_a_missing_backup_is_one_line(site: Path) -> None:
    assert str(run(site, "restore").exception) == f"{site}/backup: no such file"
