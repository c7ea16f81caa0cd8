"""gridbridge data: manage one's own datasets and their replicas in storage areas."""

import os
from typing import TYPE_CHECKING

import click

from gridbridge.cli import output_and_errors
from gridbridge.cli.command_groups_and_options import CONFIG_FILE, JSON, FullSentenceCommandGroup
from gridbridge.errors import GridbridgeError
from gridbridge.shell.clock import Clock

if TYPE_CHECKING:
    from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasets
    from gridbridge.rebalance.replicas.owner_replicas import DatasetCommandOutcome

RECORDS = click.option(
    "--records", metavar="FOLDER", default="", help="Keep the records of datasets here.  [default: ~/.gridbridge/data]"
)


@click.group(cls=FullSentenceCommandGroup)
def data() -> None:
    """Keep replicas of one's own files in the storage areas of several clusters.

    A dataset is a file or a folder of one's own, with the checksum of each file. A replica counts
    only when it is whole. All is done as oneself, on the transfer host. Exit status: 0; 1 not all
    of it could be done, which is told; 2 an error.

    \b
    Example:
      gridbridge data add reads ~/reads --replicas 2
      gridbridge data verify reads
    """


@data.command()
@click.argument("name")
@click.argument("source", metavar="PATH")
@click.option("--replicas", metavar="N", type=int, default=1, show_default=True, help="So many.")
@click.option("--stay", "is_fixed", is_flag=True, help="Not moved to even disks out.")
@click.option("--later", "is_later", is_flag=True, help="The service makes the replicas.")
@RECORDS
@CONFIG_FILE
def add(name: str, source: str, replicas: int, is_fixed: bool, is_later: bool, records: str, path: str) -> int:
    """Note a file or a folder as a dataset, and make its replicas.

    They go to the clusters with the most room, one to each as far as there are enough. What could
    not be made is told; `replicate` makes it later, or the service does: its rounds keep datasets
    as their owners wish (not those of other --records). Where --later leaves them to nobody a line
    on standard error says so.
    Exit status: 0, also with --later; 1 there are fewer replicas than wished for; 2 an error.

    \b
    Example:
      gridbridge data add reads ~/reads --replicas 2
    """
    specification = (name, os.path.abspath(source), replicas)
    datasets = _datasets(path, records)
    if not records:
        from gridbridge.rebalance.replicas import delegated_datasets

        delegated_datasets.refuse_too_many_delegations((name,))
    result = datasets.add(
        *specification, may_move=not is_fixed, is_later=is_later, notify=lambda: _let(name, records, is_later=is_later)
    )
    return _outcome(result)


@data.command(name="list")
@RECORDS
@CONFIG_FILE
@JSON
def list_(records: str, path: str, is_json: bool) -> int:
    """Show one's datasets, with their replicas as they were when they were checked last.

    \b
    Example:
      gridbridge data list
      gridbridge data list --json
    """
    from gridbridge.rebalance.cli import dataset_report

    if records and not os.path.isdir(records):  # a mistyped folder would print an empty list
        raise GridbridgeError(f"--records {records}: no such folder; expected one of `gridbridge data add --records`")
    return dataset_report.print_datasets(_datasets(path, records).listed(), is_json=is_json)


@data.command()
@click.argument("name")
@RECORDS
@CONFIG_FILE
@JSON
def verify(name: str, records: str, path: str, is_json: bool) -> int:
    """Read every replica of a dataset, and compare each file with its checksum.

    Nothing is changed. Exit status: 0 all are whole, and as many as wished for; 1 not so; 2 an
    error.

    \b
    Example:
      gridbridge data verify reads
      gridbridge data verify reads --json
    """
    from gridbridge.rebalance.cli import dataset_report

    result = _datasets(path, records).verify(name)
    return dataset_report.print_replicas(result, Clock().now(), is_json=is_json)


@data.command()
@click.argument("name")
@click.option("--to", metavar="STORAGE", default="", help="In this area, beyond the wish as well.")
@RECORDS
@CONFIG_FILE
def replicate(name: str, to: str, records: str, path: str) -> int:
    """Make the replicas that are missing, and repair those that are not whole.

    All replicas are verified first. What somebody changed in one is replaced. A copy that was cut
    goes on where it was. Exit status: 0; 1 there are fewer than wished for; 2 an error.

    \b
    Example:
      gridbridge data replicate reads
      gridbridge data replicate reads --to gamma-scratch
    """
    result = _datasets(path, records).replicate(name, to, notify=lambda: _let(name, records))
    return _outcome(result)


@data.command()
@click.argument("name")
@click.option("--storage", default="", help="The replica in this area alone.")
@click.option("--lost", "is_lost", is_flag=True, help="Forget what can't be removed.")
@RECORDS
@CONFIG_FILE
def drop(name: str, storage: str, is_lost: bool, records: str, path: str) -> int:
    """Remove all replicas and the dataset, or the replica in one area; the original stays.

    The last whole replica is only removed with the dataset. The service looks no more after a
    dataset that is dropped. Exit status: 0; 1 a replica could not be removed, and is kept in mind
    for the next drop, or for replicate, with which the service looks after it again; 2 an error.

    \b
    Example:
      gridbridge data drop reads --storage gamma-scratch
      gridbridge data drop reads
    """
    from gridbridge.rebalance.cli import dataset_report

    result = _datasets(path, records).drop(name, storage, is_lost=is_lost, notify=lambda: _take_back(name, records))
    return dataset_report.print_drop_result(result, storage)


@data.command()
@click.argument("storage")
@RECORDS
@CONFIG_FILE
def drain(storage: str, records: str, path: str) -> int:
    """Take the replicas of all one's datasets from an area.

    Each is removed once as many as wished for are whole elsewhere; until then it stays, which is
    told, as is a dataset that is busy or whose record is wrong. Exit status: 0; 1 something stays
    there; 2 an error.

    \b
    Example:
      gridbridge data drain gamma-scratch
    """
    from gridbridge.rebalance.cli import dataset_report

    statuses = [dataset_report.print_drain_result(result) for result in _datasets(path, records).drain(storage)]
    if not statuses:
        output_and_errors.print_line(f"{storage}: no replica of yours is there")
    return max(statuses, default=0)


def _datasets(config: str, records: str) -> "OwnerDatasets":
    """Return the caller's datasets; the import is slow."""
    from gridbridge.program import configuration_in_force
    from gridbridge.rebalance.replicas import owner_datasets

    policy, _ = configuration_in_force.load_config_or_one_in_force(config)
    return owner_datasets.open_owner_datasets(policy, records, output_and_errors.show_progress)


def _let(name: str, records: str, *, is_later: bool = False) -> None:
    """Ask the service to maintain a dataset's replicas; report why the service does not.

    The service ignores datasets in other folders of records. With `is_later` the user is warned if
    neither the service nor the command will make the replicas.
    """
    from gridbridge.rebalance.replicas import delegated_datasets

    why = "its record is not in the usual folder" if records else delegated_datasets.delegate_dataset_or_why_not(name)
    if is_later and (why := why or delegated_datasets.why_no_dataset_rounds()):
        mend = f"gridbridge data replicate {name} makes them"
        output_and_errors.print_error(f"gridbridge: nobody makes the replicas of {name} later: {why}; {mend}")
    elif why and not records:
        output_and_errors.print_error(f"gridbridge: the service does not look after {name}: {why}")


def _take_back(name: str, records: str) -> None:
    """End the service's maintenance of a dataset, so that the service does not remake replicas."""
    if not records:
        from gridbridge.rebalance.replicas import delegated_datasets

        delegated_datasets.try_revoke_dataset_delegation(name)


def _outcome(result: "DatasetCommandOutcome") -> int:
    from gridbridge.rebalance.cli import dataset_report

    return dataset_report.print_dataset_outcome(result)
