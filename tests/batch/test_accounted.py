"""Tests of the accounting search, run by the real shell and grep."""

import os
import subprocess
from pathlib import Path

import pytest

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.status import NO_LINE, NOT_READ
from gridbridge.model.transfer_route import GridEngineCellAccess

DAY_S = 86400.0


@pytest.fixture(name="common")
def _common(tmp_path: Path) -> Path:
    common = tmp_path / "beta" / "common"
    common.mkdir(parents=True)
    return common


def keep(file: Path, *accounts: str, days_old: float = 0) -> None:
    """Write one accounting line for each account."""
    file.write_text("".join(f"all.q:host:{account}:0\n" for account in accounts))
    at = file.stat().st_mtime - days_old * DAY_S
    os.utime(file, (at, at))


def asked(common: Path, *accounts: str) -> tuple[int, list[str]]:
    """Return the search's exit status, and the account of each line found."""
    root = str(common.parents[1])
    cell = GridEngineCellAccess(root=root, cell="beta", qmaster_port="1", execd_port="2", binaries="/b", timeout_s=1)
    argv = client_commands.search_accounting_command(cell, list(accounts))
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, [line.split(":")[2] for line in done.stdout.splitlines() if ":" in line]


def test_accounting_lines_of_an_account_are_found(common: Path) -> None:
    keep(common / "accounting", "gc.1.1", "x", "y", "gc.1.2", "z", "gc.1.22")

    assert asked(common, "gc.1.2") == (0, ["y", "gc.1.2", "z"])


@pytest.mark.parametrize("name", ["accounting.0", "accounting.1", "accounting-20260101"])
def test_recently_rotated_files_are_searched_first(common: Path, name: str) -> None:
    keep(common / name, "gc.1.1", days_old=1)
    keep(common / "accounting", "gc.1.2")

    assert asked(common, "gc.1.1", "gc.1.2") == (0, ["gc.1.1", "gc.1.2"])


@pytest.mark.parametrize(("name", "days_old"), [("accounting.0", 3), ("accounting.1.gz", 0), ("accounting.save", 0)])
def test_old_and_compressed_files_are_not_searched(common: Path, name: str, days_old: int) -> None:
    keep(common / name, "gc.1.1", days_old=days_old)
    keep(common / "accounting", "x")

    assert asked(common, "gc.1.1") == (NO_LINE, [])


def test_a_missing_accounting_file_or_folder_is_reported(common: Path) -> None:
    keep(common / "accounting.0", "gc.1.1")
    missing = asked(common, "gc.1.1")[0]
    (common / "accounting.0").unlink()
    common.rmdir()

    assert (missing, asked(common, "gc.1.1")[0]) == (NOT_READ, NOT_READ)
