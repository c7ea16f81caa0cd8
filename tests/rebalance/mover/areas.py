"""Storage areas in local folders, one person's datasets, and a copy function that can fail."""

import os
import shutil
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gridbridge.errors import CommandFailed
from gridbridge.model.rebalance.datasets import Dataset, DatasetReplica
from gridbridge.model.rebalance.rebalance_section import RebalanceSection
from gridbridge.rebalance.replicas.dataset_records_and_originals import OwnerDatasetRecords, encode_dataset_record
from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasets
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import (
    DatasetAndRefusedAreas,
    LocalOrSshFolder,
    ReplicaCopier,
)
from gridbridge.rebalance.replicas.storage_area_shell_scripts import AREA_MARK, StorageAreaForAccount
from gridbridge.shell.clock import Clock
from gridbridge.shell.rsync import FILE_ERROR, RsyncLimitAndProgress

NAMES = ("alpha-disk", "beta-disk", "gamma-disk")
ANY_DISK = RebalanceSection(min_free_bytes=0, full_free_bytes=0)
DIED = "error in rsync protocol data stream"


class Killed(BaseException):
    """Ends the process at once, like kill -9."""


@dataclass(kw_only=True)
class Carrier:
    """Copies files like rsync; a file that is equal at the target is not copied again."""

    dies_after: int = -1  # number of files before a failure; negative: no failure
    finds_no_room: bool = False  # fails on a full disk without a reason, like a busy rsync
    spoils: set[str] = field(default_factory=set)  # names of files that arrive damaged once
    carried: list[str] = field(default_factory=list)

    def __call__(
        self, source: LocalOrSshFolder, target: LocalOrSshFolder, names: list[str], pace: RsyncLimitAndProgress
    ) -> None:
        for name in names:
            here, there = Path(source.folder, name), Path(target.folder, name)
            if there.exists() and there.read_bytes() == here.read_bytes():
                continue
            if self.finds_no_room:
                raise CommandFailed(("rsync",), FILE_ERROR, stderr=b"exit status 11")
            if self.dies_after == 0:
                raise CommandFailed(("rsync",), 12, stderr=DIED.encode())
            self.dies_after -= 1
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, there)
            self.carried.append(name)
            pace.tell(name)
            if name in self.spoils:
                self.spoils.remove(name)
                there.write_bytes(b"spoilt")


def reasons(outcome: DatasetAndRefusedAreas) -> dict[str, str]:
    return {refused.what: refused.reason for refused in outcome.refused}


def made_dataset(name: str = "reads", **other: Any) -> Dataset:
    return Dataset(
        **{"path": "/x", "is_tree": True, "files": 1, "size_bytes": 1, "sha256": "", "wished": 1} | other, name=name
    )


def dataset_row(name: str, **record: object) -> dict[str, Any]:
    """Return an owner's answer about a dataset with a whole replica in area a; change these values of its record."""
    checked_at = datetime(2026, 11, 25, 12, tzinfo=UTC)
    replica = DatasetReplica(storage="a", size_bytes=1, is_whole=True, checked_at=checked_at)
    dataset = encode_dataset_record(made_dataset(name, replicas=(replica,)))
    return {"name": name, "dataset": dataset | record, "busy": False}


class Site:
    """Storage areas below one folder; each area belongs to another cluster."""

    def __init__(self, folder: Path, names: tuple[str, ...] = NAMES, account: str = "me") -> None:
        self.folder = folder
        self.carrier = Carrier()
        self.rules = ANY_DISK
        self.areas = {name: self._area(name, account) for name in names}

    @property
    def datasets(self) -> OwnerDatasets:
        """The datasets, as a newly started command reads them."""
        copier = ReplicaCopier(clock=Clock(), tell=lambda _: None, carry=self.carrier)
        return OwnerDatasets(OwnerDatasetRecords(f"{self.folder}/records"), self.areas, self.rules, copier)

    def replica(self, storage: str, name: str) -> Path:
        return Path(f"{self.areas[storage].account_folder_path}/{name}")

    def entries(self, storage: str) -> list[str]:
        """Return the names in the account's folder of an area, without the area's mark."""
        return sorted(set(os.listdir(self.areas[storage].account_folder_path)) - {AREA_MARK})

    def tree(self) -> str:
        """Make a folder tree with three files as an original, and return its path."""
        top = self.folder / "reads"
        (top / "deep").mkdir(parents=True)
        (top / "a.txt").write_text("one")
        (top / "deep" / "b\nc").write_text("two")
        (top / "deep" / "link").symlink_to("../a.txt")
        return str(top)

    def _area(self, name: str, account: str) -> StorageAreaForAccount:
        path = self.folder / name
        path.mkdir()
        owner = {"account": account, "login": None, "timeout_s": 10, "copies_at_once": 2}
        return StorageAreaForAccount(name=name, clusters=(name.partition("-")[0],), path=str(path), **owner)
