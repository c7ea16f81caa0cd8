"""Run owners' processes that report datasets and act on them, by gridbridge-as-user.

Their answers are untrusted, so each value is validated.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from gridbridge.batch import privileged_helper_calls
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.rebalance.datasets import DelegatedDataset
from gridbridge.model.status_report import replace_control_characters
from gridbridge.rebalance.replicas.dataset_delegation import DatasetDelegationFile
from gridbridge.rebalance.store.dataset_records import NO_RECORD, decode_dataset_record

AT_ONCE = 50  # a person's datasets in one process
OWNERS_AT_ONCE = 8  # owners queried at once
LONG_S = 86460.0  # longer than gridbridge-as-user's limit for a copy
ANSWER_BYTES = 16 << 20
MOST_BYTES, MOST_REPLICAS = 10**18, 100
DONE, NOT_DONE = 0, 1

_log = logging.getLogger(__name__)


def query_owners_for_datasets(let: Iterable[DatasetDelegationFile]) -> list[DelegatedDataset]:
    """Return the delegated datasets as of their last check; log and skip unreadable ones.

    Several owners are queried in parallel. An owner who does not answer is not queried again, so an
    owner's hanging files delay other owners by one timeout at most.
    """
    delegations = sorted(let, key=lambda delegation: (delegation.uid, delegation.file))
    by_owner = [list(of_one) for _, of_one in groupby(delegations, lambda delegation: delegation.uid)]
    with ThreadPoolExecutor(OWNERS_AT_ONCE) as pool:
        return [dataset for datasets in pool.map(_of_owner, by_owner) for dataset in datasets]


def _of_owner(let: list[DatasetDelegationFile]) -> list[DelegatedDataset]:
    datasets: list[DelegatedDataset] = []
    for portion in _portions(let):
        rows = _ask(portion)
        if rows is None:
            break
        datasets += _datasets_of(portion, rows)
    return datasets


def verify_dataset_as_owner(delegation: DatasetDelegationFile | DelegatedDataset) -> str:
    """Have an owner's process read all replicas of a dataset; return the reason of a failure.

    Only the process's answer counts, because a killed process and a found damage have the same
    exit status.
    """
    status, report, words = _long("verify", delegation.file)
    is_told = isinstance(report, dict) and isinstance(report.get("done"), bool)
    if is_told and status in (DONE, NOT_DONE):
        return ""
    return _line(words.rpartition("\n")[2], status)


def copy_replica_as_owner(delegation: DatasetDelegationFile | DelegatedDataset, to: str, leaving: str) -> str:
    """Have an owner's process make a missing replica; return the reason of a failure."""
    return _reason(*_long("copy", delegation.file, to, *([leaving] if leaving else [])))


def drop_replica_as_owner(delegation: DatasetDelegationFile | DelegatedDataset, storage: str) -> str:
    """Have an owner's process remove a spare replica; return why it stays."""
    return _reason(*_long("drop", delegation.file, storage))


def _long(*words: str) -> tuple[int, Any, str]:
    try:
        answer = privileged_helper_calls.run_gridbridge_as_user(*words, patience_s=LONG_S, most_bytes=ANSWER_BYTES)
    except GridbridgeError as error:
        return -1, None, str(error)
    try:
        report = json.loads(answer.stdout or b"null")
    except (ValueError, RecursionError):
        report = None
    return answer.status, report, privileged_helper_calls.gridbridge_as_user_refusal(answer)


def _reason(status: int, report: Any, words: str) -> str:
    if status == DONE:
        return ""
    refused = report.get("refused") if isinstance(report, dict) else None
    reasons = refused.values() if isinstance(refused, dict) else ()
    told_words = (reason for reason in reasons if isinstance(reason, str))
    return _line("; ".join(told_words) or words, status)


def _line(words: str, status: int) -> str:
    return replace_control_characters(" ".join((words or f"exit status {status}").split())[:1000])


def _portions(let: list[DatasetDelegationFile]) -> Iterator[list[DatasetDelegationFile]]:
    return (let[first : first + AT_ONCE] for first in range(0, len(let), AT_ONCE))


def _ask(portion: list[DatasetDelegationFile]) -> list[Any] | None:
    """Return the owner's report of each dataset; None without a valid answer."""
    files = [delegation.file for delegation in portion]
    try:
        answer = privileged_helper_calls.run_gridbridge_as_user("look", *files, most_bytes=ANSWER_BYTES).checked()
        rows = json.loads(answer.stdout)
        if not isinstance(rows, list) or len(rows) != len(portion):
            raise ValueError("no answer for each")
    except (CommandFailed, GridbridgeError, ValueError, RecursionError) as error:
        _log.warning("event=datasets_unread owner=%s why=%r", portion[0].owner, str(error))
        return None
    return rows


def _datasets_of(portion: list[DatasetDelegationFile], rows: list[Any]) -> Iterator[DelegatedDataset]:
    for delegation, row in zip(portion, rows, strict=True):
        if isinstance(row, dict) and row.get("gone"):
            continue
        try:
            yield _dataset_of(delegation, row)
        except NO_RECORD as error:
            why = row.get("fault") if isinstance(row, dict) else None
            why = why if isinstance(why, str) else ""
            told_why = str(why or repr(error))[:300]
            _log.warning("event=dataset_unread file=%s why=%r", delegation.file, told_why)


def _dataset_of(delegation: DatasetDelegationFile, row: dict[str, Any]) -> DelegatedDataset:
    dataset = decode_dataset_record(delegation.dataset, row["dataset"])
    sizes = (dataset.size_bytes, *(replica.size_bytes for replica in dataset.replicas))
    is_right = all(0 <= size <= MOST_BYTES for size in sizes) and 0 < dataset.wished <= MOST_REPLICAS
    if not is_right or len(dataset.replicas) > MOST_REPLICAS:
        raise ValueError("sizes or numbers that no dataset has")
    return DelegatedDataset(
        uid=delegation.uid, owner=delegation.owner, file=delegation.file, dataset=dataset, is_busy=bool(row["busy"])
    )
