"""Makes, verifies and removes the replicas of a person's datasets, as this person.

A replica counts only if it is whole now: before each decision all its files are read and compared with the
checksums. A new replica gets its final name only after this check. A killed copy is continued.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from gridbridge.decisions.rebalance.storage_area_rebalancing import choose_next_replica_area, why_area_takes_no_replica
from gridbridge.errors import (
    CommandFailed,
    CopyNoLongerWanted,
    GridbridgeError,
    ParseError,
    StateError,
    StorageAreaUnreachable,
    StorageAreaUnusable,
)
from gridbridge.model.rebalance.datasets import (
    Dataset,
    DatasetReplica,
    RefusedAreaOrDataset,
    Sums,
    describe_checksum_differences,
)
from gridbridge.model.rebalance.rebalance_section import MeasuredStorageArea, RebalanceSection
from gridbridge.model.transfer_route import SshLogin
from gridbridge.rebalance.replicas import dataset_records_and_originals, storage_area_shell_scripts
from gridbridge.rebalance.replicas.dataset_records_and_originals import OwnerDatasetRecords
from gridbridge.rebalance.replicas.object_store_programs import ObjectStoreForAccount
from gridbridge.rebalance.replicas.object_store_replicas import StoredReplica, measure_store
from gridbridge.rebalance.replicas.storage_area_shell_scripts import StorageAreaForAccount
from gridbridge.shell import rsync
from gridbridge.shell.clock import Clock
from gridbridge.shell.rsync import RsyncLimitAndProgress

Tell = Callable[[str], None]
AnyStorageArea = StorageAreaForAccount | ObjectStoreForAccount


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOrSshFolder:
    login: SshLogin | None
    folder: str


FileCopyFunction = Callable[[LocalOrSshFolder, LocalOrSshFolder, list[str], RsyncLimitAndProgress], None]


def copy_files_by_rsync(
    source: LocalOrSshFolder, target: LocalOrSshFolder, names: list[str], pace: RsyncLimitAndProgress
) -> None:
    """Copy files by rsync between two folders, of which one is local; raise CommandFailed for a missing file.

    Raises CopyNoLongerWanted if `pace.is_unwanted` ended the copy.
    """
    to = f"{target.folder}/"
    if source.login:
        is_whole = rsync.rsync_files_from_host(source.login, names, source.folder, to, pace.is_unwanted, pace=pace)
    else:
        paths = [f"{source.folder}/./{name}" for name in names]
        is_whole = rsync.rsync_files_to_host(target.login, paths, to, pace.is_unwanted, pace)
    if not is_whole:
        raise CopyNoLongerWanted(f"{target.folder}: the copy was ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaCopier:
    clock: Clock
    tell: Tell
    carry: FileCopyFunction = copy_files_by_rsync

    def copy_replica(
        self, dataset: Dataset, sums: Sums, source: LocalOrSshFolder, area: StorageAreaForAccount, *, relay: str
    ) -> DatasetReplica:
        """Make a replica in a prepared storage area; raise StorageAreaUnusable if the copy is not whole."""
        name, wrong = dataset.name, ""
        own = storage_area_shell_scripts.storage_area_with_account_folder(area).account_folder_path
        target = LocalOrSshFolder(login=area.login, folder=f"{own}/.{name}.part")
        for _ in range(2):  # the second attempt copies files with wrong checksums again
            self._copy_files_directly_or_by_relay(source, target, list(sums), area, relay)
            _, copied = storage_area_shell_scripts.checksum_replica(area, f".{name}.part", dataset)
            spoilt = [file for file, digest in copied.items() if sums.get(file) != digest]
            storage_area_shell_scripts.remove_wrong_copied_files(area, name, spoilt)
            wrong = describe_checksum_differences(sums, {file: copied[file] for file in copied if file in sums})
            if not wrong:
                storage_area_shell_scripts.install_finished_replica(area, dataset)
                now = self.clock.now()
                return DatasetReplica(storage=area.name, size_bytes=dataset.size_bytes, is_whole=True, checked_at=now)
        raise StorageAreaUnusable(f"the copied files differ from the dataset: {wrong}")

    def copy_replica_into_store(self, replica: StoredReplica, source: LocalOrSshFolder, relay: str) -> DatasetReplica:
        """Make a replica in an object store; raise StorageAreaUnusable if the copy is not whole."""
        if source.login:
            pace = RsyncLimitAndProgress(tell=replica.tell)
            try:
                self.carry(source, LocalOrSshFolder(login=None, folder=relay), list(replica.sums), pace)
            except CommandFailed as error:
                raise StorageAreaUnusable(error.failure_in_words) from error
        replica.upload(relay if source.login else source.folder)
        return DatasetReplica(
            storage=replica.store.name,
            size_bytes=replica.dataset.size_bytes,
            is_whole=True,
            checked_at=self.clock.now(),
        )

    def _copy_files_directly_or_by_relay(
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
        with storage_area_shell_scripts.convert_storage_script_errors(area):
            if is_relayed:
                relay_folder = LocalOrSshFolder(login=None, folder=relay)
                self.carry(source, relay_folder, names, pace)
                source = relay_folder
            try:
                self.carry(source, target, names, pace)
            except CommandFailed as error:
                if error.status == rsync.FILE_ERROR:  # rsync also exits with this status if the disk is full
                    measured = storage_area_shell_scripts.measure_area_for_account(area)
                    if not measured.fault and not measured.free_bytes:
                        raise StorageAreaUnusable(f"{area.account_folder_path}: No space left on device") from error
                raise
        if is_relayed:
            rsync.remove_folder_tree(relay)


DRAINED = "a drained area gets no replica"
NOT_CONFIGURED = "gridbridge.toml no longer has this storage area"
AT_ONCE = 8  # number of storage areas queried in parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetAndRefusedAreas:
    """A dataset after a command; `refused` has the areas without a requested replica, and the reasons."""

    dataset: Dataset
    refused: tuple[RefusedAreaOrDataset, ...] = ()
    is_done: bool


class OwnerReplicaManager:
    """Reads, makes and removes replicas, and records each change in the dataset's record."""

    def __init__(
        self,
        records: OwnerDatasetRecords,
        areas: Mapping[str, AnyStorageArea],
        rules: RebalanceSection,
        copier: ReplicaCopier,
    ) -> None:
        self._records = records
        self._areas = areas
        self._rules = rules
        self._copier = copier
        self._drained = {name: DRAINED for name, area in areas.items() if area.is_drained}

    def make_missing_replicas(
        self, dataset: Dataset, sums: Sums, *, source: LocalOrSshFolder | None = None, leaving: str = ""
    ) -> DatasetAndRefusedAreas:
        """Make replicas until enough replicas are whole outside the storage area `leaving`."""
        barred = self._drained | ({leaving: "the area is being drained"} if leaving else {})
        with ThreadPoolExecutor(AT_ONCE) as pool:  # a hanging area delays no other area
            measured = list(pool.map(partial(self._measure_area_for_dataset, dataset), self._areas.values()))
        failed: dict[str, str] = {}
        while len(set(dataset.areas_with_whole_replica) - {leaving}) < dataset.wished:
            target, refused = choose_next_replica_area(dataset, measured, self._rules, barred | failed)
            if not target:
                return DatasetAndRefusedAreas(
                    dataset=self.remove_abandoned_copies(dataset, is_met=False), refused=refused, is_done=False
                )
            dataset, why = self._make_and_record_replica(dataset, sums, self._areas[target], source)
            failed |= {target: why} if why else {}
        reasons = tuple(RefusedAreaOrDataset(what=name, reason=why) for name, why in failed.items())
        return DatasetAndRefusedAreas(
            dataset=self.remove_abandoned_copies(dataset, is_met=True), refused=reasons, is_done=True
        )

    def make_replica_in_area(self, dataset: Dataset, sums: Sums, to: str) -> DatasetAndRefusedAreas:
        """Make or repair the replica in one storage area, even beyond the wanted number."""
        measured = [self._measure_area_for_dataset(dataset, self._areas[to])]
        target, refused = choose_next_replica_area(dataset, measured, self._rules, self._drained)
        is_done = to in dataset.areas_with_whole_replica
        if target:
            dataset, why = self._make_and_record_replica(dataset, sums, self._areas[to], None)
            refused, is_done = (RefusedAreaOrDataset(what=to, reason=why),) if why else (), not why
        dataset = self.remove_abandoned_copies(
            dataset, is_met=len(dataset.areas_with_whole_replica) >= dataset.wished, but=to
        )
        return DatasetAndRefusedAreas(dataset=dataset, refused=refused, is_done=is_done)

    def _make_and_record_replica(
        self, dataset: Dataset, sums: Sums, area: AnyStorageArea, source: LocalOrSshFolder | None
    ) -> tuple[Dataset, str]:
        """Make and record one replica; return the dataset, and the reason of a failure or ''."""
        try:
            origin = source or self._choose_copy_source_folder(dataset, sums)
            is_known, relay = self.has_used_area(area.name), self._records.relay_folder(dataset.name)
            with self._records.reserve_copy_slot_in_area(area.name, area.copies_at_once):
                if isinstance(area, StorageAreaForAccount):
                    storage_area_shell_scripts.prepare_new_replica_folder(area, dataset, is_known=is_known)
                dataset = dataset.with_unfinished_copy(area.name)
                self._records.save_dataset(dataset)
                if isinstance(area, StorageAreaForAccount):
                    replica = self._copier.copy_replica(dataset, sums, origin, area, relay=relay)
                else:
                    stored = self._stored_replica(area, dataset, sums)
                    replica = self._copier.copy_replica_into_store(stored, origin, relay)
            self._records.remove_relay_folder(dataset.name)
        except StorageAreaUnusable as error:
            return dataset, str(error)
        dataset = dataset.with_replica(replica).without_unfinished_copy(area.name)
        self._records.save_dataset(dataset)
        return dataset, ""

    def remove_abandoned_copies(self, dataset: Dataset, *, is_met: bool, but: str = "") -> Dataset:
        """Remove unfinished copies if enough replicas are whole, or if the copy's area takes no replica."""
        if is_met and but not in dataset.begun:
            self._records.remove_relay_folder(dataset.name)
        for area in (self._areas[name] for name in dataset.begun if name in self._areas):
            if not is_met or area.name == but:
                measured = self._measure_area_for_dataset(dataset, area)
                if measured.fault or not why_area_takes_no_replica(dataset, measured, self._rules):
                    continue
            with suppress(StorageAreaUnusable):
                self._remove_replica(area, dataset, is_kept=True)
                dataset = dataset.without_unfinished_copy(area.name)
                self._records.save_dataset(dataset)
        return dataset

    def _choose_copy_source_folder(self, dataset: Dataset, sums: Sums) -> LocalOrSshFolder:
        """Return the best folder to copy from: a whole local replica, the original, or a whole remote replica.

        If only an object store has a whole replica, its files are brought into the relay folder.
        """
        whole = [self._areas[name] for name in dataset.areas_with_whole_replica if name in self._areas]
        best = min(whole, key=_distance_of_area, default=None)
        is_here = best is not None and not _distance_of_area(best)
        # the check reads every file of the original
        if not is_here and dataset_records_and_originals.files_match_checksums(dataset.path, sums):
            top = dataset_records_and_originals.dataset_top_folder(dataset.path, is_tree=dataset.is_tree)
            return LocalOrSshFolder(login=None, folder=top)
        if best is None:
            raise StorageAreaUnusable(
                f"no replica is whole, and {dataset.path} has changed since `gridbridge data add`"
            )
        if isinstance(best, ObjectStoreForAccount):
            relay = self._records.relay_folder(dataset.name)
            self._stored_replica(best, dataset, sums).download(relay)
            return LocalOrSshFolder(login=None, folder=relay)
        area = storage_area_shell_scripts.storage_area_with_account_folder(best)
        return LocalOrSshFolder(login=best.login, folder=f"{area.account_folder_path}/{dataset.name}")

    def verify_replicas_of_dataset(self, dataset: Dataset, sums: Sums) -> Dataset:
        """Read every replica of a dataset, and record whether each replica is whole."""
        with ThreadPoolExecutor(AT_ONCE) as pool:  # a hanging area delays no other area
            replicas = list(pool.map(partial(self._verify_replica, dataset, sums), dataset.replicas))
        self._records.remove_objects_folders(dataset.name)
        for replica in replicas:
            dataset = dataset.with_replica(replica)
        self._records.save_dataset(dataset)
        return dataset

    def _verify_replica(self, dataset: Dataset, sums: Sums, last: DatasetReplica) -> DatasetReplica:
        """Return a replica's present state; for an unreachable replica return the last state."""
        replica = replace(last, checked_at=self._copier.clock.now(), is_away=False)
        area = self._areas.get(last.storage)
        if area is None:
            return replace(replica, size_bytes=0, is_whole=False, why=NOT_CONFIGURED)
        try:
            if isinstance(area, ObjectStoreForAccount):
                size_bytes, found = self._stored_replica(area, dataset, sums).checksum()
            else:
                size_bytes, found = storage_area_shell_scripts.checksum_replica(area, dataset.name, dataset)
        except StorageAreaUnreachable as error:
            return replace(replica, why=str(error), is_away=True)
        except (StorageAreaUnusable, ParseError) as error:
            return replace(replica, size_bytes=0, is_whole=False, why=str(error))
        why = describe_checksum_differences(sums, found)
        return replace(replica, size_bytes=size_bytes, is_whole=not why, why=why)

    def remove_replica_in_area(
        self, dataset: Dataset, storage: str, *, is_lost: bool
    ) -> tuple[Dataset, tuple[RefusedAreaOrDataset, ...]]:
        """Remove a replica and its record; if the replica can't be removed, its record stays."""
        try:
            if storage not in self._areas:
                raise StorageAreaUnusable(NOT_CONFIGURED)
            self._remove_replica(self._areas[storage], dataset)
        except StorageAreaUnusable as error:
            if not is_lost:
                return dataset, (RefusedAreaOrDataset(what=storage, reason=f"{error}; --lost forgets the replica"),)
        dataset = dataset.without_storage_area(storage)
        self._records.save_dataset(dataset)
        return dataset, ()

    def has_used_area(self, storage: str) -> bool:
        """Say whether a dataset of the account has a replica or unfinished copy in a storage area."""
        for name in self._records.dataset_names():
            with suppress(GridbridgeError):
                if storage in self._records.load_dataset(name).areas_with_replica_or_copy:
                    return True
        return False

    def _remove_replica(self, area: AnyStorageArea, dataset: Dataset, *, is_kept: bool = False) -> None:
        """Remove a replica and its unfinished copies, or with `is_kept` only the copies; raise StorageAreaUnusable."""
        if isinstance(area, StorageAreaForAccount):
            storage_area_shell_scripts.remove_replica(area, dataset, is_kept=is_kept)
        elif not (is_kept and area.name in dataset.areas_with_replica):
            try:
                sums = self._records.load_checksums(dataset)
            except StateError as error:
                raise StorageAreaUnusable(str(error)) from error
            self._stored_replica(area, dataset, sums).remove()

    def _stored_replica(self, store: ObjectStoreForAccount, dataset: Dataset, sums: Sums) -> StoredReplica:
        return StoredReplica(
            store=store,
            dataset=dataset,
            sums=sums,
            scratch=self._records.objects_folder(dataset.name, store.name),
            tell=lambda line: self._copier.tell(f"{store.name}: {line}"),
        )

    def _measure_area_for_dataset(self, dataset: Dataset, area: AnyStorageArea) -> MeasuredStorageArea:
        if isinstance(area, ObjectStoreForAccount):
            return measure_store(area, self._bytes_of_other_datasets(dataset, area.name) if area.max_bytes else 0)
        if area.name in dataset.begun:
            return storage_area_shell_scripts.measure_area_and_begun_copy(area, dataset.name)
        return storage_area_shell_scripts.measure_area_for_account(area)

    def _bytes_of_other_datasets(self, dataset: Dataset, storage: str) -> int:
        """Return the bytes of the account's other datasets with a replica or an unfinished copy in an area."""
        size_bytes = 0
        for name in self._records.dataset_names():
            with suppress(GridbridgeError):
                other = self._records.load_dataset(name)
                is_counted = name != dataset.name and storage in other.areas_with_replica_or_copy
                size_bytes += other.size_bytes if is_counted else 0
        return size_bytes


def _distance_of_area(area: AnyStorageArea) -> int:
    """Return 0 for an area on this host, 1 for an area by ssh, 2 for an object store."""
    if isinstance(area, ObjectStoreForAccount):
        return 2
    return int(area.login is not None)
