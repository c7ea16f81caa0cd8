"""Delegates datasets to the service: the delegation files, and the requests for delegation.

Each file lies in its owner's folder among the campaign files (`u.UID`), which only the owner and
the service's group can write. It has only the dataset's name, because the dataset's record is
private. The file's name follows from the dataset's name, so that a dataset has one file.
"""

import hashlib
import json
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from gridbridge.campaigns.store import campaign_inbox as picked
from gridbridge.errors import GridbridgeError, StateError
from gridbridge.model.campaigns.jdl import JdlDataset
from gridbridge.model.fixed_paths import CAMPAIGNS, CONFIG, KEPT_DATASET, PUBLISHED
from gridbridge.model.rebalance.datasets import DATASET_NAME
from gridbridge.model.rebalance.published_rebalance_rounds import RebalanceRoundKind
from gridbridge.model.status_report import number_with_noun
from gridbridge.program import users_configuration
from gridbridge.rebalance.replicas import owner_dataset_wiring
from gridbridge.rebalance.replicas.owner_datasets import OwnerDatasetsForService
from gridbridge.shell import safe_files
from gridbridge.state import published_json

MAX_BYTES = 1024
MOST = 1000  # most delegated datasets of one person
NO_FILE = (ValueError, KeyError, TypeError, IndexError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDelegationFile:
    """A dataset that its owner delegated to the service."""

    uid: int
    owner: str
    file: str  # file name in the folder of campaign files
    dataset: str


def write_dataset_delegation(dataset: str, folder: str = CAMPAIGNS) -> None:
    """Delegate a dataset of the caller to the service; StateError when that fails."""
    require_below_delegation_limit((dataset,), folder)
    data = json.dumps({"dataset": dataset}).encode()
    safe_files.replace_file_atomically(f"{picked.make_own_inbox_folder(folder)}/{_file_of(dataset)}", data, mode=0o640)


def remove_dataset_delegation(dataset: str, folder: str = CAMPAIGNS) -> None:
    """Revoke a dataset's delegation; may be repeated."""
    if mine := picked.find_own_inbox_folder(folder):
        safe_files.remove_file(f"{mine}/{_file_of(dataset)}")


def require_below_delegation_limit(datasets: Iterable[str], folder: str = CAMPAIGNS) -> None:
    """Raise StateError if the caller would have too many delegated datasets."""
    if not os.path.isdir(folder):
        return
    file_names = safe_files.list_folder_or_empty(picked.find_own_inbox_folder(folder))
    own_files = {name for name in file_names if picked.is_inbox_file_name(name, KEPT_DATASET)}
    if len(own_files.union(map(_file_of, datasets))) > MOST:
        raise StateError(
            f"the service looks after {len(own_files)} datasets of yours, and after no more than"
            f" {MOST}: gridbridge data drop NAME removes one"
        )


def list_dataset_delegations(folder: str = CAMPAIGNS) -> list[DatasetDelegationFile]:
    """Return all delegations, each dataset once, and at most MOST for each owner.

    Invalid files are skipped.
    """
    delegations: list[DatasetDelegationFile] = []
    for paths in picked.list_kept_inbox_files_by_uid(KEPT_DATASET, MOST, folder).values():
        of_one: dict[str, DatasetDelegationFile] = {}
        for delegation in (let for path in paths for let in _read(path, folder)):
            of_one.setdefault(delegation.dataset, delegation)
        delegations += of_one.values()
    return delegations


def _read(path: str, folder: str) -> Iterator[DatasetDelegationFile]:
    with suppress(OSError, GridbridgeError, *NO_FILE):
        person = path.partition("/")[0]
        data, facts = safe_files.read_file_only_owner_writes(f"{folder}/{path}", MAX_BYTES, int(person.split(".")[1]))
        name = json.loads(data)["dataset"]
        if isinstance(name, str) and DATASET_NAME.holds(name):
            owner = pwd.getpwuid(facts.st_uid).pw_name
            yield DatasetDelegationFile(uid=facts.st_uid, owner=owner, file=path, dataset=name)


def _file_of(dataset: str) -> str:
    return f"{KEPT_DATASET}{hashlib.sha256(dataset.encode()).hexdigest()[:32]}"


def delegate_dataset_or_why_not(name: str, folder: str = CAMPAIGNS) -> str:
    """Let the service maintain a dataset of the caller; return the reason if it can't."""
    if not os.path.isdir(folder):
        return f"{folder} is not here"
    try:
        write_dataset_delegation(name, folder)
    except StateError as error:
        return str(error)
    return ""


def why_no_dataset_rounds(folder: str = PUBLISHED) -> str:
    """Return why no dataset rounds run at this site; empty if dataset rounds run."""
    with suppress(StateError, OSError):
        if published_json.read_published_rebalance_round(RebalanceRoundKind.DATASETS, folder) is None:
            return "no round about datasets (gridbridge rebalance data) has ever begun here"
    return ""


def refuse_too_many_delegations(names: Iterable[str], folder: str = CAMPAIGNS) -> None:
    """Raise GridbridgeError if the caller would delegate too many datasets."""
    require_below_delegation_limit(names, folder)


def try_revoke_dataset_delegation(name: str, folder: str = CAMPAIGNS) -> None:
    """End the service's maintenance of a dataset."""
    with suppress(StateError):
        remove_dataset_delegation(name, folder)


def add_campaign_datasets(requests: Mapping[str, JdlDataset], path: str = CONFIG) -> None:
    """Add the datasets that a campaign names, and let the service make their replicas.

    An existing dataset with the same path and number of replicas is kept. For any other existing
    dataset GridbridgeError is raised, and nothing is added.
    """
    if not requests:
        return
    served = owner_dataset_wiring.open_owner_datasets_silently(users_configuration.load_config_or_one_in_force(path)[0])
    new = [name for name, request in requests.items() if not _is_there(served, name, request)]
    refuse_too_many_delegations(requests)
    for name in new:
        served.add(name, requests[name].path, requests[name].replicas, is_later=True)
    for name in requests:
        if why := delegate_dataset_or_why_not(name):
            raise GridbridgeError(f"the service does not look after {name}: {why}")


def _is_there(served: OwnerDatasetsForService, name: str, request: JdlDataset) -> bool:
    """Say whether a dataset exists as requested; GridbridgeError if it differs from the request."""
    entry = served.look(name)
    if entry is None:
        return False
    dataset, _ = entry
    if (dataset.path, dataset.wished) != (request.path, request.replicas):
        raise GridbridgeError(
            f"{name}: you have such a dataset of {dataset.path} with"
            f" {number_with_noun(dataset.wished, 'replica')};"
            f" expected another name, or gridbridge data drop {name} first"
        )
    return True
