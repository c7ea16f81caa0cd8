"""What became of a dataset: for its owner from their own files, for the service from its own."""

import os
import pwd
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

from gridbridge.errors import GridbridgeError
from gridbridge.model.rebalance.datasets import Dataset, ReplicaOutcome
from gridbridge.program import users_configuration
from gridbridge.rebalance.mover.service_account import policy_at
from gridbridge.rebalance.replicas import owner_processes, owner_wiring
from gridbridge.rebalance.store import delegation_files
from gridbridge.rebalance.store.carried_replica_tables import CarriedReplicas
from gridbridge.state.database import StateFile


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetReport:
    """A dataset as it was last seen, and what the service had done about it."""

    dataset: Dataset | None  # None: there is none any more
    name: str
    done: tuple[ReplicaOutcome, ...]
    is_busy: bool = False


def tell(name: str, path: str) -> DatasetReport:
    """Show the caller's dataset, NAME or OWNER/NAME; to root and the service anybody's.

    Raises GridbridgeError for an unknown dataset.
    """
    owner, slash, own = name.partition("/")
    if slash and owner != pwd.getpwuid(os.getuid()).pw_name:
        return _anybodys(name, path)
    name = own if slash else name
    served = owner_wiring.served(users_configuration.load(path)[0])
    entry = served.look(name)
    if entry is None:
        names = ", ".join(dataset.name for dataset in served.listed()) or "you have none yet"
        raise GridbridgeError(f"{name}: no job, campaign or dataset of yours; datasets: {names}")
    dataset, is_busy = entry
    return DatasetReport(dataset=dataset, name=name, done=tuple(served.done(name)), is_busy=is_busy)


def _anybodys(name: str, path: str) -> DatasetReport:
    policy = policy_at(path)
    let = [
        delegation
        for delegation in delegation_files.listed()
        if f"{delegation.owner}/{delegation.dataset}" == name
    ]
    delegated = next(iter(owner_processes.look(let)), None)
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


def _outcomes(database: StateFile, name: str) -> Iterable[ReplicaOutcome]:
    for carried in CarriedReplicas(database).all():
        if carried.dataset == name:
            why = carried.why if carried.ended_at else "it goes on"
            yield ReplicaOutcome(
                at=carried.began_at, target=carried.target, source=carried.source, why=why
            )
