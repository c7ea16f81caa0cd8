"""Asks owners' own processes about datasets, and has them act: by gridbridge-as-user.

What they answer is people's own word: all of it is looked at before it counts.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

from gridbridge.batch import as_user_call
from gridbridge.errors import CommandFailed, GridbridgeError
from gridbridge.model.rebalance.delegation import DelegatedDataset
from gridbridge.model.status_report import printable
from gridbridge.rebalance.store.dataset_records import NO_RECORD, decode
from gridbridge.rebalance.store.delegation_files import Delegation

AT_ONCE = 50  # datasets of a person
OWNERS_AT_ONCE = 8  # that are asked
LONG_S = 86460.0  # more than gridbridge-as-user gives a copy
ANSWER_BYTES = 16 << 20
MOST_BYTES, MOST_REPLICAS = 10**18, 100
DONE, NOT_DONE = 0, 1

_log = logging.getLogger(__name__)


def look(let: Iterable[Delegation]) -> list[DelegatedDataset]:
    """Return the datasets as they were last seen; what can't be read is logged and left out.

    Some owners are asked at once, and who gives no answer is asked no more: an owner whose files
    hang takes no more of the others' time than one answer may take.
    """
    every = sorted(let, key=lambda one: (one.uid, one.file))
    by_owner = [list(of_one) for _, of_one in groupby(every, lambda one: one.uid)]
    with ThreadPoolExecutor(OWNERS_AT_ONCE) as pool:
        return [one for found in pool.map(_of_owner, by_owner) for one in found]


def _of_owner(let: list[Delegation]) -> list[DelegatedDataset]:
    found: list[DelegatedDataset] = []
    for some in _some(let):
        told = _asked(some)
        if told is None:
            break
        found += _known(some, told)
    return found


def verify(one: Delegation | DelegatedDataset) -> str:
    """Have all replicas of a dataset read; return why that was not done.

    By its answer alone: a program that was ended or broke off has the exit status of one that found
    a replica that is not whole.
    """
    status, told, words = _long("verify", one.file)
    is_told = isinstance(told, dict) and isinstance(told.get("done"), bool)
    if is_told and status in (DONE, NOT_DONE):
        return ""
    return _line(words.rpartition("\n")[2], status)


def copy(one: Delegation | DelegatedDataset, to: str, leaving: str) -> str:
    """Have a replica made where one is missing; return why there is none."""
    return _reason(*_long("copy", one.file, to, *([leaving] if leaving else [])))


def drop(one: Delegation | DelegatedDataset, storage: str) -> str:
    """Have a replica removed of which enough others are whole; return why it stays."""
    return _reason(*_long("drop", one.file, storage))


def _long(*words: str) -> tuple[int, Any, str]:
    try:
        done = as_user_call.call(*words, patience_s=LONG_S, most_bytes=ANSWER_BYTES)
    except GridbridgeError as error:
        return -1, None, str(error)
    try:
        told = json.loads(done.stdout or b"null")
    except (ValueError, RecursionError):
        told = None
    return done.status, told, as_user_call.last_words(done)


def _reason(status: int, told: Any, words: str) -> str:
    if status == DONE:
        return ""
    refused = told.get("refused") if isinstance(told, dict) else None
    reasons = refused.values() if isinstance(refused, dict) else ()
    told_words = (one for one in reasons if isinstance(one, str))
    return _line("; ".join(told_words) or words, status)


def _line(words: str, status: int) -> str:
    return printable(" ".join((words or f"exit status {status}").split())[:1000])


def _some(let: list[Delegation]) -> Iterator[list[Delegation]]:
    return (let[first : first + AT_ONCE] for first in range(0, len(let), AT_ONCE))


def _asked(some: list[Delegation]) -> list[Any] | None:
    """Return what a person's process tells of each; None when it gives no answer."""
    files = [one.file for one in some]
    try:
        done = as_user_call.call("look", *files, most_bytes=ANSWER_BYTES).checked()
        told = json.loads(done.stdout)
        if not isinstance(told, list) or len(told) != len(some):
            raise ValueError("no answer for each")
    except (CommandFailed, GridbridgeError, ValueError, RecursionError) as error:
        _log.warning("event=datasets_unread owner=%s why=%r", some[0].owner, str(error))
        return None
    return told


def _known(some: list[Delegation], told: list[Any]) -> Iterator[DelegatedDataset]:
    for one, row in zip(some, told, strict=True):
        if isinstance(row, dict) and row.get("gone"):
            continue
        try:
            yield _kept(one, row)
        except NO_RECORD as error:
            why = row.get("fault") if isinstance(row, dict) else None
            why = why if isinstance(why, str) else ""
            told_why = str(why or repr(error))[:300]
            _log.warning("event=dataset_unread file=%s why=%r", one.file, told_why)


def _kept(one: Delegation, row: dict[str, Any]) -> DelegatedDataset:
    dataset = decode(one.dataset, row["dataset"])
    sizes = (dataset.size_bytes, *(each.size_bytes for each in dataset.replicas))
    is_right = (
        all(0 <= size <= MOST_BYTES for size in sizes) and 0 < dataset.wished <= MOST_REPLICAS
    )
    if not is_right or len(dataset.replicas) > MOST_REPLICAS:
        raise ValueError("sizes or numbers that no dataset has")
    return DelegatedDataset(
        uid=one.uid, owner=one.owner, file=one.file, dataset=dataset, is_busy=bool(row["busy"])
    )
