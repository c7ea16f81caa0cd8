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
    found = served.look(name)
    if found is None:
        names = ", ".join(one.name for one in served.listed()) or "you have none yet"
        raise GridbridgeError(f"{name}: no job, campaign or dataset of yours; datasets: {names}")
    dataset, is_busy = found
    return DatasetReport(dataset=dataset, name=name, done=tuple(served.done(name)), is_busy=is_busy)


def _anybodys(name: str, path: str) -> DatasetReport:
    policy = policy_at(path)
    let = [one for one in delegation_files.listed() if f"{one.owner}/{one.dataset}" == name]
    found = next(iter(owner_processes.look(let)), None)
    with closing(StateFile.open(policy.site.state, is_unchanged=True)) as database:
        done = tuple(_done(database, name))
    if not found and not done:
        raise GridbridgeError(f"{name}: no dataset that its owner lets the service look after")
    return DatasetReport(
        dataset=found.dataset if found else None,
        name=name,
        done=done,
        is_busy=bool(found and found.is_busy),
    )


def _done(database: StateFile, name: str) -> Iterable[ReplicaOutcome]:
    for one in CarriedReplicas(database).all():
        if one.dataset == name:
            why = one.why if one.ended_at else "it goes on"
            yield ReplicaOutcome(at=one.began_at, target=one.target, source=one.source, why=why)
