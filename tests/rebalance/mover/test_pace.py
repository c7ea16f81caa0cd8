"""The rate limit of copies into a storage area, from gridbridge.toml."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from gridbridge.errors import StorageAreaUnusable
from gridbridge.model.rebalance.datasets import Dataset
from gridbridge.model.rebalance.rebalance_section import StorageAreaSection
from gridbridge.rebalance.replicas import owner_datasets
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import LocalOrSshFolder, ReplicaCopier
from gridbridge.shell import rsync
from gridbridge.shell.clock import Clock
from tests.builders.campaigns import made_policy

REFUSED = 30


@pytest.mark.parametrize("kib", [0, 700])
def test_rsync_gets_the_rate_limit_of_the_target_area(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kib: int
) -> None:
    program, noted = tmp_path / "rsync", tmp_path / "argv"
    program.write_text(f'#!/bin/sh\necho "$*" >{noted}\nexit {REFUSED}\n')
    program.chmod(0o755)
    monkeypatch.setattr(rsync, "PROGRAM", str(program))
    disk = StorageAreaSection(cluster="alpha", path=str(tmp_path), bwlimit_kib_per_s=kib)
    policy = made_policy("alpha", storage={"disk": disk})
    one = Dataset(name="reads", path="/x", is_tree=True, files=1, size_bytes=1, sha256="", wished=1)
    area = owner_datasets.storage_areas_of_account(policy)["disk"]
    copier = ReplicaCopier(clock=Clock(lambda: datetime(2026, 1, 1, tzinfo=UTC).timestamp()), tell=print)
    with pytest.raises(StorageAreaUnusable):
        copier.copy_replica(one, {"a": "0"}, LocalOrSshFolder(login=None, folder="/x"), area, relay="/none")
    limits = [word for word in noted.read_text().split() if "bwlimit" in word]

    assert limits == ([f"--bwlimit={kib}"] if kib else [])
