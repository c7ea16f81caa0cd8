"""Reads and writes published JSON files, such as a task's history `jobs/12.json` or `jobs/12.3.json`.

Until a job's owner is verified, its history is `told/UID/12.json`, made only from messages of user UID.
"""

import os
import re
from collections.abc import Container, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from cattrs import BaseValidationError
from cattrs.preconf.json import make_converter

from gridbridge.errors import ParseError, StateError
from gridbridge.model import published_status_and_reports as reports
from gridbridge.model.fixed_paths import ELSEWHERE, PUBLISHED, SET_UP
from gridbridge.model.rebalance.published_rebalance_rounds import (
    PublishedRebalancePause,
    PublishedRebalanceRound,
    PublishedStorageAreas,
    RebalanceRoundKind,
)
from gridbridge.model.transfer_name import parse_local_job_and_task
from gridbridge.shell import safe_files
from gridbridge.state import drains, published_file_formats, published_files

SERVICE = published_file_formats.SERVICE
TRANSFERS = "transfers.json"
BREAKERS = "breakers.json"
CLUSTERS = "clusters"
MAX_BYTES = 64 * 2**20  # largest size of a file, enough for 100,000 open transfers
_CONVERTER = make_converter()

T = TypeVar("T")
QUIET = "rebalance-quiesced.json"
STORAGE = "storage-areas.json"


def encode_published_value(value: object) -> bytes:
    return _CONVERTER.dumps(value).encode() + b"\n"


def to_json_types(value: object) -> object:
    unstructured: object = _CONVERTER.unstructure(value)
    return unstructured


def read_published_value(path: str, kind: type[T]) -> T | None:
    """Read a published JSON file; return None if it is missing, raise StateError if it is invalid."""
    try:
        return _CONVERTER.loads(safe_files.read_file_only_owner_writes(path, MAX_BYTES)[0], kind)
    except FileNotFoundError:
        return None
    except (BaseValidationError, ValueError, TypeError, RecursionError) as error:
        raise StateError(f"{path}: not what this version of gridbridge publishes") from error


def read_all_published_files(folder: str) -> reports.PublishedFilesSnapshot:
    """Read all published files except histories of jobs; raise StateError if their folder is missing."""
    if not os.path.isdir(folder):
        raise StateError(f"{folder}: no such folder; {ELSEWHERE}; on a new host {SET_UP} creates the folder")
    return reports.PublishedFilesSnapshot(
        service=read_published_service_status(folder),
        load=read_published_load_values(folder),
        clusters={cluster.cluster: cluster for cluster in read_published_cluster_status(folder)},
        drained=drains.read_cluster_drains(folder),
        breakers={breaker.cluster: breaker for breaker in read_published_breakers(folder).breakers},
        transfers=read_published_transfers(folder),
    )


def read_published_service_status(folder: str) -> reports.PublishedServiceStatus | None:
    return read_published_value(f"{folder}/{SERVICE}", reports.PublishedServiceStatus)


def read_published_breakers(folder: str) -> reports.PublishedBreakersOfClusters:
    return (
        read_published_value(f"{folder}/{BREAKERS}", reports.PublishedBreakersOfClusters)
        or reports.PublishedBreakersOfClusters()
    )


def read_published_transfers(folder: str) -> tuple[reports.PublishedTransfer, ...]:
    """Read the published open transfers; the result is empty if no file is published."""
    published = read_published_value(f"{folder}/{TRANSFERS}", reports.PublishedOpenTransfers)
    return published.transfers if published else ()


def read_transfer_histories_of_job(folder: str, local: str) -> tuple[reports.PublishedTaskTransfers, ...]:
    """Read the histories of a task or array; a task without a verified owner may have several."""
    histories = read_transfer_histories_of_task(folder, local)
    if histories or "." in local:
        return histories
    tasks = {task for job, task in _jobs_with_verified_history(folder) if job == int(local) and task}
    numbers = sorted(tasks | tasks_with_unverified_history(folder, int(local)))
    return tuple(history for task in numbers for history in read_transfer_histories_of_task(folder, f"{local}.{task}"))


def read_transfer_histories_of_task(folder: str, local: str) -> tuple[reports.PublishedTaskTransfers, ...]:
    """Return a task's history; without a verified owner, one history for each person who claims the task."""
    if history := read_published_value(
        published_file_formats.verified_job_history_path(local, folder), reports.PublishedTaskTransfers
    ):
        return (history,)
    histories = (
        read_published_value(path, reports.PublishedTaskTransfers) for path in unverified_history_paths(folder, local)
    )
    return tuple(history for history in histories if history)


def remove_old_transfer_histories(folder: str, before: datetime, living: frozenset[str]) -> None:
    """Remove job histories unchanged since `before`, except those of jobs in `living`."""
    for job, task in tuple(_jobs_with_verified_history(folder)):
        local = f"{job}.{task}" if task else str(job)
        path = published_file_formats.verified_job_history_path(local, folder)
        if local not in living and os.stat(path).st_mtime < before.timestamp():
            safe_files.remove_file(path)


def remove_unlisted_cluster_files(clusters: Container[str], folder: str) -> None:
    for name in safe_files.list_folder_or_empty(f"{folder}/{CLUSTERS}"):
        if name.endswith(".json") and name.removesuffix(".json") not in clusters:
            safe_files.remove_file(f"{folder}/{CLUSTERS}/{name}")


def transfers_published_at(folder: str) -> datetime | None:
    try:
        return datetime.fromtimestamp(os.stat(f"{folder}/{TRANSFERS}").st_mtime, UTC)
    except FileNotFoundError:
        return None


def read_published_load_values(folder: str) -> reports.PublishedLoadValues | None:
    try:
        path = published_file_formats.load_values_path(folder)
        taken_at, stale_s, values = published_file_formats.parse_load_values_file(path)
    except FileNotFoundError:
        return None
    stale = timedelta(seconds=stale_s)
    return reports.PublishedLoadValues(taken_at=datetime.fromtimestamp(taken_at, UTC), stale=stale, values=values)


def read_published_cluster_status(folder: str) -> Iterator[reports.PublishedClusterAnswer]:
    for path in list_published_cluster_files(folder):
        if shown := read_published_value(path, reports.PublishedClusterAnswer):
            yield shown


def list_published_cluster_files(folder: str) -> tuple[str, ...]:
    names = sorted(safe_files.list_folder_or_empty(f"{folder}/{CLUSTERS}"))
    return tuple(
        f"{folder}/{CLUSTERS}/{name}"
        for name in names
        if name.endswith(".json") and not name.startswith(safe_files.TEMPORARY)
    )


def _jobs_with_verified_history(folder: str) -> Iterator[tuple[int, int]]:
    for name in safe_files.list_folder_or_empty(f"{folder}/{published_file_formats.JOBS}"):
        if match := re.fullmatch(r"(\d{1,9})(?:\.(\d{1,9}))?\.json", name):
            yield int(match[1]), int(match[2] or 0)


def publish_rebalance_round_begin(kind: RebalanceRoundKind, at: datetime, folder: str = PUBLISHED) -> None:
    """Publish the begin of a rebalancing round; the begin of an unfinished earlier round stays."""
    last = read_published_rebalance_round(kind, folder)
    if last is None or not last.is_open:
        begun = PublishedRebalanceRound(began_at=at, ended_at=last.ended_at if last else None)
        published_files.publish_file(_rebalance_round_path(kind, folder), encode_published_value(begun))


def publish_rebalance_round_end(kind: RebalanceRoundKind, at: datetime, folder: str = PUBLISHED) -> None:
    last = read_published_rebalance_round(kind, folder) or PublishedRebalanceRound(began_at=at)
    published_files.publish_file(
        _rebalance_round_path(kind, folder), encode_published_value(replace(last, ended_at=at))
    )


def read_published_rebalance_round(kind: RebalanceRoundKind, folder: str = PUBLISHED) -> PublishedRebalanceRound | None:
    return read_published_value(_rebalance_round_path(kind, folder), PublishedRebalanceRound)


def publish_rebalance_pause(since: datetime | None, folder: str = PUBLISHED) -> None:
    """Publish since when rebalancing is paused; None if rebalancing is not paused."""
    published_files.publish_file(f"{folder}/{QUIET}", encode_published_value(PublishedRebalancePause(since=since)))


def rebalance_paused_since(folder: str = PUBLISHED) -> datetime | None:
    published = read_published_value(f"{folder}/{QUIET}", PublishedRebalancePause)
    return published.since if published else None


def publish_storage_areas(areas: PublishedStorageAreas, folder: str = PUBLISHED) -> None:
    published_files.publish_file(f"{folder}/{STORAGE}", encode_published_value(areas))


def read_published_storage_areas(folder: str = PUBLISHED) -> PublishedStorageAreas | None:
    return read_published_value(f"{folder}/{STORAGE}", PublishedStorageAreas)


def _rebalance_round_path(kind: RebalanceRoundKind, folder: str) -> str:
    return f"{folder}/rebalance-{kind.value}.json"


MOST = 1000  # at most this many unverified histories of one user are kept


def unverified_history_paths(folder: str, local: str) -> Iterator[str]:
    """Yield the path of a task's unverified history for each user who may have one."""
    for uid in safe_files.list_folder_or_empty(f"{folder}/{published_file_formats.TOLD}"):
        yield published_file_formats.unverified_history_path(local, uid, folder)


def tasks_with_unverified_history(folder: str, job: int) -> frozenset[int]:
    tasks = set[int]()
    for _, name in _unverified_history_files(folder):
        with suppress(ParseError):  # the name of a temporary file is no task
            number, task = parse_local_job_and_task(name.removesuffix(".json"))
            tasks |= {task} if number == job and task else set()
    return frozenset(tasks)


def limit_unverified_histories(folder: str, uid: int) -> None:
    """Remove the oldest unverified histories of a user, so that at most 1000 remain."""
    around = f"{folder}/{published_file_formats.TOLD}/{uid}"
    names = [name for name in safe_files.list_folder_or_empty(around) if not name.startswith(safe_files.TEMPORARY)]
    surplus = max(0, len(names) - MOST)
    for path in sorted((f"{around}/{name}" for name in names if surplus), key=os.path.getmtime)[:surplus]:
        safe_files.remove_file(path)


def remove_old_unverified_histories(folder: str, before: datetime) -> None:
    for around, name in tuple(_unverified_history_files(folder)):
        path = f"{around}/{name}"
        if os.stat(path).st_mtime < before.timestamp():
            safe_files.remove_file(path)


def _unverified_history_files(folder: str) -> Iterator[tuple[str, str]]:
    for uid in safe_files.list_folder_or_empty(f"{folder}/{published_file_formats.TOLD}"):
        around = f"{folder}/{published_file_formats.TOLD}/{uid}"
        for name in safe_files.list_folder_or_empty(around):
            yield around, name
