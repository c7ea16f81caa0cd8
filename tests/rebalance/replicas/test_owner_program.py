"""Delegation of datasets to the service by owners and campaigns, and reports about delegated datasets."""

import errno
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from gridbridge.batch import privileged_helper_calls
from gridbridge.campaigns.store import campaign_inbox
from gridbridge.cli import main
from gridbridge.decisions.rebalance.storage_area_rebalancing import (
    datasets_as_rebalance_snapshot,
    plan_dataset_rebalance_round,
)
from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.jdl import JdlDataset
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.model.rebalance.datasets import DatasetStorageSnapshot, ServiceReplicaActInOwnerFile
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea, RebalanceSection
from gridbridge.rebalance.cli import data_command, dataset_report
from gridbridge.rebalance.replicas import dataset_owner_program, delegated_datasets
from gridbridge.rebalance.replicas.delegated_datasets import (
    add_campaign_datasets,
    delegate_dataset_or_why_not,
    list_dataset_delegations,
    query_owners_for_datasets,
    try_revoke_dataset_delegation,
)
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from tests.builders.command_lines import exit_status
from tests.rebalance.mover.areas import Site, dataset_row


@pytest.fixture(name="site")
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    monkeypatch.setattr(delegated_datasets.owner_datasets, "open_owner_datasets", lambda *_: site.datasets)
    for module in (delegated_datasets, dataset_report, dataset_owner_program):
        monkeypatch.setattr(module.configuration_in_force, "load_config_or_one_in_force", lambda _: (None, ""))
    return site


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> str:
    """Make the folder of campaign files with the poller's mode."""
    path = tmp_path / "campaigns"
    path.mkdir()
    path.chmod(0o3733)
    return str(path)


def test_a_delegated_dataset_is_listed_with_its_owner_until_the_delegation_is_revoked(folder: str) -> None:
    for name in ("reads", "reads", "genome"):
        assert delegate_dataset_or_why_not(name, folder) == ""
    listed = list_dataset_delegations(folder)
    try_revoke_dataset_delegation("reads", folder)

    assert sorted(one.dataset for one in listed) == ["genome", "reads"]
    assert {one.uid for one in listed} == {os.getuid()}
    assert [one.dataset for one in list_dataset_delegations(folder)] == ["genome"]


def test_a_delegation_without_service_returns_the_missing_folder(tmp_path: Path) -> None:
    assert delegate_dataset_or_why_not("reads", f"{tmp_path}/none") == f"{tmp_path}/none: no such folder"


def test_a_dataset_with_several_delegation_files_is_listed_once(folder: str) -> None:
    delegate_dataset_or_why_not("reads", folder)
    (Path(folder, f"u.{os.getuid()}") / f"data.{'2' * 32}").write_text('{"dataset": "reads"}')

    assert [one.dataset for one in list_dataset_delegations(folder)] == ["reads"]


@pytest.fixture(name="many")
def _many(folder: str) -> list[str]:
    """Delegate 60 datasets, more than the service's limit of other files."""
    names = [f"d{number}" for number in range(60)]
    for name in names:
        delegate_dataset_or_why_not(name, folder)
    return names


def test_all_datasets_of_an_owner_with_many_datasets_leave_a_drained_area(
    folder: str, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(*words: str, **_: object) -> CompletedProgram:
        rows = [dataset_row(json.loads(Path(folder, one).read_text())["dataset"]) for one in words[1:]]
        return CompletedProgram(words, 0, json.dumps(rows).encode(), b"")

    monkeypatch.setattr(privileged_helper_calls, "run_gridbridge_as_user", call)
    some = (MeasuredStorageArea(storage=name, clusters=(name,), size_bytes=999, free_bytes=999) for name in "ab")
    seen = DatasetStorageSnapshot(
        now=datetime(2026, 11, 25, 12, tzinfo=UTC),
        kept=tuple(query_owners_for_datasets(list_dataset_delegations(folder))),
        areas=tuple(some),
        drained=frozenset("a"),
    )
    rules = RebalanceSection(moves_from_failed=100, min_free_bytes=0, full_free_bytes=0)
    advice = plan_dataset_rebalance_round(datasets_as_rebalance_snapshot(seen, rules), rules)

    assert {one.job.partition("/")[2] for one in advice.moves} == set(many)
    assert {(one.source, one.target) for one in advice.moves} == {("a", "b")}


def test_a_delegation_beyond_the_limit_is_refused_and_no_dataset_is_added(
    site: Site, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegated_datasets, "MOST", 2)
    told = [delegate_dataset_or_why_not(name, folder) for name in ("one", "two", "one", "three")]
    words = ["add", "three", site.tree(), "--later"]
    result = CliRunner().invoke(data_command.data, words, obj=FixedPaths(campaigns=folder))
    with pytest.raises(GridbridgeError, match="2 of your datasets are delegated to the service"):
        add_campaign_datasets({"three": JdlDataset(path=f"{site.folder}/reads")}, FixedPaths(campaigns=folder))

    assert told[:3] == ["", "", ""]
    assert "expected at most 2:" in told[3]
    assert "2 of your datasets are delegated to the service" in str(result.exception)
    assert site.datasets.list_datasets() == []
    assert len(list_dataset_delegations(folder)) == 2


def test_delegations_beyond_an_owners_limit_are_not_listed(
    folder: str, many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delegated_datasets, "MOST", 55)

    assert len(list_dataset_delegations(folder)) == 55 < len(many)


@pytest.mark.parametrize("text", ['{"dataset": "../x"}', "[]", "[" * 1000, "x", '{"dataset": 3}', "{}"])
def test_an_invalid_delegation_file_does_not_hide_other_delegations(folder: str, text: str) -> None:
    delegate_dataset_or_why_not("reads", folder)
    person = Path(folder, f"u.{os.getuid()}")
    (person / f"data.{'0' * 32}").write_text(text)
    (person / f"data.{'1' * 32}").symlink_to(person / f"data.{'0' * 32}")

    assert [one.dataset for one in list_dataset_delegations(folder)] == ["reads"]


def test_the_delegation_of_a_removed_dataset_is_revoked(site: Site, folder: str) -> None:
    delegate_dataset_or_why_not("reads", folder)
    Path(site.folder, "records").mkdir()

    assert dataset_owner_program._report_dataset(site.datasets, "reads", folder) == {"name": "reads", "gone": True}
    assert list_dataset_delegations(folder) == []


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("mv records away", "No such file or directory"),
        ("mv records away; ln -s away records", "Not a directory"),
        ("chown 65534 records", "the folder belongs to another account"),
        ("", "Stale file handle"),
    ],
    ids=["not mounted", "a link", "another's", "stale"],
)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_unreadable_home_does_not_revoke_delegations(
    site: Site, folder: str, monkeypatch: pytest.MonkeyPatch, spoil: str, why: str
) -> None:
    """One failed query must not end a delegation."""
    site.datasets.add_dataset("reads", site.tree(), 1)
    delegate_dataset_or_why_not("reads", folder)
    subprocess.run(["sh", "-c", spoil], cwd=site.folder, check=True)
    with monkeypatch.context() as during:
        if not spoil:
            during.setattr(os, "lstat", Mock(side_effect=OSError(errno.ESTALE, os.strerror(errno.ESTALE))))
        told = dataset_owner_program._report_dataset(site.datasets, "reads", folder)

    assert set(told) == {"name", "fault"}
    assert why in str(told["fault"])
    assert [one.dataset for one in list_dataset_delegations(folder)] == ["reads"]


@pytest.mark.skipif(os.geteuid() != 0, reason="another person's folder")
def test_a_delegation_can_be_revoked_although_another_user_owns_the_persons_folder(
    tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Path(folder, "u.0")
    taken.mkdir()
    os.chown(taken, 65534, -1)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: Mock(pw_dir=str(tmp_path)))
    for name in ("reads", "genome", "reads"):
        campaign_inbox._random_inbox_token.cache_clear()
        assert delegate_dataset_or_why_not(name, folder) == ""
    for _ in range(3):
        campaign_inbox._random_inbox_token.cache_clear()
        try_revoke_dataset_delegation("reads", folder)

    assert [one.dataset for one in list_dataset_delegations(folder)] == ["genome"]
    assert len(os.listdir(folder)) == 2


def test_a_campaigns_datasets_are_recorded_and_delegated_to_the_service(site: Site, folder: str) -> None:
    wishes = {"reads": JdlDataset(path=site.tree(), replicas=2)}
    add_campaign_datasets(wishes, FixedPaths(campaigns=folder))
    add_campaign_datasets(wishes, FixedPaths(campaigns=folder))

    (found,) = site.datasets.list_datasets()
    assert (found.name, found.wished, found.files, found.replicas) == ("reads", 2, 3, ())
    assert [one.dataset for one in list_dataset_delegations(folder)] == ["reads"]


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_campaign_is_refused_if_a_dataset_name_is_already_used_for_another_dataset(
    site: Site, folder: str, replicas: int
) -> None:
    path = site.tree()
    site.datasets.add_dataset("reads", path, 2, is_later=True)
    other = path if replicas == 1 else f"{path}/deep"
    wishes = {"new": JdlDataset(path=path), "reads": JdlDataset(path=other, replicas=replicas)}

    with pytest.raises(GridbridgeError, match="reads: you already have a dataset of this name, of"):
        add_campaign_datasets(wishes, FixedPaths(campaigns=folder))
    assert [one.name for one in site.datasets.list_datasets()] == ["reads"]
    assert list_dataset_delegations(folder) == []


def test_a_campaign_with_an_unreadable_dataset_is_refused(site: Site, folder: str) -> None:
    with pytest.raises(GridbridgeError, match="No such file or directory"):
        add_campaign_datasets({"reads": JdlDataset(path=f"{site.folder}/none")}, FixedPaths(campaigns=folder))
    assert list_dataset_delegations(folder) == []


Why = Callable[[str], tuple[int, str]]


@pytest.fixture(name="why")
def _why(site: Site, capsys: pytest.CaptureFixture[str]) -> Why:
    del site

    def run(name: str) -> tuple[int, str]:
        status, shown = exit_status(main.main, "gridbridge", "why", name), capsys.readouterr()
        return status, shown.out + shown.err

    return run


def test_why_reports_a_datasets_replicas_and_the_actions_of_the_service(site: Site, why: Why) -> None:
    one = site.datasets
    one.add_dataset("reads", site.tree(), 1)
    now = Clock().now()
    for done in (
        ServiceReplicaActInOwnerFile(at=now, target="beta-disk", source="alpha-disk"),
        ServiceReplicaActInOwnerFile(at=now, target="gamma-disk", why="the area is read-only"),
        ServiceReplicaActInOwnerFile(at=now, source="gamma-disk"),
    ):
        one.records.record_action_of_service("reads", done)
    status, out = why("reads")

    assert not status
    assert "1 of 1 replica whole" in out.splitlines()[0]
    assert "the service copied the dataset to beta-disk instead of alpha-disk\n" in out
    assert "the service copied the dataset to gamma-disk: not done, the area is read-only\n" in out
    assert "the service removed the replica from gamma-disk\n" in out


def test_why_finds_the_callers_dataset_by_its_name_with_or_without_the_owner(site: Site, why: Why) -> None:
    site.datasets.add_dataset("1000genomes", site.tree(), 1)

    for owner in ("", f"{pwd.getpwuid(os.getuid()).pw_name}/"):
        status, out = why(f"{owner}1000genomes")
        assert (status, "1 of 1 replica whole" in out) == (0, True)
    refused = "gridbridge: reads: no job, campaign or dataset of yours; datasets: 1000genomes\n"
    assert why("reads") == (2, refused)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (("look", "reads", "none"), 0, '"gone": true'),
        (("verify", "reads"), 0, '"done": true'),
        (("verify", "none"), 2, "none: no dataset of yours"),
        (("copy", "reads", "nowhere"), 2, "nowhere: no storage area"),
        (("copy", "reads"), 2, "copy: 0 storage areas"),
        (("drop", "reads", "there"), 0, '"done": true'),
    ],
)
def test_the_dataset_owners_program_answers_in_json(
    site: Site,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    status: int,
    told: str,
) -> None:
    site.datasets.add_dataset("reads", site.tree(), 1)
    monkeypatch.setattr(sys, "argv", ["owned", *words])

    assert dataset_owner_program.run_dataset_owner_program() == status
    shown = capsys.readouterr()
    assert told in (shown.err if status == 2 else shown.out)
    assert status == 2 or json.loads(shown.out)
