"""Reads the published remote usage: a file for each local task that was ever away.

`accounting/12/12345.json`, or `12345.3.json` for a task of an array, and `readings.json`.
"""

import os
import re
from collections.abc import Iterator
from datetime import datetime

from gridbridge.model.published import (
    ShownAccountingReading,
    ShownAccountingReadings,
    ShownRemoteUsage,
)
from gridbridge.shell import files
from gridbridge.state import published_json, published_values

READINGS = "readings.json"

_TASK = re.compile(r"(\d{1,9})(?:\.(\d{1,9}))?\.json")


def read_task_accounts(folder: str, job: int, task: int) -> ShownRemoteUsage | None:
    """Read the published usage of a local task, None without published usage."""
    return published_json.read_published_value(
        published_values.accounting_path(job, task, folder), ShownRemoteUsage
    )


def read_job_accounts(folder: str, job: int) -> tuple[ShownRemoteUsage, ...]:
    """Read the published usage of a job, or of each task of an array, by task number."""
    around = os.path.dirname(published_values.accounting_path(job, 0, folder))
    tasks = sorted(task for number, task, _ in _tasks(around) if number == job)
    usages = (read_task_accounts(folder, job, task) for task in tasks)
    return tuple(usage for usage in usages if usage)


def read_accounts_since(folder: str, since: datetime | None) -> Iterator[ShownRemoteUsage]:
    """Read all usage that was published since `since`, or ever."""
    for around in _folders(folder):
        for job, task, changed_s in _tasks(around):
            if since is None or changed_s >= since.timestamp():
                usage = read_task_accounts(folder, job, task)
                if usage:
                    yield usage


def read_accounting_progress(folder: str) -> tuple[ShownAccountingReading, ...]:
    """Read the state of each accounting file's last reading; empty if none is published."""
    published = published_json.read_published_value(f"{folder}/{READINGS}", ShownAccountingReadings)
    return published.readings if published else ()


def sweep_accounts(folder: str, before: datetime) -> None:
    """Remove published usage files that have not changed since `before`."""
    for around in _folders(folder):
        for name in os.listdir(around):
            if os.lstat(f"{around}/{name}").st_mtime < before.timestamp():
                files.remove_file(f"{around}/{name}")


def _folders(folder: str) -> Iterator[str]:
    base = f"{folder}/{published_values.ACCOUNTING}"
    if os.path.isdir(base):
        yield from (f"{base}/{name}" for name in sorted(os.listdir(base)))


def _tasks(around: str) -> Iterator[tuple[int, int, float]]:
    """Yield job, task and time of change of each usage file in a folder."""
    if not os.path.isdir(around):
        return
    for entry in os.scandir(around):
        if match := _TASK.fullmatch(entry.name):
            yield int(match[1]), int(match[2] or 0), entry.stat().st_mtime
