"""Delegate one's datasets to the service, by command or by a campaign's JDL."""

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


def delegate_dataset(name: str, folder: str = CAMPAIGNS) -> str:
    """Let the service maintain a dataset of the caller; return the reason if it can't."""
    if not os.path.isdir(folder):
        return f"{folder} is not here"
    try:
        delegation_files.write_delegation(name, folder)
    except StateError as error:
        return str(error)
    return ""


def why_no_dataset_rounds(folder: str = PUBLISHED) -> str:
    """Return why the service makes no replicas here; empty if dataset rounds run."""
    with suppress(StateError, OSError):
        if published_round_files.read_published_round(RebalanceRound.DATASETS, folder) is None:
            return "no round about datasets (gridbridge rebalance data) has ever begun here"
    return ""


def require_room_for_delegations(names: Iterable[str], folder: str = CAMPAIGNS) -> None:
    """Raise GridbridgeError if the caller would delegate too many datasets."""
    delegation_files.require_delegation_room(names, folder)


def revoke_delegation(name: str, folder: str = CAMPAIGNS) -> None:
    """End the service's maintenance of a dataset."""
    with suppress(StateError):
        delegation_files.remove_delegation(name, folder)


def add_campaign_datasets(requests: Mapping[str, DatasetWish], path: str = CONFIG) -> None:
    """Add the datasets that a campaign names, and let the service make their replicas.

    An existing dataset with the same path and number of replicas is kept. For any other existing
    dataset GridbridgeError is raised, and nothing is added.
    """
    if not requests:
        return
    served = owner_wiring.open_datasets_for_service(
        users_configuration.load_policy_for_users(path)[0]
    )
    new = [name for name, request in requests.items() if not _is_there(served, name, request)]
    require_room_for_delegations(requests)
    for name in new:
        served.add(name, requests[name].path, requests[name].replicas, is_later=True)
    for name in requests:
        if why := delegate_dataset(name):
            raise GridbridgeError(f"the service does not look after {name}: {why}")


def _is_there(served: DelegatedDatasets, name: str, request: DatasetWish) -> bool:
    """Say whether a dataset exists as requested; GridbridgeError for a different one."""
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
