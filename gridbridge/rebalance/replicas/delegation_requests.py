"""People let the service look after their datasets, by hand or by a campaign's JDL."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress

from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.jdl import DatasetWish
from gridbridge.model.places import CAMPAIGNS, CONFIG, PUBLISHED
from gridbridge.model.rebalance.published_rounds import RebalanceRound
from gridbridge.model.status_report import count
from gridbridge.program import users_configuration
from gridbridge.rebalance.replicas import owner_wiring
from gridbridge.rebalance.replicas.delegated_datasets import DelegatedDatasets
from gridbridge.rebalance.store import delegation_files
from gridbridge.state import published_round_files


def let(name: str, folder: str = CAMPAIGNS) -> str:
    """Let the service look after a dataset of ours; return why it does not."""
    if not os.path.isdir(folder):
        return f"{folder} is not here"
    try:
        delegation_files.let(name, folder)
    except StateError as error:
        return str(error)
    return ""


def why_nobody(folder: str = PUBLISHED) -> str:
    """Say why the service makes no replicas of what it is let; empty when it does."""
    with suppress(StateError, OSError):
        if published_round_files.read(RebalanceRound.DATASETS, folder) is None:
            return "no round about datasets (gridbridge rebalance data) has ever begun here"
    return ""


def require_room(names: Iterable[str], folder: str = CAMPAIGNS) -> None:
    """Raise GridbridgeError if the service would not look after all of these as well."""
    delegation_files.require_room(names, folder)


def take_back(name: str, folder: str = CAMPAIGNS) -> None:
    """Let it no more."""
    with suppress(StateError):
        delegation_files.take_back(name, folder)


def take_in(requests: Mapping[str, DatasetWish], path: str = CONFIG) -> None:
    """Add the datasets that a campaign names, for the service to make their replicas.

    One that is there stays as it is if it is of the same path and has as many replicas; else
    GridbridgeError, and nothing is added.
    """
    if not requests:
        return
    served = owner_wiring.served(users_configuration.load(path)[0])
    new = [name for name, request in requests.items() if not _is_there(served, name, request)]
    require_room(requests)
    for name in new:
        served.add(name, requests[name].path, requests[name].replicas, is_later=True)
    for name in requests:
        if why := let(name):
            raise GridbridgeError(f"the service does not look after {name}: {why}")


def _is_there(served: DelegatedDatasets, name: str, request: DatasetWish) -> bool:
    """Say whether a dataset is there as it is wished for; GridbridgeError for another one."""
    entry = served.look(name)
    if entry is None:
        return False
    dataset, _ = entry
    if (dataset.path, dataset.wished) != (request.path, request.replicas):
        raise GridbridgeError(
            f"{name}: you have such a dataset of {dataset.path} with"
            f" {count(dataset.wished, 'replica')};"
            f" expected another name, or gridbridge data drop {name} first"
        )
    return True
