"""Finds input files of tasks in replicas of the account's datasets at a cluster.

Tasks read such a file directly in the replica, so the file is not copied to the cluster.
"""

import os
from collections.abc import Collection, Iterator

from gridbridge.errors import GridbridgeError
from gridbridge.model.campaigns.task_input_files import TaskInputFile
from gridbridge.model.rebalance.datasets import Dataset
from gridbridge.model.site_configuration import Policy
from gridbridge.rebalance.replicas import owner_datasets, storage_area_shell_scripts
from gridbridge.rebalance.replicas.dataset_records_and_originals import OwnerDatasetRecords, dataset_top_folder


def replica_paths_of_inputs(
    policy: Policy, cluster: str, files: Collection[TaskInputFile], home: str = "~"
) -> dict[str, str]:
    """Return {checksum: path at the cluster} of the files in replicas that are recorded as whole.

    A dataset with an unreadable record counts as a dataset without replicas, and a silent area as an area without
    replicas.
    """
    records = OwnerDatasetRecords(os.path.expanduser(f"{home}/{owner_datasets.RECORDS}"))
    paths: dict[str, str] = {}
    for name in records.dataset_names() if files else ():
        try:
            paths |= _paths_in_replica(policy, cluster, records, records.load_dataset(name), files)
        except (GridbridgeError, OSError):
            continue
    return paths


def _paths_in_replica(
    policy: Policy, cluster: str, records: OwnerDatasetRecords, dataset: Dataset, files: Collection[TaskInputFile]
) -> Iterator[tuple[str, str]]:
    top = f"{dataset_top_folder(dataset.path, is_tree=dataset.is_tree)}/"
    inside = [file for file in files if file.path.startswith(top)]
    storage = next(
        (name for name in dataset.areas_with_whole_replica if _is_storage_at_cluster(policy, name, cluster)), None
    )
    if not inside or storage is None:
        return
    sums = records.load_checksums(dataset)
    area = owner_datasets.storage_area_at_cluster(policy, storage, cluster)
    folder = storage_area_shell_scripts.storage_area_with_account_folder(area).account_folder_path
    for file in inside:
        name = file.path.removeprefix(top)
        if sums.get(name) == file.digest:
            yield file.digest, f"{folder}/{dataset.name}/{name}"


def _is_storage_at_cluster(policy: Policy, storage: str, cluster: str) -> bool:
    return storage in policy.storage and cluster in policy.storage[storage].paths_by_cluster
