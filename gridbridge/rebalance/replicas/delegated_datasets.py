"""Delegates datasets to the service, and runs the owners' programs that act on delegated datasets.

A delegation is a file in `u.UID` with only a dataset's name, because records are private. Owners' answers are
untrusted.
"""

import hashlib
import json
import logging
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gridbridge.batch import privileged_helper_calls
from gridbridge.campaigns.store import campaign_inbox
from gridbridge.errors import CommandFailed, GridbridgeError, StateError
from gridbridge.model.campaigns.jdl import JdlDataset
from gridbridge.model.fixed_paths import CAMPAIGNS, KEPT_DATASET, FixedPaths
from gridbridge.model.published_status_and_reports import number_with_noun, replace_control_characters
from gridbridge.model.rebalance.datasets import DATASET_NAME, DelegatedDataset
from gridbridge.model.rebalance.published_rebalance_rounds import RebalanceRoundKind
from gridbridge.program import configuration_in_force
from gridbridge.rebalance.replicas import owner_datasets
from gridbridge.rebalance.replicas.dataset_records_and_originals import NO_RECORD, decode_dataset_record
from gridbridge.shell import safe_files
from gridbridge.state import published_json

MAX_BYTES = 1024
MOST = 1000  # maximal number of delegated datasets of one person
NO_FILE = (ValueError, KeyError, TypeError, IndexError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetDelegationFile:
    uid: int
    owner: str
    file: str
    dataset: str


def require_below_delegation_limit(datasets: Iterable[str], folder: str) -> None:
    """Raise StateError if the caller would have more than MOST delegated datasets."""
    if not os.path.isdir(folder):
        return
    file_names = safe_files.list_folder_or_empty(campaign_inbox.find_own_inbox_folder(folder))
    own_files = {name for name in file_names if campaign_inbox.is_inbox_file_name(name, KEPT_DATASET)}
    if len(own_files.union(map(_delegation_file_name, datasets))) > MOST:
        raise StateError(
            f"{len(own_files)} of your datasets are delegated to the service; expected at most {MOST}:"
            " gridbridge data drop NAME removes a dataset"
        )


def list_dataset_delegations(folder: str = CAMPAIGNS) -> list[DatasetDelegationFile]:
    """Return the valid delegations, each dataset once, and at most MOST delegations of each owner."""
    delegations: list[DatasetDelegationFile] = []
    for paths in campaign_inbox.list_kept_inbox_files_by_uid(KEPT_DATASET, MOST, folder).values():
        of_one: dict[str, DatasetDelegationFile] = {}
        for delegation in (let for path in paths for let in _read_delegation_file(path, folder)):
            of_one.setdefault(delegation.dataset, delegation)
        delegations += of_one.values()
    return delegations


def _read_delegation_file(path: str, folder: str) -> Iterator[DatasetDelegationFile]:
    with suppress(OSError, GridbridgeError, *NO_FILE):
        person = path.partition("/")[0]
        data, facts = safe_files.read_file_only_owner_writes(f"{folder}/{path}", MAX_BYTES, int(person.split(".")[1]))
        name = json.loads(data)["dataset"]
        if isinstance(name, str) and DATASET_NAME.holds(name):
            owner = pwd.getpwuid(facts.st_uid).pw_name
            yield DatasetDelegationFile(uid=facts.st_uid, owner=owner, file=path, dataset=name)


def _delegation_file_name(dataset: str) -> str:
    return f"{KEPT_DATASET}{hashlib.sha256(dataset.encode()).hexdigest()[:32]}"


def delegate_dataset_or_why_not(name: str, folder: str) -> str:
    """Delegate the caller's dataset to the service; return the reason of a failure, or ''."""
    if not os.path.isdir(folder):
        return f"{folder}: no such folder"
    try:
        require_below_delegation_limit((name,), folder)
        path = f"{campaign_inbox.make_own_inbox_folder(folder)}/{_delegation_file_name(name)}"
        safe_files.replace_file_atomically(path, json.dumps({"dataset": name}).encode(), mode=0o640)
    except StateError as error:
        return str(error)
    return ""


def why_no_dataset_rounds(folder: str) -> str:
    with suppress(StateError, OSError):
        if published_json.read_published_rebalance_round(RebalanceRoundKind.DATASETS, folder) is None:
            return "no round about datasets (gridbridge rebalance data) has ever run at this site"
    return ""


def try_revoke_dataset_delegation(name: str, folder: str = CAMPAIGNS) -> None:
    """Revoke the delegation of the caller's dataset; ignore a failure."""
    with suppress(StateError):
        if mine := campaign_inbox.find_own_inbox_folder(folder):
            safe_files.remove_file(f"{mine}/{_delegation_file_name(name)}")


def add_campaign_datasets(requests: Mapping[str, JdlDataset], paths: FixedPaths) -> None:
    """Add and delegate the datasets that a campaign names; an equal existing dataset is kept.

    If a dataset exists with another path or number of replicas, no dataset is added, and GridbridgeError is raised.
    """
    if not requests:
        return
    served = owner_datasets.open_owner_datasets(
        configuration_in_force.load_config_or_one_in_force(paths.configuration)[0]
    )
    new = [name for name in requests if not served.records.has_dataset(name)]
    for name, request in requests.items():
        dataset = served.records.load_dataset(name) if name not in new else None
        if dataset and (dataset.path, dataset.wished) != (request.path, request.replicas):
            raise GridbridgeError(
                f"{name}: you already have a dataset of this name, of {dataset.path} with"
                f" {number_with_noun(dataset.wished, 'replica')};"
                f" expected another name, or gridbridge data drop {name} first"
            )
    require_below_delegation_limit(requests, paths.campaigns)
    for name in new:
        served.add_dataset(name, requests[name].path, requests[name].replicas, is_later=True)
    for name in requests:
        if why := delegate_dataset_or_why_not(name, paths.campaigns):
            raise GridbridgeError(f"{name}: the dataset was not delegated to the service: {why}")


AT_ONCE = 50  # largest number of datasets of an owner in one query
OWNERS_AT_ONCE = 8  # largest number of owners' processes that are queried in parallel
LONG_S = 86460.0  # longer than gridbridge-as-user's time limit for a copy
ANSWER_BYTES = 16 << 20
MOST_REPLICAS = 100
DONE, NOT_DONE = 0, 1

_log = logging.getLogger(__name__)


def query_owners_for_datasets(let: Iterable[DatasetDelegationFile]) -> list[DelegatedDataset]:
    """Ask owners' processes for delegated datasets; log and skip unreadable datasets.

    If an owner's process is silent, the owner is not queried again, so that hanging files delay other owners by at most
    one timeout.
    """
    delegations = sorted(let, key=lambda delegation: (delegation.uid, delegation.file))
    by_owner = [list(of_one) for _, of_one in groupby(delegations, lambda delegation: delegation.uid)]
    with ThreadPoolExecutor(OWNERS_AT_ONCE) as pool:
        return [dataset for datasets in pool.map(_query_datasets_of_owner, by_owner) for dataset in datasets]


def _query_datasets_of_owner(let: list[DatasetDelegationFile]) -> list[DelegatedDataset]:
    datasets: list[DelegatedDataset] = []
    for portion in (let[first : first + AT_ONCE] for first in range(0, len(let), AT_ONCE)):
        if (rows := _read_dataset_records_as_owner(portion)) is None:
            break
        datasets += _valid_datasets_of_answer(portion, rows)
    return datasets


def verify_dataset_as_owner(delegation: DatasetDelegationFile | DelegatedDataset) -> str:
    """Let an owner's process read all replicas of a dataset; return the reason of a failure, or ''.

    An exit status alone proves nothing, because a killed process may end with the status of a damaged replica.
    """
    status, report, words = _run_long_action_as_owner("verify", delegation.file)
    is_told = isinstance(report, dict) and isinstance(report.get("done"), bool)
    if is_told and status in (DONE, NOT_DONE):
        return ""
    return _reason_on_one_line(words.rpartition("\n")[2], status)


def copy_replica_as_owner(delegation: DatasetDelegationFile | DelegatedDataset, to: str, leaving: str) -> str:
    """Let an owner's process make a missing replica; return the reason of a failure, or ''."""
    return _run_action_as_owner_or_why_not("copy", delegation.file, to, *filter(None, [leaving]))


def drop_replica_as_owner(delegation: DatasetDelegationFile | DelegatedDataset, storage: str) -> str:
    """Let an owner's process remove a spare replica; return the reason of a failure, or ''."""
    return _run_action_as_owner_or_why_not("drop", delegation.file, storage)


def _run_long_action_as_owner(*words: str) -> tuple[int, Any, str]:
    try:
        answer = privileged_helper_calls.run_gridbridge_as_user(*words, patience_s=LONG_S, most_bytes=ANSWER_BYTES)
    except GridbridgeError as error:
        return -1, None, str(error)
    try:
        report = json.loads(answer.stdout or b"null")
    except (ValueError, RecursionError):
        report = None
    return answer.status, report, privileged_helper_calls.gridbridge_as_user_error_text(answer)


def _run_action_as_owner_or_why_not(*request: str) -> str:
    status, report, words = _run_long_action_as_owner(*request)
    if status == DONE:
        return ""
    refused = report.get("refused") if isinstance(report, dict) else None
    reasons = refused.values() if isinstance(refused, dict) else ()
    return _reason_on_one_line("; ".join(reason for reason in reasons if isinstance(reason, str)) or words, status)


def _reason_on_one_line(words: str, status: int) -> str:
    return replace_control_characters(" ".join((words or f"exit status {status}").split())[:1000])


def _read_dataset_records_as_owner(portion: list[DatasetDelegationFile]) -> list[Any] | None:
    files = [delegation.file for delegation in portion]
    try:
        answer = privileged_helper_calls.run_gridbridge_as_user(
            "look", *files, most_bytes=ANSWER_BYTES
        ).require_success()
        rows = json.loads(answer.stdout)
        if not isinstance(rows, list) or len(rows) != len(portion):
            raise ValueError("the number of answers is not the number of datasets")
    except (CommandFailed, GridbridgeError, ValueError, RecursionError) as error:
        _log.warning("event=datasets_unread owner=%s why=%r", portion[0].owner, str(error))
        return None
    return rows


def _valid_datasets_of_answer(portion: list[DatasetDelegationFile], rows: list[Any]) -> Iterator[DelegatedDataset]:
    for delegation, row in zip(portion, rows, strict=True):
        if isinstance(row, dict) and row.get("gone"):
            continue
        try:
            yield _parse_dataset_in_owner_answer(delegation, row)
        except NO_RECORD as error:
            fault = row.get("fault") if isinstance(row, dict) else None
            why = (fault if isinstance(fault, str) and fault else repr(error))[:300]
            _log.warning("event=dataset_unread file=%s why=%r", delegation.file, why)


def _parse_dataset_in_owner_answer(delegation: DatasetDelegationFile, row: dict[str, Any]) -> DelegatedDataset:
    dataset = decode_dataset_record(delegation.dataset, row["dataset"])
    sizes = (dataset.size_bytes, *(replica.size_bytes for replica in dataset.replicas))
    is_right = all(0 <= size <= 10**18 for size in sizes) and 0 < dataset.wished <= MOST_REPLICAS
    if not is_right or len(dataset.replicas) > MOST_REPLICAS:
        raise ValueError("a size or a number of replicas is out of range")
    return DelegatedDataset(
        uid=delegation.uid, owner=delegation.owner, file=delegation.file, dataset=dataset, is_busy=bool(row["busy"])
    )
