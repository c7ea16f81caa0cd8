"""Reports a dataset's state. The owner's report comes from the owner's files, the report for root from the service."""

import os
import pwd
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import format_local_time
from gridbridge.errors import GridbridgeError
from gridbridge.model.published_status_and_reports import number_with_noun, replace_control_characters
from gridbridge.model.rebalance.datasets import (
    Dataset,
    DatasetReplica,
    RefusedAreaOrDataset,
    ServiceReplicaActInOwnerFile,
    format_bytes,
    printable_file_name,
)
from gridbridge.program import configuration_in_force
from gridbridge.rebalance.mover.service_account_and_policy import load_policy_as_service_account
from gridbridge.rebalance.replica_act_and_move_tables import ReplicaActRows
from gridbridge.rebalance.replicas import delegated_datasets, owner_datasets
from gridbridge.rebalance.replicas.owner_replica_copies_and_checks import DatasetAndRefusedAreas
from gridbridge.state.state_file import StateFile

ClustersByArea = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReport:
    dataset: Dataset | None  # None: the dataset was removed
    name: str
    done: tuple[ServiceReplicaActInOwnerFile, ...]
    clusters: ClustersByArea
    is_busy: bool = False


def report_dataset(name: str, path: str) -> DatasetReport:
    """Report the caller's dataset, or to root any OWNER/NAME; raise GridbridgeError if unknown."""
    owner, slash, own = name.partition("/")
    if slash and owner != pwd.getpwuid(os.getuid()).pw_name:
        return _report_delegated_dataset(name, path)
    name = own if slash else name
    served = owner_datasets.open_owner_datasets(configuration_in_force.load_config_or_one_in_force(path)[0])
    if not served.records.has_dataset(name):
        names = ", ".join(dataset.name for dataset in served.list_datasets()) or "none"
        raise GridbridgeError(f"{name}: no job, campaign or dataset of yours; datasets: {names}")
    dataset, is_busy = served.records.load_dataset(name), served.records.is_dataset_locked(name)
    return DatasetReport(
        dataset=dataset,
        name=name,
        done=tuple(served.records.actions_of_service(name)),
        clusters=served.clusters_by_area,
        is_busy=is_busy,
    )


def _report_delegated_dataset(name: str, path: str) -> DatasetReport:
    policy = load_policy_as_service_account(path)
    let = [
        delegation
        for delegation in delegated_datasets.list_dataset_delegations()
        if f"{delegation.owner}/{delegation.dataset}" == name
    ]
    delegated = next(iter(delegated_datasets.query_owners_for_datasets(let)), None)
    with closing(StateFile.open(policy.site.state, is_unchanged=True)) as database:
        acts = [carried for carried in ReplicaActRows(database).all_acts() if carried.dataset == name]
    if not delegated and not acts:
        raise GridbridgeError(f"{name}: no dataset of this name is delegated to the service")
    outcomes = (
        ServiceReplicaActInOwnerFile(
            at=carried.began_at,
            target=carried.target,
            source=carried.source,
            why=carried.why if carried.ended_at else "still running",
        )
        for carried in acts
    )
    return DatasetReport(
        dataset=delegated.dataset if delegated else None,
        name=name,
        done=tuple(outcomes),
        clusters={storage: tuple(area.paths_by_cluster) for storage, area in policy.storage.items()},
        is_busy=bool(delegated and delegated.is_busy),
    )


DONE, NOT_ALL = 0, 1


def print_dataset_outcome(result: DatasetAndRefusedAreas, clusters: ClustersByArea) -> int:
    """Print a dataset and the storage areas that lack a requested replica; return the exit status."""
    output_and_errors.show_progress("")
    output_and_errors.print_line(describe_dataset(result.dataset, clusters))
    for refused in result.refused:
        output_and_errors.print_line(
            f"  not {replace_control_characters(refused.what)}: {replace_control_characters(refused.reason)}"
        )
    return DONE if result.is_done else NOT_ALL


def print_drain_result(result: DatasetAndRefusedAreas | RefusedAreaOrDataset, clusters: ClustersByArea) -> int:
    if isinstance(result, DatasetAndRefusedAreas):
        return print_dataset_outcome(result, clusters)
    output_and_errors.print_line(f"not {result.what}: {result.reason}")
    return NOT_ALL


def describe_dataset(dataset: Dataset, clusters: ClustersByArea) -> str:
    whole_in = [_describe_area(storage, clusters) for storage in sorted(dataset.areas_with_whole_replica)]
    where = f": {', '.join(whole_in)}" if whole_in else ""
    size = f"{number_with_noun(dataset.files, 'file')}, {format_bytes(dataset.size_bytes)}"
    whole = f"{len(dataset.areas_with_whole_replica)} of {number_with_noun(dataset.wished, 'replica')} whole{where}"
    return f"{dataset.name}: {size}, {whole}"


def _describe_area(storage: str, clusters: ClustersByArea) -> str:
    """Return an area's name; for an area that several clusters share, also the clusters."""
    names = clusters.get(storage, ())
    return replace_control_characters(f"{storage} ({' and '.join(names)})" if len(names) > 1 else storage)


def print_drop_result(result: DatasetAndRefusedAreas, storage: str, clusters: ClustersByArea) -> int:
    if storage or not result.is_done:
        return print_dataset_outcome(result, clusters)
    output_and_errors.print_line(
        f"{result.dataset.name}: dropped; {printable_file_name(result.dataset.path)} is unchanged"
    )
    return DONE


def print_datasets(all_of: Iterable[Dataset], clusters: ClustersByArea, *, is_json: bool) -> int:
    """Print a table of datasets as of their last check; return the exit status."""
    listed = list(all_of)
    if is_json:
        output_and_errors.print_json([dataset_json(dataset, clusters) for dataset in listed])
        return DONE
    head = ("DATASET", "BYTES", "FILES", "WHOLE", "WISHED", "IN", "ORIGINAL")
    rows = [
        (
            dataset.name,
            str(dataset.size_bytes),
            str(dataset.files),
            str(len(dataset.areas_with_whole_replica)),
            str(dataset.wished),
            ",".join(map(replace_control_characters, sorted(dataset.areas_with_replica))) or "-",
            printable_file_name(dataset.path),
        )
        for dataset in listed
    ]
    output_and_errors.print_table(head, rows, numbers=("BYTES", "FILES", "WHOLE", "WISHED"))
    return DONE


def print_replicas(result: DatasetAndRefusedAreas, clusters: ClustersByArea, now: datetime, *, is_json: bool) -> int:
    if is_json:
        output_and_errors.print_json(dataset_json(result.dataset, clusters))
    else:
        output_and_errors.print_line(describe_dataset(result.dataset, clusters))
        rows = [
            (
                replace_control_characters(replica.storage),
                ",".join(clusters.get(replica.storage, ())) or "-",
                str(replica.size_bytes),
                "yes" if replica.is_whole_now else "no",
                format_local_time(replica.checked_at, now),
                replace_control_characters(replica.why),
            )
            for replica in _replicas_sorted_by_area(result.dataset)
        ]
        head = ("STORAGE", "CLUSTERS", "BYTES", "WHOLE", "CHECKED", "WHY")
        output_and_errors.print_table(head, rows, numbers=("BYTES",))
    return DONE if result.is_done else NOT_ALL


def print_dataset_report(report: DatasetReport, now: datetime, *, is_json: bool) -> int:
    """Print a dataset, its replicas, and the service's actions on the dataset, the newest last."""
    if is_json:
        table = dataset_json(report.dataset, report.clusters) if report.dataset else {"name": report.name}
        moves = [
            {
                "at": outcome.at.isoformat(),
                "to": outcome.target or None,
                "from": outcome.source or None,
                "why": outcome.why or None,
            }
            for outcome in report.done
        ]
        output_and_errors.print_json(table | {"busy": report.is_busy, "moves": moves})
        return DONE
    title = describe_dataset(report.dataset, report.clusters) if report.dataset else f"{report.name}: gone"
    output_and_errors.print_line(title)
    if report.is_busy:
        output_and_errors.print_line("  a command is working on this dataset")
    for replica in _replicas_sorted_by_area(report.dataset) if report.dataset else ():
        state = "whole" if replica.is_whole_now else f"not whole: {replace_control_characters(replica.why)}"
        storage = _describe_area(replica.storage, report.clusters)
        output_and_errors.print_line(f"  {storage}: {state} (as of {format_local_time(replica.checked_at, now)})")
    for outcome in report.done:
        why = f": not done, {outcome.why}" if outcome.why else ""
        instead = f" instead of {outcome.source}" if outcome.source else ""
        deed = f"copied the dataset to {outcome.target}{instead}"
        deed = deed if outcome.target else f"removed the replica from {outcome.source}"
        output_and_errors.print_line(f"  {format_local_time(outcome.at, now):<10} the service {deed}{why}")
    return DONE


def dataset_json(dataset: Dataset, clusters: ClustersByArea) -> dict[str, object]:
    return {
        "name": dataset.name,
        "path": dataset.path,
        "kind": "tree" if dataset.is_tree else "file",
        "files": dataset.files,
        "bytes": dataset.size_bytes,
        "sha256": dataset.sha256,
        "wished": dataset.wished,
        "replicas": [
            {
                "storage": replica.storage,
                "clusters": list(clusters.get(replica.storage, ())),
                "bytes": replica.size_bytes,
                "whole": replica.is_whole_now,
                "checked_at": replica.checked_at.isoformat(),
                "why": replica.why or None,
            }
            for replica in _replicas_sorted_by_area(dataset)
        ],
    }


def _replicas_sorted_by_area(dataset: Dataset) -> list[DatasetReplica]:
    return sorted(dataset.replicas, key=lambda replica: replica.storage)
