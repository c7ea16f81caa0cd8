"""gridbridge data: manage a person's datasets and their replicas in storage areas."""

import os
from functools import partial
from typing import TYPE_CHECKING

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, FIXED_PATHS, JSON, FullSentenceCommandGroup
from gridbridge.errors import GridbridgeError
from gridbridge.model.fixed_paths import FixedPaths
from gridbridge.shell.clock import Clock

if TYPE_CHECKING:
    from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasets

RECORDS_HELP = "Folder with the records of datasets.  [default: ~/.gridbridge/data]"
RECORDS = click.option("--records", metavar="FOLDER", default="", help=RECORDS_HELP)


@click.group(cls=FullSentenceCommandGroup)
def data() -> None:
    """Keep replicas of your files in the storage areas of several clusters.

    A dataset is a file or a folder of yours, with the checksum of each file. A replica counts only if it is whole. Run
    the commands under your own account, on the transfer host. Exit status: 0 done; 1 partly done, with the reasons; 2
    an error.

    \b
    Example:
      gridbridge data add reads ~/reads --replicas 2
      gridbridge data verify reads
    """


@data.command()
@click.argument("name")
@click.argument("source", metavar="PATH")
@click.option("--replicas", metavar="N", type=int, default=1, show_default=True, help="Number of replicas.")
@click.option("--stay", "is_fixed", is_flag=True, help="Keep rounds from moving the replicas to even out disk usage.")
@click.option("--later", "is_later", is_flag=True, help="Leave the copies to the service, which makes them later.")
@RECORDS
@CONFIG_FILE
@FIXED_PATHS
def add(
    paths: FixedPaths, name: str, source: str, replicas: int, is_fixed: bool, is_later: bool, records: str, path: str
) -> int:
    """Record a file or a folder as a dataset, and make its replicas.

    The replicas go to the clusters with the most free space, to different clusters if possible. The command lists
    missing replicas with the reasons. `replicate` and the service's rounds make missing replicas later; the rounds
    ignore datasets that were recorded with another --records. With --later, the command warns on standard error if
    no round will make the replicas. Exit status: 0 done, also with --later; 1 fewer replicas than wanted; 2 an error.

    \b
    Example:
      gridbridge data add reads ~/reads --replicas 2
    """
    from gridbridge.rebalance.cli import dataset_report

    source = os.path.abspath(source)
    datasets = _open_own_datasets(path, records)
    if not records:
        from gridbridge.rebalance.replicas import delegated_datasets

        delegated_datasets.require_below_delegation_limit((name,), paths.campaigns)
    let = partial(_delegate_dataset_or_warn, name, records, paths, is_later=is_later)
    result = datasets.add_dataset(name, source, replicas, may_move=not is_fixed, is_later=is_later, notify=let)
    return dataset_report.print_dataset_outcome(result, datasets.clusters_by_area)


@data.command(name="list")
@RECORDS
@CONFIG_FILE
@JSON
def list_(records: str, path: str, is_json: bool) -> int:
    """List your datasets, with their replicas as of the last check.

    \b
    Example:
      gridbridge data list
      gridbridge data list --json
    """
    from gridbridge.rebalance.cli import dataset_report

    if records and not os.path.isdir(records):  # otherwise a mistyped folder would print an empty list
        raise GridbridgeError(f"--records {records}: no such folder; `gridbridge data add --records` makes a folder")
    datasets = _open_own_datasets(path, records)
    return dataset_report.print_datasets(datasets.list_datasets(), datasets.clusters_by_area, is_json=is_json)


@data.command()
@click.argument("name")
@RECORDS
@CONFIG_FILE
@JSON
def verify(name: str, records: str, path: str, is_json: bool) -> int:
    """Read every replica of a dataset, and compare each file with its checksum.

    The command changes no replica. Exit status: 0 all replicas are whole, and as many as wanted; 1 otherwise; 2 an
    error.

    \b
    Example:
      gridbridge data verify reads
      gridbridge data verify reads --json
    """
    from gridbridge.rebalance.cli import dataset_report

    datasets = _open_own_datasets(path, records)
    result = datasets.verify_dataset(name)
    return dataset_report.print_replicas(result, datasets.clusters_by_area, Clock().now(), is_json=is_json)


@data.command()
@click.argument("name")
@click.option("--to", metavar="STORAGE", default="", help="Copy only into this area, even beyond the wanted number.")
@RECORDS
@CONFIG_FILE
@FIXED_PATHS
def replicate(paths: FixedPaths, name: str, to: str, records: str, path: str) -> int:
    """Make the missing replicas of a dataset, and repair damaged replicas.

    The command verifies all replicas first, and replaces changed files. An interrupted copy is continued. Exit status:
    0 done; 1 fewer replicas than wanted; 2 an error.

    \b
    Example:
      gridbridge data replicate reads
      gridbridge data replicate reads --to gamma-scratch
    """
    from gridbridge.rebalance.cli import dataset_report

    datasets = _open_own_datasets(path, records)
    result = datasets.replicate_dataset(name, to, notify=partial(_delegate_dataset_or_warn, name, records, paths))
    return dataset_report.print_dataset_outcome(result, datasets.clusters_by_area)


@data.command()
@click.argument("name")
@click.option("--storage", default="", help="Remove only the replica in this storage area.")
@click.option("--lost", "is_lost", is_flag=True, help="Drop the dataset even if replicas can't be removed.")
@RECORDS
@CONFIG_FILE
def drop(name: str, storage: str, is_lost: bool, records: str, path: str) -> int:
    """Remove a dataset with all its replicas, or the replica in one area; the original stays.

    The last whole replica is removed only with the dataset. The service no longer maintains a dropped dataset. A
    replica that can't be removed stays recorded until the next `drop`; `replicate` lets the service maintain the
    dataset again. Exit status: 0 done; 1 a replica was not removed; 2 an error.

    \b
    Example:
      gridbridge data drop reads --storage gamma-scratch
      gridbridge data drop reads
    """
    from gridbridge.rebalance.cli import dataset_report
    from gridbridge.rebalance.replicas import delegated_datasets

    # The service is told first, so that it makes no new replicas of the dataset.
    revoke = (lambda: None) if records else partial(delegated_datasets.try_revoke_dataset_delegation, name)
    datasets = _open_own_datasets(path, records)
    result = datasets.drop_dataset_or_replica(name, storage, is_lost=is_lost, notify=revoke)
    return dataset_report.print_drop_result(result, storage, datasets.clusters_by_area)


@data.command()
@click.argument("storage")
@RECORDS
@CONFIG_FILE
def drain(storage: str, records: str, path: str) -> int:
    """Remove the replicas of all your datasets from a storage area.

    Each replica is removed after as many replicas as wanted are whole in other areas. The command lists each dataset
    that stays, with the reason. Exit status: 0 done; 1 a dataset stays in the area; 2 an error.

    \b
    Example:
      gridbridge data drain gamma-scratch
    """
    from gridbridge.rebalance.cli import dataset_report

    datasets = _open_own_datasets(path, records)
    statuses = [
        dataset_report.print_drain_result(result, datasets.clusters_by_area) for result in datasets.drain_area(storage)
    ]
    if not statuses:
        output_and_errors.print_line(f"{storage}: no replica of yours in this area")
    return max(statuses, default=0)


def _open_own_datasets(config: str, records: str) -> "OwnerDatasets":
    from gridbridge.program import configuration_in_force
    from gridbridge.rebalance.replicas import owner_datasets

    policy, _ = configuration_in_force.load_config_or_one_in_force(config)
    return owner_datasets.open_owner_datasets(policy, records, output_and_errors.show_progress)


def _delegate_dataset_or_warn(name: str, records: str, paths: FixedPaths, *, is_later: bool = False) -> None:
    """Delegate a dataset to the service; if the service does not maintain the dataset, print why.

    The service reads only the default folder of records. With `is_later` the user's command makes no replicas, and also
    warns if the service makes none.
    """
    from gridbridge.rebalance.replicas import delegated_datasets

    why = "the dataset's record is not in the default folder"
    if not records:
        why = delegated_datasets.delegate_dataset_or_why_not(name, paths.campaigns)
    if is_later and (why := why or delegated_datasets.why_no_dataset_rounds(paths.published)):
        mend = f"run gridbridge data replicate {name}"
        output_and_errors.print_error(f"gridbridge: nobody will make the replicas of {name}: {why}; {mend}")
    elif why and not records:
        output_and_errors.print_error(f"gridbridge: {name}: the service does not maintain this dataset: {why}")
