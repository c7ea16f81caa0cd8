"""check warns when another account owns the folder of an account in a storage area."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gridbridge.decisions.site.account_and_file_findings import account_folders_with_wrong_owner
from gridbridge.model.rebalance.rebalance_section import StorageAreaSection
from gridbridge.model.site.setup_findings_and_edits import FindingSeverity
from gridbridge.model.site_configuration import Policy
from gridbridge.site import storage_provider_and_runner_checks
from gridbridge.site.storage_provider_and_runner_checks import check_storage_area_owners
from tests.site.test_queue_order_setup import policy

WORD = "11111111-0000-0000-0000-000000000000"


def area(path: Path) -> Policy:
    known = policy("cost")
    storage = StorageAreaSection(cluster=known.site.cluster, path=str(path))
    return replace(known, storage={"disk": storage})


def test_misowned_account_folders_are_parsed_from_a_listing() -> None:
    lines = (
        "alice d alice",
        "bob d carol",
        "carol l dora",
        "bob d 1001",
        "bob d a b",
        "bob d .hidden",
        f"bob d carol.{WORD}",
        "bob d \x1b[31m",
        "bob d x\nbob d alice",
        "",
    )

    assert account_folders_with_wrong_owner(lines) == {"carol": "bob", "dora": "carol", f"carol.{WORD}": "bob"}


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_a_folder_owned_by_another_account_is_a_warning(tmp_path: Path) -> None:
    for name in ("root", "daemon", "nobody", "no-account-of-ours", f"bin.{WORD}"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "nobody", 65534, 65534)
    (tmp_path / "bin").symlink_to("/")
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert finding.state == FindingSeverity.WARNING
    assert finding.found == f"{tmp_path}: bin is root's, daemon is root's"
    assert f"rm -r -- {tmp_path}/NAME" in finding.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_a_line_break_in_a_name_forges_no_warning(tmp_path: Path) -> None:
    for name in ("nobody", "x\nroot d nobody\ny"):
        (tmp_path / name).mkdir()
    os.chown(tmp_path / "nobody", 65534, 65534)
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert finding.state == FindingSeverity.OK


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone gives files away")
def test_many_long_names_hide_no_misowned_folder(tmp_path: Path) -> None:
    (tmp_path / "daemon").mkdir()
    for number in range(9000):
        (tmp_path / f"{number:x<250}").touch()
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert finding.found == f"{tmp_path}: daemon is root's"


@pytest.mark.parametrize(("names", "is_told"), [(5, False), (6, True)])
def test_a_storage_area_with_too_many_names_is_a_warning(
    tmp_path: Path, names: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_provider_and_runner_checks, "MOST", 5)
    for number in range(names):
        (tmp_path / f"{number}").mkdir()
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert (finding.state == FindingSeverity.WARNING) == is_told
    assert (f"{tmp_path} has more than 5 names" in finding.found) == is_told


def test_a_storage_area_without_misowned_folders_is_ok(tmp_path: Path) -> None:
    (finding,) = check_storage_area_owners(area(tmp_path))

    assert finding.state == FindingSeverity.OK


def test_a_missing_storage_area_gets_no_finding(tmp_path: Path) -> None:
    assert not tuple(check_storage_area_owners(area(tmp_path / "gone")))
