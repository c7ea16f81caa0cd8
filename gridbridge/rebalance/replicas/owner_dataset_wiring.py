"""Builds a person's datasets and storage areas from gridbridge.toml."""

import os
import posixpath
import pwd
from collections.abc import Set

from gridbridge.batch.configured_cluster_routes import configured_cluster_address
from gridbridge.errors import GridbridgeError
from gridbridge.model.policy import Policy
from gridbridge.model.rebalance.rebalance_section import StorageAreaSection
from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasetsForService
from gridbridge.rebalance.replicas.replica_copy import FileCopyFunction, ReplicaCopier, Tell, copy_files_by_rsync
from gridbridge.rebalance.replicas.storage_area_access import StorageAreaForAccount
from gridbridge.rebalance.store.dataset_records import OwnerDatasetRecords
from gridbridge.shell.clock import Clock
from gridbridge.state import drains

RECORDS = ".gridbridge/data"  # folder in the user's home directory


def open_owner_datasets(
    policy: Policy, records: str, tell: Tell, carry: FileCopyFunction = copy_files_by_rsync
) -> OwnerDatasetsForService:
    """Return the datasets of the current account; `records` is empty for the default folder.

    Raises GridbridgeError for root, who has no account of its own on clusters by ssh.
    """
    me = pwd.getpwuid(os.geteuid())
    by_name = storage_areas_of_account(policy)
    if not me.pw_uid and any(area.login for area in by_name.values()):
        raise GridbridgeError("root has no datasets; expected sudo -u OWNER gridbridge data ...")
    copier = ReplicaCopier(clock=Clock(), tell=tell, carry=carry)
    folder = OwnerDatasetRecords(os.path.abspath(records) if records else f"{me.pw_dir}/{RECORDS}")
    return OwnerDatasetsForService(folder, by_name, policy.rebalance, copier)


def open_owner_datasets_silently(policy: Policy) -> OwnerDatasetsForService:
    """Return the datasets of the current account without progress output."""
    return open_owner_datasets(policy, "", lambda _: None)


def storage_areas_of_account(policy: Policy) -> dict[str, StorageAreaForAccount]:
    """Return the storage areas, with the paths and logins of the current account."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    drained = drains.list_drained_clusters()
    return {name: _area(policy, name, area, me, drained) for name, area in policy.storage.items()}


def _area(policy: Policy, name: str, storage: StorageAreaSection, me: str, drained: Set[str]) -> StorageAreaForAccount:
    where = configured_cluster_address(policy, storage.cluster)
    account = where.login.user if where.login else ""
    return StorageAreaForAccount(
        name=name,
        cluster=storage.cluster,
        path=posixpath.normpath(storage.path),
        account=account or me,
        login=where.login,
        timeout_s=where.timeout_s,
        max_bytes=storage.max_bytes,
        bwlimit_kib_per_s=storage.bwlimit_kib_per_s,
        copies_at_once=storage.copies_at_once,
        is_drained=storage.drained or bool({name, storage.cluster} & drained),
    )
