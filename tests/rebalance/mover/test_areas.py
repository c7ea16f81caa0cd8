"""Measuring storage areas: faults, free space, read-only filesystems, time and rate limits."""

import os
import pwd
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from gridbridge.errors import CommandFailed, HostNotReached, StorageAreaUnusable
from gridbridge.model.config_key_descriptions import AccountByUser, PathByCluster
from gridbridge.model.rebalance.datasets import Dataset
from gridbridge.model.rebalance.rebalance_section import StorageAreaKind, StorageAreaSection
from gridbridge.model.site.site_section import SiteSection as SiteSection
from gridbridge.model.transfer_route import SshLogin
from gridbridge.rebalance.replicas import owner_datasets, replica_reconciler, storage_area_shell_scripts
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import LocalOrSshFolder, ReplicaCopier
from gridbridge.rebalance.replicas.storage_area_shell_scripts import (
    measure_area_and_begun_copy,
    measure_area_for_account,
    measure_whole_area,
)
from gridbridge.shell import rsync, ssh
from gridbridge.shell.clock import Clock
from gridbridge.shell.program_runs import CompletedProgram
from tests.builders.campaigns import made_policy
from tests.builders.mounts import memory_mounted
from tests.builders.programs import write_program
from tests.rebalance.mover.areas import Carrier, Site, made_dataset
from tests.state_files import AsUser

ME = pwd.getpwuid(os.geteuid()).pw_name


def test_an_area_is_measured_even_if_the_accounts_folder_is_a_link(site: Site) -> None:
    """Another person made a link in place of the service account's folder."""
    one = site.areas["beta-disk"]
    Path(one.account_folder_path).symlink_to("/")

    account, whole = measure_area_for_account(one), measure_whole_area(one)
    assert (account.fault, whole.fault, account.size_bytes) == ("", "", whole.size_bytes)
    assert whole.size_bytes > whole.free_bytes > 0


@pytest.mark.parametrize(
    ("max_bytes", "begun", "limits"),
    [(0, "", [10]), (10**12, "", [10, 600]), (0, "reads", [10, 600])],
    ids=["no limit", "max_bytes", "a copy was begun"],
)
def test_counting_the_files_of_an_area_gets_a_long_time_limit_after_a_short_query(
    site: Site, monkeypatch: pytest.MonkeyPatch, max_bytes: int, begun: str, limits: list[int]
) -> None:
    """A million files can't be counted within the time of a status command."""
    real, given = storage_area_shell_scripts.ssh.run_over_ssh, list[float]()
    hangs = 10**9  # number of calls before the call that gets no answer

    def run(login: object, argv: tuple[str, ...], env: object, limit_s: float, **_: int) -> CompletedProgram:
        given.append(limit_s)
        if len(given) > hangs:
            raise HostNotReached(argv, None, stderr=b"no answer in time")
        return real(None, argv, dict(storage_area_shell_scripts.BARE), limit_s)

    monkeypatch.setattr(storage_area_shell_scripts.ssh, "run_over_ssh", run)
    one = replace(site.areas["beta-disk"], max_bytes=max_bytes)
    measure = partial(measure_area_and_begun_copy, one, begun) if begun else partial(measure_area_for_account, one)
    found = measure()
    asked, hangs = list(given), len(given) * 2 - 1
    later = measure()

    assert (found.fault, asked) == ("", limits)
    assert found.free_bytes > 0
    assert "no answer in time" in later.fault


def test_parallel_first_copies_into_an_area_make_the_accounts_folder_once(site: Site) -> None:
    """A round begins copies of several datasets of one person at the same moment."""
    one = site.areas["beta-disk"]
    made = [made_dataset(name) for name in "abcdefgh"]

    def prepare(dataset: Dataset) -> None:
        storage_area_shell_scripts.prepare_new_replica_folder(one, dataset, is_known=False)

    with ThreadPoolExecutor(len(made)) as pool:
        for _ in range(10):
            list(pool.map(prepare, made))
            names = sorted(path.name for path in Path(one.account_folder_path).iterdir())
            assert names == sorted([storage_area_shell_scripts.AREA_MARK, *(f".{name}.part" for name in "abcdefgh")])
            shutil.rmtree(one.account_folder_path)


def test_an_area_is_drained_by_its_own_key_or_with_its_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_datasets.drains, "list_drained_clusters", lambda: frozenset({"beta"}))
    storage = {
        "one": StorageAreaSection(cluster="alpha", path=str(tmp_path)),
        "two": StorageAreaSection(cluster="alpha", path=str(tmp_path), drained=True),
        "three": StorageAreaSection(cluster="beta", path=str(tmp_path)),
    }
    areas = owner_datasets.storage_areas_of_account(made_policy("alpha", "beta", storage=storage))

    drained = {name: area.is_drained for name, area in areas.items()}

    assert drained == {"one": False, "two": True, "three": True}


def test_a_shared_area_is_used_at_its_first_cluster_without_ssh_under_one_name_of_the_account() -> None:
    """Each cluster has its own path of the area and its own login."""
    paths = PathByCluster({"gamma": "/mnt/data", "beta": "/data"})
    policy = made_policy("alpha", "beta", "gamma", storage={"shared": StorageAreaSection(clusters=paths)})
    far = replace(policy.clusters["gamma"], ssh="gamma-master", users=AccountByUser({ME: "al_gamma"}))
    policy = replace(policy, clusters={**policy.clusters, "gamma": far})

    usual = owner_datasets.storage_areas_of_account(policy)["shared"]
    for_tasks = owner_datasets.storage_area_at_cluster(policy, "shared", "gamma")

    assert (("gamma", "beta"), f"/data/{ME}", None) == (usual.clusters, usual.account_folder_path, usual.login)
    assert f"/mnt/data/{ME}" == for_tasks.account_folder_path
    assert for_tasks.login
    assert "gamma-master" == for_tasks.login.host


def test_an_object_store_is_an_area_without_clusters_that_the_service_does_not_call() -> None:
    """Only the owners of datasets have the credentials of a store."""
    store = StorageAreaSection(kind=StorageAreaKind.COMMAND, program="/no/such/program", prefix="s3:a", drained=True)
    areas = owner_datasets.storage_areas_of_account(made_policy("alpha", storage={"archive": store}))

    found = replica_reconciler.measure_any_whole_area(areas["archive"])

    assert ((), True, ME) == (areas["archive"].clusters, areas["archive"].is_drained, areas["archive"].account)
    assert ("", True) == (found.fault, found.is_store)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_an_area_that_the_account_itself_can_not_write_is_not_read_only(site: Site, as_user: AsUser) -> None:
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        found = as_user(65534, lambda: measure_whole_area(replace(site.areas["beta-disk"], path=top)))

    assert (found.fault, found.is_read_only) == ("", False)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.root
def test_an_area_that_is_mounted_read_only_is_reported_as_read_only(site: Site) -> None:
    one = site.areas["beta-disk"]
    with memory_mounted(one.path, "ro,mode=755"):
        found = measure_whole_area(one)

    assert (found.fault, found.is_read_only) == ("", True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.root
@pytest.mark.parametrize("is_full", [True, False])
def test_a_copy_into_a_full_area_fails_with_this_reason_even_if_rsync_gives_none(site: Site, is_full: bool) -> None:
    """On a busy machine rsync may lose the error message of the remote side."""
    one, carrier = site.areas["beta-disk"], Carrier(finds_no_room=True)
    copier = ReplicaCopier(clock=Clock(), tell=lambda _: None, carry=carrier)
    with memory_mounted(one.path, "size=64k"):
        subprocess.run(["fallocate", "-l", "64k" if is_full else "4k", f"{one.path}/x"], check=True)
        with pytest.raises(StorageAreaUnusable) as failed:
            copier.copy_replica(
                made_dataset(is_tree=False), {"a": "0"}, LocalOrSshFolder(login=None, folder="/"), one, relay="/none"
            )

    assert ("No space left on device" in str(failed.value)) == is_full


def test_the_check_of_a_hanging_area_ends_after_the_short_time_limit(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hard mount without its server never answers; the last known state of the replica still counts."""
    site.datasets.add_dataset("reads", site.tree(), 3)
    limits = time_limits(monkeypatch, unanswered=site.areas["beta-disk"].path)
    seen = site.datasets.verify_dataset("reads").dataset

    assert limits == [site.areas["beta-disk"].timeout_s]
    assert set(seen.areas_with_whole_replica) == {"alpha-disk", "gamma-disk"}
    (away,) = (one for one in seen.replicas if one.storage == "beta-disk")
    assert (away.is_whole, away.is_away, away.why) == (True, True, "no answer in time")


def time_limits(monkeypatch: pytest.MonkeyPatch, unanswered: str = "") -> list[float]:
    """Return a list that gets the time limits of all calls, or only of those about an unanswered path."""
    limits: list[float] = []
    real = ssh.run_over_ssh

    def run(
        login: SshLogin | None, argv: tuple[str, ...], env: dict[str, str], limit_s: float, **_: int
    ) -> CompletedProgram:
        if not unanswered or unanswered in argv:
            limits.append(limit_s)
        if unanswered in argv:
            raise CommandFailed(argv, None)
        return real(login, argv, env, limit_s)

    monkeypatch.setattr(ssh, "run_over_ssh", run)
    return limits


@pytest.mark.parametrize(
    ("files", "size_bytes", "limit_s"),
    [(3, 9, 600), (3, 10**12, 100_000), (10**6, 2 * 10**9, 20_200)],
    ids=["small", "large", "many small files"],
)
def test_the_time_limit_of_reading_a_replica_grows_with_its_bytes_and_files(
    site: Site, monkeypatch: pytest.MonkeyPatch, files: int, size_bytes: int, limit_s: int
) -> None:
    """A file server needs a millisecond or more for each file."""
    done = site.datasets.add_dataset("reads", site.tree(), 3)
    limits = time_limits(monkeypatch)
    storage_area_shell_scripts.checksum_replica(
        site.areas["beta-disk"], "reads", replace(done.dataset, files=files, size_bytes=size_bytes)
    )

    assert round(max(limits)) == limit_s


REFUSED = 30


@pytest.mark.parametrize("kib", [0, 700])
def test_rsync_gets_the_rate_limit_of_the_target_area(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kib: int
) -> None:
    noted = tmp_path / "argv"
    program = write_program(tmp_path / "rsync", f'#!/bin/sh\necho "$*" >{noted}\nexit {REFUSED}\n')
    monkeypatch.setattr(rsync, "PROGRAM", str(program))
    disk = StorageAreaSection(cluster="alpha", path=str(tmp_path), bwlimit_kib_per_s=kib)
    policy = made_policy("alpha", storage={"disk": disk})
    area = owner_datasets.storage_areas_of_account(policy)["disk"]
    copier = ReplicaCopier(clock=Clock(lambda: datetime(2026, 1, 1, tzinfo=UTC).timestamp()), tell=print)
    with pytest.raises(StorageAreaUnusable):
        copier.copy_replica(made_dataset(), {"a": "0"}, LocalOrSshFolder(login=None, folder="/x"), area, relay="/none")
    limits = [word for word in noted.read_text().split() if "bwlimit" in word]

    assert limits == ([f"--bwlimit={kib}"] if kib else [])
