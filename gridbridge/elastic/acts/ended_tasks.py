"""Reads on in a cell's accounting file: what was read once is never read again."""

import os
from datetime import datetime

from gridbridge.batch.gridengine.qacct import read_ends
from gridbridge.model.accounting import AccountingFilePosition
from gridbridge.model.elastic.published_balance import (
    RecentlyEndedTasks,
    add_run_times,
    merge_tasks_ended_by_minute,
)
from gridbridge.shell import followed_file

STEPS = 32  # of 8 MiB, a round: three seconds of work, the first time


def read_on(path: str, ends: RecentlyEndedTasks, now: datetime) -> RecentlyEndedTasks:
    """Return the ends with those that were added since; StateError when it can't be read.

    Before the first end of a new cell there is no file, and so nothing to read.
    """
    if not ends.place.inode and not os.path.exists(path):
        return ends
    for _ in range(STEPS):
        step = followed_file.read_on(path, ends.place, now.timestamp())
        ends = _with(ends, step.lines, step.place)
        if not step.is_more:
            break
    return ends


def _with(
    ends: RecentlyEndedTasks, lines: bytes, position: AccountingFilePosition
) -> RecentlyEndedTasks:
    """Return the ends with those of further lines."""
    new_ends = tuple(read_ends(lines))
    return RecentlyEndedTasks(
        place=position,
        minutes=merge_tasks_ended_by_minute((*ends.minutes, *(end for end, _, _ in new_ends))),
        runs=add_run_times(ends.runs, ((owner, name, end.run_s) for end, owner, name in new_ends)),
    )
