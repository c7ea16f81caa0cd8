"""Read newly ended tasks from a cell's accounting, and store their aggregated counts."""

import os
from contextlib import suppress
from datetime import datetime

from gridbridge.batch.gridengine.qacct import parse_task_end_times
from gridbridge.errors import StateError
from gridbridge.model.elastic.published_balance import (
    RecentlyEndedTasks,
    merge_tasks_ended_by_minute,
    update_learnt_run_times,
)
from gridbridge.model.remote_job_accounting import AccountingFilePosition
from gridbridge.shell import followed_file, safe_files
from gridbridge.state import published_json

STEPS = 32  # 8 MiB steps per round: three seconds at the first round


def read_stored_task_ends(path: str) -> RecentlyEndedTasks:
    """Return the stored recent task ends; empty for a missing or unreadable file.

    With an empty result, the next round reads the accounting file from its start.
    """
    with suppress(StateError):
        return published_json.read_published_value(path, RecentlyEndedTasks) or RecentlyEndedTasks()
    return RecentlyEndedTasks()


def write_stored_task_ends(path: str, ends: RecentlyEndedTasks) -> None:
    """Store the recent task ends; raise StateError when storing fails."""
    safe_files.replace_file_atomically(path, published_json.encode_published_value(ends), durable=False)


def add_task_ends_from_accounting(path: str, ends: RecentlyEndedTasks, now: datetime) -> RecentlyEndedTasks:
    """Return the recent task ends, with the ends that the accounting file got since the last call.

    A new cell has no accounting file before its first task ends. Raises StateError when
    the file can't be read.
    """
    if not ends.place.inode and not os.path.exists(path):
        return ends
    for _ in range(STEPS):
        step = followed_file.read_appended_lines(path, ends.place, now.timestamp())
        ends = _with(ends, step.lines, step.place)
        if not step.is_more:
            break
    return ends


def _with(ends: RecentlyEndedTasks, lines: bytes, position: AccountingFilePosition) -> RecentlyEndedTasks:
    new_ends = tuple(parse_task_end_times(lines))
    return RecentlyEndedTasks(
        place=position,
        minutes=merge_tasks_ended_by_minute((*ends.minutes, *(end for end, _, _ in new_ends))),
        runs=update_learnt_run_times(ends.runs, ((owner, name, end.run_s) for end, owner, name in new_ends)),
    )
