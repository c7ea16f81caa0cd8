"""A person's datasets, and the commands on datasets: add, verify, replicate, drop and drain."""

import hashlib
import os
import posixpath
import pwd
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from gridbridge.batch.configured_cluster_access_and_routes import configured_cluster_access
from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import number_with_noun
from gridbridge.model.rebalance.datasets import (
    DATASET_NAME,
    Dataset,
    RefusedAreaOrDataset,
    ServiceReplicaActInOwnerFile,
    Sums,
    format_as_sha256sum_output,
)
from gridbridge.model.rebalance.rebalance_section import RebalanceSection, StorageAreaKind, is_storage_area_drained
from gridbridge.model.rebalance.rebalance_snapshot_and_moves import happened_within
from gridbridge.model.site_configuration import Policy
from gridbridge.rebalance.replicas import dataset_records_and_originals, owner_replica_copies_and_checks
from gridbridge.rebalance.replicas.dataset_records_and_originals import OwnerDatasetRecords
from gridbridge.rebalance.replicas.object_store_programs import ObjectStoreForAccount
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas
from gridbridge.rebalance.replicas.storage_area_shell_scripts import StorageAreaForAccount
from gridbridge.shell.clock import Clock
from gridbridge.state import drains

RECORDS = ".gridbridge/data"  # folder in the user's home directory
MOST_REPLICAS = 100

Noted = Callable[[], None]
MOST_A_DAY = 50  # the service may act on a dataset at most this many times in a day


class OwnerDatasets:
    def __init__(
        self,
        records: OwnerDatasetRecords,
        areas: Mapping[str, owner_replica_copies_and_checks.AnyStorageArea],
        rules: RebalanceSection,
        copier: owner_replica_copies_and_checks.ReplicaCopier,
    ) -> None:
        self.records = records
        self._areas = areas
        self._clock = copier.clock
        self._replicas = owner_replica_copies_and_checks.OwnerReplicaManager(records, areas, rules, copier)

    @property
    def clusters_by_area(self) -> Mapping[str, tuple[str, ...]]:
        """The clusters that see each storage area."""
        return {name: area.clusters for name, area in self._areas.items()}

    def list_datasets(self) -> list[Dataset]:
        """Return all datasets of the account as of their last check."""
        return [self.records.load_dataset(name) for name in self.records.dataset_names()]

    def add_dataset(
        self,
        name: str,
        path: str,
        wished: int,
        *,
        may_move: bool = True,
        is_later: bool = False,
        notify: Noted = lambda: None,
    ) -> DatasetAndRefusedAreas:
        """Record a new dataset with its checksums, call `notify`, then make the replicas unless `is_later`."""
        _require_valid_dataset_name(name)
        if not 0 < wished <= MOST_REPLICAS:
            raise GridbridgeError(f"{number_with_noun(wished, 'replica')}; expected 1 to {MOST_REPLICAS}")
        self._require_any_configured_area()
        with self.records.lock_dataset(name):
            if self.records.has_dataset(name):
                raise GridbridgeError(
                    f"{name}: you already have a dataset of this name; expected another name, or"
                    f" gridbridge data drop {name} first"
                )
            dataset_records_and_originals.require_original_outside_areas(path, self._areas.values())
            original = dataset_records_and_originals.checksum_original_files(path)
            dataset = Dataset(
                name=name,
                path=path,
                is_tree=original.is_tree,
                files=len(original.sums),
                size_bytes=original.size_bytes,
                sha256=hashlib.sha256(format_as_sha256sum_output(original.sums)).hexdigest(),
                wished=wished,
                may_move=may_move,
            )
            self.records.save_dataset(dataset, original.sums)
            notify()
            if is_later:
                return DatasetAndRefusedAreas(dataset=dataset, is_done=True)
            source = owner_replica_copies_and_checks.LocalOrSshFolder(login=None, folder=original.top)
            return self._replicas.make_missing_replicas(dataset, original.sums, source=source)

    def verify_dataset(self, name: str) -> DatasetAndRefusedAreas:
        """Read every replica of a dataset, and record which replicas are whole."""
        with self._locked_dataset_and_checksums(name) as (dataset, sums):
            dataset = self._replicas.verify_replicas_of_dataset(dataset, sums)
            is_whole = len(dataset.areas_with_whole_replica) == len(dataset.replicas)
            return DatasetAndRefusedAreas(
                dataset=dataset, is_done=is_whole and len(dataset.areas_with_whole_replica) >= dataset.wished
            )

    def replicate_dataset(self, name: str, to: str = "", *, notify: Noted = lambda: None) -> DatasetAndRefusedAreas:
        """Make missing replicas, and repair damaged replicas; call `notify` before the first copy.

        With `to`, only the replica in this storage area is made, even beyond the wanted number.
        """
        if to:
            self._require_configured_area(to)
        with self._locked_dataset_and_checksums(name) as (dataset, sums):
            notify()
            dataset = self._replicas.verify_replicas_of_dataset(dataset, sums)
            return (
                self._replicas.make_replica_in_area(dataset, sums, to)
                if to
                else self._replicas.make_missing_replicas(dataset, sums)
            )

    def drop_dataset_or_replica(
        self, name: str, storage: str = "", *, is_lost: bool = False, notify: Noted = lambda: None
    ) -> DatasetAndRefusedAreas:
        """Remove one replica, or (after `notify`) the dataset with all replicas; the original stays.

        The last whole replica is removed only with the dataset; an unreadable replica may be whole. With `is_lost`, a
        replica's record is removed even if the replica can't be removed.
        """
        with self._locked_dataset(name) as dataset:
            if not storage:
                notify()
                refusals: tuple[RefusedAreaOrDataset, ...] = ()
                for area in dataset.areas_with_replica_or_copy:
                    dataset, refused = self._replicas.remove_replica_in_area(dataset, area, is_lost=is_lost)
                    refusals += refused
                if not refusals:
                    self.records.delete_dataset_record(name)
                return DatasetAndRefusedAreas(dataset=dataset, refused=refusals, is_done=not refusals)
            if storage not in dataset.areas_with_replica_or_copy:
                held = (
                    f"expected {' or '.join(dataset.areas_with_replica)}"
                    if dataset.areas_with_replica
                    else "the dataset has no replica"
                )
                raise GridbridgeError(f"{storage}: no replica of {name} in this area; {held}")
            dataset = self._replicas.verify_replicas_of_dataset(dataset, self.records.load_checksums(dataset))
            _require_no_last_whole_replica(dataset, storage, is_lost=is_lost)
            return self._drop_replica(dataset, storage, is_lost=is_lost)

    def drain_area(self, storage: str) -> Iterator[DatasetAndRefusedAreas | RefusedAreaOrDataset]:
        """Remove a person's replicas from an area; keep and report a replica if too few other replicas are whole."""
        if storage not in self._areas and not self._replicas.has_used_area(storage):
            self._require_configured_area(storage)
        for name in self.records.dataset_names():
            try:
                if storage in self.records.load_dataset(name).areas_with_replica_or_copy:
                    yield self._drain_dataset_from_area(name, storage)
            except GridbridgeError as error:
                yield RefusedAreaOrDataset(what=name, reason=str(error))

    def _drain_dataset_from_area(self, name: str, storage: str) -> DatasetAndRefusedAreas:
        with self._locked_dataset_and_checksums(name) as (dataset, sums):
            filled = self._replicas.make_missing_replicas(
                self._replicas.verify_replicas_of_dataset(dataset, sums), sums, leaving=storage
            )
            outcome = self._drop_replica_if_spare(filled.dataset, storage)
            if _is_replica_spare(filled.dataset, storage):
                return outcome
            others = (refusal for refusal in filled.refused if refusal.what != storage)
            return replace(outcome, refused=(*outcome.refused, *others))

    def _drop_replica(self, dataset: Dataset, storage: str, *, is_lost: bool) -> DatasetAndRefusedAreas:
        dataset, refused = self._replicas.remove_replica_in_area(dataset, storage, is_lost=is_lost)
        return DatasetAndRefusedAreas(dataset=dataset, refused=refused, is_done=not refused)

    def _drop_replica_if_spare(self, dataset: Dataset, storage: str) -> DatasetAndRefusedAreas:
        """Remove a replica if enough replicas are whole in other storage areas."""
        if _is_replica_spare(dataset, storage):
            return self._drop_replica(dataset, storage, is_lost=False)
        are = number_with_noun(dataset.wished, "replica is", "replicas are")
        why = (
            f"{len(set(dataset.areas_with_whole_replica) - {storage})} of {are} whole in other areas: the replica stays"
        )
        refused = (RefusedAreaOrDataset(what=storage, reason=why),)
        return DatasetAndRefusedAreas(dataset=dataset, refused=refused, is_done=False)

    @contextmanager
    def _locked_dataset(self, name: str) -> Iterator[Dataset]:
        _require_valid_dataset_name(name)
        self.records.load_dataset(name)  # raises for an unknown dataset, before a lock file is made
        with self.records.lock_dataset(name):
            yield self.records.load_dataset(name)

    @contextmanager
    def _locked_dataset_and_checksums(self, name: str) -> Iterator[tuple[Dataset, Sums]]:
        with self._locked_dataset(name) as dataset:
            yield dataset, self.records.load_checksums(dataset)

    def _require_configured_area(self, storage: str) -> None:
        self._require_any_configured_area()
        if storage not in self._areas:
            raise GridbridgeError(f"{storage}: no storage area; expected {' or '.join(self._areas)}")

    def _require_any_configured_area(self) -> None:
        if not self._areas:
            raise GridbridgeError("gridbridge.toml: no storage area; expected a section [storage.NAME]")

    def copy_replica_into_area(self, name: str, to: str, leaving: str = "") -> DatasetAndRefusedAreas:
        """Make or repair a replica in area `to`; refuse if enough replicas are whole outside area `leaving`.

        If area `to` already has a whole replica, the act counts as done with `leaving`, and as refused without it.
        """
        self._require_configured_area(to)
        self._require_below_daily_actions(name)
        with self._locked_dataset_and_checksums(name) as (dataset, sums):
            dataset = self._replicas.verify_replicas_of_dataset(dataset, sums)
            if to in dataset.areas_with_whole_replica and leaving:
                return DatasetAndRefusedAreas(dataset=dataset, is_done=True)
            whole_elsewhere = len(set(dataset.areas_with_whole_replica) - {leaving})
            is_met = whole_elsewhere >= dataset.wished
            if to in dataset.areas_with_whole_replica or is_met:
                are = number_with_noun(dataset.wished, "replica is", "replicas are")
                has = f"{whole_elsewhere} of {are} whole" if is_met else "the area has a whole replica"
                dataset = self._replicas.remove_abandoned_copies(dataset, is_met=is_met)
                refused = (RefusedAreaOrDataset(what=to, reason=f"{has}: the copy is not needed"),)
                return DatasetAndRefusedAreas(dataset=dataset, refused=refused, is_done=False)
            outcome = self._replicas.make_replica_in_area(dataset, sums, to)
            self._record_action_of_service(outcome, target=to, source=leaving)
            return outcome

    def drop_spare_replica(self, name: str, storage: str) -> DatasetAndRefusedAreas:
        """Remove a replica if enough replicas are whole in other storage areas."""
        self._require_below_daily_actions(name)
        with self._locked_dataset_and_checksums(name) as (dataset, sums):
            if storage not in dataset.areas_with_replica:
                return DatasetAndRefusedAreas(dataset=dataset, is_done=True)
            outcome = self._drop_replica_if_spare(self._replicas.verify_replicas_of_dataset(dataset, sums), storage)
            self._record_action_of_service(outcome, source=storage)
            return outcome

    def _require_below_daily_actions(self, name: str) -> None:
        now, outcomes = self._clock.now(), self.records.actions_of_service(name)
        if sum(happened_within(outcome.at, now, timedelta(days=1)) for outcome in outcomes) >= MOST_A_DAY:
            raise GridbridgeError(
                f"{name}: the service acted {MOST_A_DAY} times on this dataset in a day; expected fewer"
            )

    def _record_action_of_service(self, outcome: DatasetAndRefusedAreas, target: str = "", source: str = "") -> None:
        why = "" if outcome.is_done else "; ".join(refusal.reason for refusal in outcome.refused)
        record = ServiceReplicaActInOwnerFile(at=self._clock.now(), target=target, source=source, why=why)
        with suppress(GridbridgeError):  # a full disk must not fail an action that is already done
            self.records.record_action_of_service(outcome.dataset.name, record)


def _require_valid_dataset_name(name: str) -> None:
    if not DATASET_NAME.holds(name):
        raise GridbridgeError(f"{name!r}: invalid name of a dataset; expected {DATASET_NAME.right}")


def _require_no_last_whole_replica(dataset: Dataset, storage: str, *, is_lost: bool) -> None:
    """Raise GridbridgeError if an area has a dataset's last whole replica.

    An unreachable replica counts as whole if it was whole at the last check, unless `is_lost` gives it up.
    """
    last = next((replica for replica in dataset.replicas if replica.storage == storage and replica.is_whole), None)
    if not last or set(dataset.areas_with_whole_replica) - {storage} or (is_lost and last.is_away):
        return
    caveat = f", as of the last check ({last.why})" if last.is_away else ""
    raise GridbridgeError(
        f"{storage}: this area has the last whole replica of {dataset.name}{caveat}; expected gridbridge data replicate"
        f" {dataset.name} first, or gridbridge data drop {dataset.name} for the whole dataset"
    )


def _is_replica_spare(dataset: Dataset, storage: str) -> bool:
    return len(set(dataset.areas_with_whole_replica) - {storage}) >= dataset.wished


def open_owner_datasets(
    policy: Policy,
    records: str = "",
    tell: owner_replica_copies_and_checks.Tell = lambda _: None,
    carry: owner_replica_copies_and_checks.FileCopyFunction = owner_replica_copies_and_checks.copy_files_by_rsync,
) -> OwnerDatasets:
    """Return the account's datasets, by default of ~/.gridbridge/data.

    Raises GridbridgeError for root if an area needs ssh.
    """
    me = pwd.getpwuid(os.geteuid())
    by_name = storage_areas_of_account(policy)
    if not me.pw_uid and any(isinstance(area, StorageAreaForAccount) and area.login for area in by_name.values()):
        raise GridbridgeError("root has no datasets; expected sudo -u OWNER gridbridge data ...")
    copier = owner_replica_copies_and_checks.ReplicaCopier(clock=Clock(), tell=tell, carry=carry)
    folder = OwnerDatasetRecords(os.path.abspath(records) if records else f"{me.pw_dir}/{RECORDS}")
    return OwnerDatasets(folder, by_name, policy.rebalance, copier)


def storage_areas_of_account(policy: Policy) -> dict[str, owner_replica_copies_and_checks.AnyStorageArea]:
    """Return the storage areas by name; of several clusters of an area, the first without ssh is used."""
    return {
        name: _object_store(policy, name)
        if storage.kind is StorageAreaKind.COMMAND
        else storage_area_at_cluster(policy, name)
        for name, storage in policy.storage.items()
    }


def _object_store(policy: Policy, name: str) -> ObjectStoreForAccount:
    storage = policy.storage[name]
    return ObjectStoreForAccount(
        name=name,
        program=storage.program,
        prefix=storage.prefix,
        account=pwd.getpwuid(os.geteuid()).pw_name,
        timeout_s=storage.timeout_s,
        max_bytes=storage.max_bytes,
        copies_at_once=storage.copies_at_once,
        is_drained=storage.drained or is_storage_area_drained(name, (), drains.list_drained_clusters()),
    )


def storage_area_at_cluster(policy: Policy, name: str, cluster: str = "") -> StorageAreaForAccount:
    """Return a storage area with its path and login at one of its clusters, by default at the first without ssh.

    The account's folder in the area has the same name at all clusters.
    """
    storage = policy.storage[name]
    accesses = {at: configured_cluster_access(policy, at) for at in storage.paths_by_cluster}
    first = min(accesses, key=lambda at: accesses[at].login is not None)
    where, login = accesses[cluster or first], accesses[first].login
    return StorageAreaForAccount(
        name=name,
        clusters=tuple(accesses),
        path=posixpath.normpath(storage.paths_by_cluster[cluster or first]),
        account=(login.user if login else "") or pwd.getpwuid(os.geteuid()).pw_name,
        login=where.login,
        timeout_s=where.timeout_s,
        max_bytes=storage.max_bytes,
        bwlimit_kib_per_s=storage.bwlimit_kib_per_s,
        copies_at_once=storage.copies_at_once,
        is_drained=storage.drained or is_storage_area_drained(name, accesses, drains.list_drained_clusters()),
    )
