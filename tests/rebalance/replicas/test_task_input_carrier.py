"""Input files are carried once to a cluster, whole, and removed when no campaign of the owner needs them."""

import hashlib
import os
import pwd
import sys
from collections.abc import Set
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gridbridge.errors import CopyNoLongerWanted, StorageAreaUnusable
from gridbridge.model.campaigns.campaign import CampaignState
from gridbridge.model.campaigns.campaign_configuration_sections import ClusterCampaignsSection
from gridbridge.model.campaigns.task_input_files import MADE_LATER, TaskInputFile
from gridbridge.model.config_key_descriptions import PathByCluster
from gridbridge.model.fixed_paths import NOT_NOW
from gridbridge.model.rebalance.datasets import Dataset, DatasetReplica, format_as_sha256sum_output
from gridbridge.model.rebalance.rebalance_section import StorageAreaSection
from gridbridge.model.site_configuration import ClusterSection
from gridbridge.rebalance.replicas import carried_input_preview, storage_area_shell_scripts, task_input_carrier
from gridbridge.rebalance.replicas.carried_input_files import (
    CarriedInputFile,
    CarriedInputFolder,
    choose_files_to_remove,
)
from gridbridge.rebalance.replicas.carried_input_preview import describe_inputs_at_clusters
from gridbridge.rebalance.replicas.dataset_records_and_originals import OwnerDatasetRecords
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import copy_files_by_rsync
from gridbridge.rebalance.replicas.replicas_as_inputs import replica_paths_of_inputs
from gridbridge.rebalance.replicas.storage_area_shell_scripts import StorageAreaForAccount
from gridbridge.rebalance.replicas.task_input_carrier import (
    CampaignEndWatch,
    carry_missing_inputs,
    copy_outputs_of_predecessors,
    mean_missing_input_bytes,
    next_tasks_after,
)
from gridbridge.shell import rsync
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_lock_file import MomentaryProgramLock
from tests.builders.campaigns import NOON, made_policy
from tests.builders.programs import write_program
from tests.campaigns.cli.published_builder import make_shown_campaign, publish_campaigns
from tests.rebalance.mover.areas import Carrier


class Cluster:
    """A storage area in a local folder, and the files of tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.area = folder, folder / "area"
        self.area.mkdir()
        self.carrier = Carrier()
        me = "alice"
        area = StorageAreaForAccount(
            name="disk", clusters=("gamma",), path=str(self.area), account=me, login=None, timeout_s=60
        )
        self.store = CarriedInputFolder(area, str(folder / "links"), self.carrier)
        self.carried = self.area / me / ".inputs"

    def file(self, name: str, content: str) -> TaskInputFile:
        path = self.folder / name
        path.write_text(content)
        return TaskInputFile(name, str(path), len(content), hashlib.sha256(content.encode()).hexdigest())

    def carry(self, *files: TaskInputFile) -> dict[int, str]:
        self.store.open_folder()
        return carry_missing_inputs(self.store, dict(enumerate((file,) for file in files)))

    def contents(self) -> set[str]:
        return {path.read_text() for path in self.carried.iterdir()}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    home = tmp_path / "bin"
    home.mkdir()
    # the account's home on this host must stay as it is
    write_program(home / "getent", f"#!/bin/sh\necho x:x:1:1::{tmp_path}/home:/bin/sh\n")
    monkeypatch.setattr(
        "gridbridge.rebalance.replicas.storage_area_shell_scripts.BARE",
        {"PATH": f"{home}:/usr/bin:/bin", "LC_ALL": "C"},
    )
    return Cluster(tmp_path)


def test_a_file_of_several_tasks_is_carried_once(cluster: Cluster) -> None:
    shared, own = cluster.file("ref", "genome"), cluster.file("a", "read")

    assert {} == cluster.carry(shared, own, shared)
    assert {} == cluster.carry(shared)

    assert {"genome", "read"} == cluster.contents()
    assert [own.digest, shared.digest] == sorted(cluster.carrier.carried, key=[own.digest, shared.digest].index)
    link = cluster.folder / "home/.gridbridge/inputs"
    assert os.readlink(link) == str(cluster.carried)


@pytest.mark.parametrize("is_of_another", [False, True])
def test_a_file_that_a_predecessor_made_is_carried_as_it_is_then(cluster: Cluster, *, is_of_another: bool) -> None:
    """Its copy has the name of the task's line, and shares the content of another campaign's copy."""
    made = cluster.file("a", "read")
    first, second = (TaskInputFile("a", made.path, MADE_LATER, name * 64) for name in "ab")
    other = TaskInputFile("c", str(cluster.folder / "c"), MADE_LATER, "c" * 64)
    if is_of_another:
        cluster.carry(made)

    assert {2: f"{other.path}: No such file or directory"} == cluster.carry(first, second, other)
    Path(made.path).write_text("changed")
    assert {} == cluster.carry(first)

    names = {path.name: path.read_text() for path in cluster.carried.iterdir()}
    kept = [made.digest] if is_of_another else []
    assert dict.fromkeys([first.digest, second.digest, *kept], "read") == names
    assert 1 == len(cluster.carrier.carried)


@pytest.mark.parametrize(("there", "carried"), [("read", 0), ("READ", 1), (None, 1)], ids=["same", "changed", "gone"])
def test_a_predecessors_output_at_the_cluster_is_not_carried_back(
    cluster: Cluster, there: str | None, carried: int
) -> None:
    """An output that differs from the file at home is not used."""
    made, output = cluster.file("a", "read"), cluster.folder / "home/campaign.6/0/it's out"
    output.parent.mkdir(parents=True)
    if there:
        output.write_text(there)
    file = TaskInputFile("a", made.path, MADE_LATER, "a" * 64)
    cluster.store.open_folder()

    missing = carry_missing_inputs(
        cluster.store, {0: (file,)}, find_outputs=lambda wanted: dict.fromkeys(wanted, "./campaign.6/0/it's out")
    )

    assert ({}, {"read"}, ["a" * 64]) == (missing, cluster.contents(), os.listdir(cluster.carried))
    assert carried == len(cluster.carrier.carried)


@pytest.mark.parametrize("is_found", [True, False])
@pytest.mark.parametrize("there", ["read", None], ids=["there", "removed"])
def test_outputs_that_are_not_at_home_are_copied_inside_the_cluster(
    cluster: Cluster, there: str | None, *, is_found: bool
) -> None:
    """A file of an earlier workflow may still be at home."""
    old, output = cluster.file("a", "old"), cluster.folder / "home/campaign.6/0/it's out"
    output.parent.mkdir(parents=True)
    if there:
        output.write_text(there)
    file, other = (TaskInputFile("a", old.path, size, digest * 64) for size, digest in ((MADE_LATER, "a"), (3, "b")))
    cluster.store.open_folder()

    def find(paths: Set[str]) -> dict[str, str]:
        return dict.fromkeys(paths, "./campaign.6/0/it's out") if is_found else {}

    is_copied = there is not None and is_found
    assert is_copied is copy_outputs_of_predecessors(cluster.store, [(file, other)], find)
    assert ({"a" * 64: "read"} if is_copied else {}) == {
        path.name: path.read_text() for path in cluster.carried.iterdir()
    }
    assert copy_outputs_of_predecessors(cluster.store, [(other,)], find)
    assert is_copied is copy_outputs_of_predecessors(cluster.store, [(file,)], lambda _: {})
    assert [] == [*cluster.carried.with_name(".inputs.part").iterdir()]


def test_clusters_that_share_an_area_share_the_carried_files(cluster: Cluster) -> None:
    file, there = cluster.file("a", "read"), cluster.folder / "mnt"
    there.symlink_to(cluster.area)
    cluster.carry(file)

    cluster.store.area = replace(cluster.store.area, path=str(there))

    assert {} == cluster.carry(file)
    assert 1 == len(cluster.carrier.carried)
    assert os.readlink(cluster.folder / "home/.gridbridge/inputs") == f"{there}/alice/.inputs"


def test_carries_to_clusters_that_share_an_area_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gridbridge").mkdir(0o700)
    storage = {"shared": StorageAreaSection(clusters=PathByCluster({"beta": "/data", "gamma": "/mnt/data"}))}
    campaigns = dict.fromkeys(("beta", "gamma"), ClusterCampaignsSection(inputs_storage="shared"))
    policy = made_policy("alpha", "beta", "gamma", storage=storage, campaigns=campaigns)
    monkeypatch.setenv("HOME", str(tmp_path))
    load = "load_config_or_one_in_force"
    monkeypatch.setattr(task_input_carrier.configuration_in_force, load, lambda _: (policy, ""))

    with MomentaryProgramLock(f"{tmp_path}/.gridbridge/inputs.shared.lock") as is_alone:
        assert is_alone
        for cluster in ("beta", "gamma"):
            monkeypatch.setattr(sys, "argv", ["carrier", "7", cluster, "1:1"])
            assert NOT_NOW == task_input_carrier.run_task_input_carrier()


def test_a_broken_carry_continues(cluster: Cluster) -> None:
    files = [cluster.file(name, name) for name in "abc"]
    cluster.carrier.dies_after = 2
    with pytest.raises(StorageAreaUnusable, match="error in rsync protocol"):
        cluster.carry(*files)
    assert set() == cluster.contents()

    cluster.carrier.dies_after = -1

    assert {} == cluster.carry(*files)
    assert (3, {"a", "b", "c"}) == (len(cluster.carrier.carried), cluster.contents())


def test_the_copy_for_an_ended_campaign_ends_soon(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """So griddel frees the owner's only carry to the cluster; a later carry continues the copy."""
    published, passed_s = cluster.folder / "published", 0.0
    watch = CampaignEndWatch(7, Clock(lambda: 0.0, lambda: passed_s), str(published))
    published.mkdir()
    looks = []
    for state in (CampaignState.IN_TREATMENT, CampaignState.IN_TREATMENT, CampaignState.CANCELLED):
        publish_campaigns(published, make_shown_campaign(state=state))
        looks.append(watch.has_campaign_ended())
        passed_s += 5.0
    assert [False, False, True] == looks
    cluster.store.copy, cluster.store.is_unwanted = copy_files_by_rsync, lambda: True
    slow = write_program(cluster.folder / "rsync", "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(rsync, "PROGRAM", str(slow))
    file = cluster.file("a", "read")

    with pytest.raises(CopyNoLongerWanted):
        cluster.carry(file)
    assert not cluster.contents()


def test_tasks_whose_file_is_missing_or_changed_are_told_and_the_others_go_on(cluster: Cluster) -> None:
    files = {name: cluster.file(name, name * 3) for name in ("good", "gone", "longer", "other")}
    Path(files["gone"].path).unlink()
    Path(files["longer"].path).write_text("longer" * 4)
    Path(files["other"].path).write_text("OTHER" * 3)

    missing = cluster.carry(*files.values())

    assert {
        1: f"{cluster.folder}/gone: No such file or directory",
        2: f"{cluster.folder}/longer: 24 bytes; expected 18, as gridsub found",
        3: f"{cluster.folder}/other: the content has changed since gridsub read it",
    } == missing
    assert {"goodgoodgood"} == cluster.contents()


def test_a_spoilt_copy_is_not_used(cluster: Cluster) -> None:
    file = cluster.file("a", "read")
    cluster.carrier.spoils = {file.digest}

    assert {0} == cluster.carry(file).keys()
    assert {} == cluster.carry(file)
    assert {"read"} == cluster.contents()


def test_a_truncated_copy_is_carried_again(cluster: Cluster) -> None:
    """After a power cut a file may be empty."""
    file = cluster.file("a", "read")
    cluster.carry(file)
    (cluster.carried / file.digest).write_text("")

    assert {} == cluster.carry(file)
    assert {"read"} == cluster.contents()


def test_the_folder_of_carried_files_may_be_no_link(cluster: Cluster) -> None:
    cluster.carry(cluster.file("a", "read"))
    cluster.carried.rename(cluster.folder / "elsewhere")
    cluster.carried.symlink_to(cluster.folder / "elsewhere")

    with pytest.raises(StorageAreaUnusable, match="is a link or belongs to another account"):
        cluster.carry(cluster.file("b", "other"))


@pytest.mark.parametrize("others", [(), ("a",)], ids=["no other campaign", "another campaign needs a"])
def test_an_ended_campaigns_files_are_removed_unless_another_campaign_needs_them(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, others: tuple[str, ...]
) -> None:
    files = {name: cluster.file(name, name) for name in "abc"}
    cluster.carry(*files.values())
    inputs: dict[int, Any] = {7: [files["a"], files["b"]], 8: [files[name] for name in others]}
    monkeypatch.setattr(task_input_carrier, "read_inputs_of_own_tasks", lambda number: {0: tuple(inputs[number])})
    alive = [Mock(number=number) for number in (7, 8)]
    monkeypatch.setattr(task_input_carrier.campaign_client, "published_campaigns", lambda _: alive)

    task_input_carrier.remove_unneeded_inputs(cluster.store, 7)

    assert {"c", *others} == cluster.contents()


def test_no_folder_stays_after_the_last_file(cluster: Cluster) -> None:
    file = cluster.file("a", "a")
    cluster.carry(file)

    cluster.store.remove_empty_folder()
    assert {"a"} == cluster.contents()
    cluster.store.remove_files([file.digest])
    cluster.store.remove_empty_folder()

    assert [".gridbridge.area"] == os.listdir(cluster.carried.parent)
    assert [] == os.listdir(cluster.folder / "home/.gridbridge")


def test_an_input_that_has_become_a_fifo_holds_nobody_up(cluster: Cluster) -> None:
    file = cluster.file("ff", "content")
    (cluster.folder / "ff").unlink()
    os.mkfifo(cluster.folder / "ff")

    assert {0: f"{cluster.folder}/ff: not a regular file"} == cluster.carry(file)


def test_a_task_can_not_change_the_copy_of_other_tasks(cluster: Cluster) -> None:
    cluster.carry(cluster.file("a", "a"))

    assert {0o400} == {path.stat().st_mode & 0o777 for path in cluster.carried.iterdir()}


def test_what_the_next_tasks_lack_is_counted_once_for_each_file(cluster: Cluster) -> None:
    shared, here, there = (cluster.file(name, name * size) for name, size in (("s", 9), ("h", 5), ("t", 3)))
    cluster.carry(here)

    assert 4.0 == mean_missing_input_bytes(cluster.store, [(shared, here), (shared,), (there,)])
    assert 0.0 == mean_missing_input_bytes(cluster.store, [])
    made, unmade = (TaskInputFile("x", path, MADE_LATER, "e" * 64) for path in (there.path, f"{there.path}.later"))
    assert (3.0, 0.0) == (
        mean_missing_input_bytes(cluster.store, [(made,)]),
        mean_missing_input_bytes(cluster.store, [(unmade,)]),
    )
    assert 0.0 == mean_missing_input_bytes(
        cluster.store, [(made,)], find_outputs=lambda paths: dict.fromkeys(paths, "")
    )
    assert 5 == cluster.store.copied_bytes


def test_a_path_may_have_every_byte(cluster: Cluster) -> None:
    name = bytes(byte for byte in range(1, 256) if byte != ord("/")).decode("utf-8", "surrogateescape")

    assert {} == cluster.carry(cluster.file(name[:120], "first"), cluster.file(f"-{name[120:]}", "second"))
    assert {"first", "second"} == cluster.contents()


def test_a_call_asks_for_the_files_of_its_tasks_alone(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the files of all calls of a campaign are listed once, however many files lie at the cluster."""
    answers = list[bytes]()
    run = storage_area_shell_scripts.run_script_in_area
    monkeypatch.setattr(
        storage_area_shell_scripts, "run_script_in_area", lambda *words: answers.append(run(*words)) or answers[-1]
    )
    files = [cluster.file(str(number), str(number)) for number in range(1100)]
    cluster.carry(*files)
    answers.clear()

    assert {} == cluster.carry(*files[:3])
    assert 1100 == len(cluster.contents())
    assert 3 == sum(file.digest.encode() in b"".join(answers) for file in files)


@pytest.mark.parametrize("needed", [(), ("a",)])
def test_after_a_used_up_quota_the_files_that_nobody_needs_make_room(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, needed: tuple[str, ...]
) -> None:
    """A quota is not measured: only a copy shows that it is used up."""
    files = {name: cluster.file(name, name) for name in "ab"}
    cluster.carry(*files.values())
    waiting = frozenset(files[name].digest for name in needed)
    monkeypatch.setattr(task_input_carrier, "_files_of_unfinished_tasks", lambda: (frozenset(), waiting))
    cluster.carrier.finds_no_room = True

    with pytest.raises(StorageAreaUnusable, match="exit status 11"):
        cluster.carry(cluster.file("c", "c"))
    assert {*needed} == cluster.contents()


def test_a_check_tells_what_lies_at_each_cluster_and_how_long_the_copy_takes(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is made or copied at a cluster."""
    clusters = {
        name: ClusterSection(ssh="" if name == "near" else name) for name in ("near", "far", "slow", "away", "kept")
    }
    policy = made_policy(clusters=clusters)
    stores = {"kept": cluster.store.area, "far": cluster.store.area, "slow": replace(cluster.store.area, account="bob")}
    monkeypatch.setattr(carried_input_preview, "storage_area_of_inputs", lambda _, name: stores[name])
    stores["away"] = replace(cluster.store.area, path=f"{cluster.folder}/none")
    files = [cluster.file(name, name * 1000) for name in "ab"]
    cluster.carry(files[0])
    by_replica = {"kept": {file.digest: "" for file in files}}
    monkeypatch.setattr(carried_input_preview, "replica_paths_of_inputs", lambda _, name, __: by_replica.get(name, {}))

    rates = {"far": {os.getuid(): 100.0}, "slow": {os.getuid() + 1: 1.0}}
    told = describe_inputs_at_clusters(files, [*clusters, "gone"], policy, rates)

    assert [
        f"inputs at away: unknown, because of: {cluster.folder}/none: no such folder",
        "inputs at far: 1 of 2 files is there, 1000 bytes are copied in about 10 s",
        "inputs at kept: 2 of 2 files are there",
        "inputs at near: the cluster sees the files, so none is copied",
        "inputs at slow: 0 of 2 files are there, 2000 bytes are copied; the time is unknown, because no copy has been"
        " timed",
    ] == [*told]
    assert ["alice"] == os.listdir(cluster.area)


def test_a_whole_replica_of_a_dataset_is_used_without_a_copy(cluster: Cluster) -> None:
    """A file that is no longer in the replica, or has changed there, is copied."""
    files = {name: cluster.file(name, name * 9) for name in ("same", "changed", "gone")}
    replica = cluster.folder / "replica"
    replica.mkdir()
    (replica / "same").write_text("same" * 9)
    (replica / "changed").write_text("CHANGED" * 9)
    paths = {file.digest: f"{replica}/{name}" for name, file in files.items()}
    tasks = dict(enumerate((file,) for file in files.values()))
    cluster.store.open_folder()
    assert 0.0 == mean_missing_input_bytes(cluster.store, [*tasks.values()], lambda _: paths)

    for _ in range(2):
        assert {} == carry_missing_inputs(
            cluster.store, tasks, lambda wanted: {f.digest: paths[f.digest] for f in wanted}
        )

    assert {files["changed"].digest, files["gone"].digest} == {*cluster.carrier.carried}
    assert f"{replica}/same" == os.readlink(cluster.carried / files["same"].digest)
    assert {"same" * 9, "changed" * 9, "gone" * 9} == cluster.contents()
    cluster.store.remove_files(paths)
    assert (replica / "same").exists()


@pytest.mark.parametrize(("is_whole", "storage"), [(True, "d-gamma"), (False, "d-gamma"), (True, "d-beta")])
def test_only_a_whole_replica_at_the_cluster_counts(tmp_path: Path, is_whole: bool, storage: str) -> None:
    folders = {name: tmp_path / name for name in ("reads", "d-gamma", "d-beta")}
    for folder in folders.values():
        folder.mkdir()
    account = pwd.getpwuid(os.geteuid()).pw_name
    policy = made_policy(
        *("alpha", "beta", "gamma"),
        storage={
            name: StorageAreaSection(clusters=PathByCluster({name.removeprefix("d-"): str(folders[name])}))
            for name in ("d-gamma", "d-beta")
        },
    )
    records = OwnerDatasetRecords(str(tmp_path / ".gridbridge/data"))
    (tmp_path / ".gridbridge/data").mkdir(parents=True)
    held = DatasetReplica(storage=storage, size_bytes=1, is_whole=is_whole, checked_at=NOON)
    sums = {"a": "0" * 64, "b": "1" * 64}
    digest = hashlib.sha256(format_as_sha256sum_output(sums)).hexdigest()
    reads = {"name": "reads", "path": str(folders["reads"]), "is_tree": True, "files": 2, "size_bytes": 2}
    records.save_dataset(Dataset(**reads, sha256=digest, wished=1, replicas=(held,)), sums)
    files = [TaskInputFile(name, f"{tmp_path}/{name}", 1, "0" * 64) for name in ("reads/a", "reads/b", "a")]

    found = replica_paths_of_inputs(policy, "gamma", files, str(tmp_path))

    expected = {"0" * 64: f"{tmp_path}/d-gamma/{account}/reads/a"}
    assert (expected if is_whole and storage == "d-gamma" else {}) == found


PRESENT = [
    CarriedInputFile(digest=name, size_bytes=10, last_use_s=used) for name, used in (("a", 3), ("b", 1), ("c", 2))
]


@pytest.mark.parametrize(
    ("needed", "kept", "lacking_bytes", "expected"),
    [
        ("", "", 0, ""),
        ("", "", 5, "b"),
        ("", "", 11, "bc"),
        ("b", "", 5, "c"),
        ("", "b", 5, "c"),
        ("", "bc", 15, "ab"),
        ("a", "", 20, "bc"),
    ],
)
def test_the_file_that_no_task_has_used_for_longest_goes_first(
    needed: str, kept: str, lacking_bytes: int, expected: str
) -> None:
    assert tuple(expected) == choose_files_to_remove(PRESENT, frozenset(needed), frozenset(kept), lacking_bytes)


def test_a_full_area_without_spare_files_is_an_error() -> None:
    with pytest.raises(StorageAreaUnusable, match="1 bytes more than the storage area has for this account"):
        choose_files_to_remove(PRESENT, frozenset("a"), frozenset(), 21)


def test_the_next_tasks_after_an_array_are_not_those_after_its_last_task() -> None:
    """Tasks that share a file go together, so the array may have the campaign's last task."""
    following = next_tasks_after(frozenset({3, 5, 999}))

    assert (4, 6, 7) == following[:3]
    assert (200, 204) == (len(following), following[-1])
