"""Report a dataset's state: from its owner's files, or from the service's."""

import os
import pwd
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from gridbridge.errors import GridbridgeError
from gridbridge.model.rebalance.datasets import Dataset, ServiceReplicaActInOwnerFile
from gridbridge.program import users_configuration
from gridbridge.rebalance.mover.rebalance_service_account import load_policy_as_service_account
from gridbridge.rebalance.replicas import dataset_delegation, dataset_owner_processes, owner_dataset_wiring
from gridbridge.rebalance.store.rebalance_tables import ReplicaActRows
from gridbridge.state.database import StateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReport:
    """A dataset as of its last check, with the service's acts on it."""

    dataset: Dataset | None  # None: the dataset was removed
    name: str
    done: tuple[ServiceReplicaActInOwnerFile, ...]
    is_busy: bool = False


def report_dataset(name: str, path: str) -> DatasetReport:
    """Report a dataset of the caller; root and the service may name any dataset by OWNER/NAME.

    Raises GridbridgeError for an unknown dataset.
    """
    owner, slash, own = name.partition("/")
    if slash and owner != pwd.getpwuid(os.getuid()).pw_name:
        return _anybodys(name, path)
    name = own if slash else name
    served = owner_dataset_wiring.open_owner_datasets_silently(users_configuration.load_config_or_one_in_force(path)[0])
    entry = served.look(name)
    if entry is None:
        names = ", ".join(dataset.name for dataset in served.listed()) or "you have none yet"
        raise GridbridgeError(f"{name}: no job, campaign or dataset of yours; datasets: {names}")
    dataset, is_busy = entry
    return DatasetReport(dataset=dataset, name=name, done=tuple(served.done(name)), is_busy=is_busy)


def _anybodys(name: str, path: str) -> DatasetReport:
    policy = load_policy_as_service_account(path)
    let = [
        delegation
        for delegation in dataset_delegation.list_dataset_delegations()
        if f"{delegation.owner}/{delegation.dataset}" == name
    ]
    delegated = next(iter(dataset_owner_processes.query_owners_for_datasets(let)), None)
    with closing(StateFile.open(policy.site.state, is_unchanged=True)) as database:
        outcomes = tuple(_outcomes(database, name))
    if not delegated and not outcomes:
        raise GridbridgeError(f"{name}: no dataset that its owner lets the service look after")
    return DatasetReport(
        dataset=delegated.dataset if delegated else None,
        name=name,
        done=outcomes,
        is_busy=bool(delegated and delegated.is_busy),
    )


def _outcomes(database: StateFile, name: str) -> Iterable[ServiceReplicaActInOwnerFile]:
    for carried in ReplicaActRows(database).all():
        if carried.dataset == name:
            why = carried.why if carried.ended_at else "it goes on"
            yield ServiceReplicaActInOwnerFile(
                at=carried.began_at, target=carried.target, source=carried.source, why=why
            )
