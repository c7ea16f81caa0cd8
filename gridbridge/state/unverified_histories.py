"""Histories of transfers whose owner the home cluster has not confirmed.

The histories rest on users' own messages alone. `told/UID/12.json` has the form of `jobs/12.json`.
Each user has a limited number, and the oldest are removed first. So nobody can fill the folder or
hide another user's history.
"""

import os
from collections.abc import Iterator
from datetime import datetime

from gridbridge.errors import ParseError
from gridbridge.model.transfer_name import parse_local_job_and_task
from gridbridge.shell import safe_files
from gridbridge.state import published_file_formats

MOST = 1000  # most histories of one user


def unverified_history_paths(folder: str, local: str) -> Iterator[str]:
    """Yield the paths of all people's unverified histories of a task."""
    for uid in safe_files.list_folder_or_empty(f"{folder}/{published_file_formats.TOLD}"):
        yield published_file_formats.unverified_history_path(local, uid, folder)


def tasks_with_unverified_history(folder: str, job: int) -> frozenset[int]:
    """Return the tasks of an array job that have an unverified history."""
    names = (_local(name) for _, name in _files(folder))
    return frozenset(task for number, task in names if number == job and task)


def limit_unverified_histories(folder: str, uid: int) -> None:
    """Remove the oldest unverified histories of a person with more than 1000."""
    around = f"{folder}/{published_file_formats.TOLD}/{uid}"
    names = [name for name in safe_files.list_folder_or_empty(around) if not name.startswith(safe_files.TEMPORARY)]
    if len(names) > MOST:
        oldest_first = sorted((f"{around}/{name}" for name in names), key=os.path.getmtime)
        for path in oldest_first[: len(names) - MOST]:
            safe_files.remove_file(path)


def remove_old_unverified_histories(folder: str, before: datetime) -> None:
    """Remove unverified histories that have not changed since a time."""
    for around, name in tuple(_files(folder)):
        path = f"{around}/{name}"
        if os.stat(path).st_mtime < before.timestamp():
            safe_files.remove_file(path)


def _local(name: str) -> tuple[int, int]:
    try:
        return parse_local_job_and_task(name.removesuffix(".json"))
    except ParseError:  # a temporary file
        return 0, 0


def _files(folder: str) -> Iterator[tuple[str, str]]:
    for uid in safe_files.list_folder_or_empty(f"{folder}/{published_file_formats.TOLD}"):
        around = f"{folder}/{published_file_formats.TOLD}/{uid}"
        for name in safe_files.list_folder_or_empty(around):
            yield around, name
