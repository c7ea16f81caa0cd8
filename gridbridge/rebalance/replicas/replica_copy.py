"""Make a replica: copy it under another name, verify its checksums, then rename it.

A killed copy is continued, and files that arrived are not copied again. Files are copied by rsync;
copies between two clusters by ssh go through a local folder.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from gridbridge.errors import CommandFailed, StorageAreaUnusable
from gridbridge.model.rebalance.datasets import Dataset, DatasetReplica, Sums, describe_checksum_differences
from gridbridge.model.transfer_route import SshLogin
from gridbridge.rebalance.replicas import storage_area_access
from gridbridge.rebalance.replicas.storage_area_access import StorageAreaForAccount
from gridbridge.shell import rsync
from gridbridge.shell.clock import Clock
from gridbridge.shell.rsync import RsyncLimitAndProgress

TRIES = 2  # the second attempt copies files with wrong checksums
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOrSshFolder:
    """A folder on this host, or on the host of an ssh login."""

    login: SshLogin | None
    folder: str


class FileCopyFunction(Protocol):
    """Protocol of a function that copies named files from one folder to another."""

    def __call__(
        self, source: LocalOrSshFolder, target: LocalOrSshFolder, names: list[str], pace: RsyncLimitAndProgress
    ) -> None:
        """Copy the files; one of the two folders is local. CommandFailed for a missing file."""
        ...


def copy_files_by_rsync(
    source: LocalOrSshFolder, target: LocalOrSshFolder, names: list[str], pace: RsyncLimitAndProgress
) -> None:
    """Copy files by rsync, over ssh if one of the folders has a login."""
    to = f"{target.folder}/"
    if source.login:
        rsync.rsync_files_from_host(source.login, names, source.folder, to, lambda: False, pace=pace)
    else:
        paths = [f"{source.folder}/./{name}" for name in names]
        rsync.rsync_files_to_host(target.login, paths, to, lambda: False, pace)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCopier:
    """Makes replicas, and reports the progress of each copy."""

    clock: Clock
    tell: Tell
    carry: FileCopyFunction = copy_files_by_rsync

    def copy(
        self, dataset: Dataset, sums: Sums, source: LocalOrSshFolder, area: StorageAreaForAccount, *, relay: str
    ) -> DatasetReplica:
        """Make a replica in a prepared storage area, and return it.

        Raises StorageAreaUnusable with the reason if the copy is not whole.
        """
        name, wrong = dataset.name, ""
        target = LocalOrSshFolder(
            login=area.login, folder=storage_area_access.storage_area_with_account_folder(area).part(name)
        )
        for _ in range(TRIES):
            self._carry(source, target, list(sums), area, relay)
            contents = storage_area_access.checksum_replica(area, f".{name}.part", dataset)
            spoilt = [file for file, digest in contents.sums.items() if sums.get(file) != digest]
            storage_area_access.remove_wrong_copied_files(area, name, spoilt)
            own_sums = {file: digest for file, digest in contents.sums.items() if file in sums}
            if not (wrong := describe_checksum_differences(sums, own_sums)):
                storage_area_access.install_finished_replica(area, dataset)
                return self._whole(area, dataset)
        raise StorageAreaUnusable(f"what came is not the dataset: {wrong}")

    def _carry(
        self,
        source: LocalOrSshFolder,
        target: LocalOrSshFolder,
        names: list[str],
        area: StorageAreaForAccount,
        relay: str,
    ) -> None:
        pace = RsyncLimitAndProgress(
            tell=lambda line: self.tell(f"{area.name}: {line}"), kib_per_s=area.bwlimit_kib_per_s
        )
        is_relayed = source.login and target.login
        with storage_area_access.explain_storage_failures(area):
            if is_relayed:
                relay_folder = LocalOrSshFolder(login=None, folder=relay)
                self.carry(source, relay_folder, names, pace)
                source = relay_folder
            with _told_when_full(area):
                self.carry(source, target, names, pace)
        if is_relayed:
            rsync.remove_folder_tree(relay)

    def _whole(self, area: StorageAreaForAccount, dataset: Dataset) -> DatasetReplica:
        return DatasetReplica(
            storage=area.name, size_bytes=dataset.size_bytes, is_whole=True, checked_at=self.clock.now()
        )


@contextmanager
def _told_when_full(area: StorageAreaForAccount) -> Iterator[None]:
    """Raise StorageAreaUnusable if the area is full, because rsync reports only a write error."""
    try:
        yield
    except CommandFailed as error:
        if error.status != rsync.FILE_ERROR:
            raise
        measured = storage_area_access.measure_area_for_account(area)
        if not measured.fault and not measured.free_bytes:
            raise StorageAreaUnusable(f"{area.own}: No space left on device") from error
        raise
