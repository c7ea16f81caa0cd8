"""What a cell has accounted for: of one job when it is asked, of all jobs in its file."""

import logging
import re
from collections.abc import Sequence
from datetime import UTC

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.job_end import settled as settled
from gridbridge.batch.gridengine.qacct import parse_accounting, read_tasks
from gridbridge.batch.gridengine.qacct import read_lines as read_lines
from gridbridge.batch.gridengine.submit import call
from gridbridge.errors import CommandFailed
from gridbridge.model.accounting import AccountingRecord
from gridbridge.model.job import ArrayEndQuery
from gridbridge.model.route import GridEngineCell
from gridbridge.shell.runner import LIST_BYTES, CompletedProgram

NO_LINE, NOT_READ = 1, 2  # exit statuses of grep(1)
UNREADABLE = re.compile(rb"unable to open|accounting: (?!No such file)")  # qacct, on standard error

_log = logging.getLogger(__name__)


def records(cell: GridEngineCell, job_id: int) -> tuple[AccountingRecord, ...]:
    """Return what the cell has accounted for a job, of all its tasks and runs.

    It is asked in UTC: qacct prints local times without their zone. Of a file that is there and
    can't be read it says that it is empty, too: that is no answer.
    """
    argv = client_commands.accounting(cell, str(job_id))
    answer = call(cell, argv, zone="UTC", most_bytes=LIST_BYTES)
    is_empty = b"no jobs running since startup" in answer.stdout
    if b"not found" in answer.stderr or (is_empty and not UNREADABLE.search(answer.stderr)):
        return ()
    return parse_accounting(answer.checked().stdout, zone=UTC)


def records_of(
    cell: GridEngineCell, arrays: Sequence[ArrayEndQuery]
) -> tuple[tuple[AccountingRecord, ...], bool]:
    """Return what it has accounted for tasks of some arrays, and whether it could be read.

    Where the file is not there, as when it was rotated away and nothing ended since, what is beside
    it is read. A line that is being written is not whole, and is there the next time.
    """
    answer = _searched(cell, arrays)
    if answer.status not in (NO_LINE, NOT_READ):
        answer.checked()
    return tuple(read_tasks(answer.stdout, arrays)), answer.status != NOT_READ


def _searched(cell: GridEngineCell, arrays: Sequence[ArrayEndQuery]) -> CompletedProgram:
    """Search for them; in all that is kept where that is wished for and can be done in time."""
    accounts = [array.account for array in arrays]
    if since := min((array.looks_since for array in arrays if array.looks_since), default=None):
        try:
            argv = client_commands.accounted_since(cell, accounts, int(since.timestamp()))
            return call(cell, argv, most_bytes=LIST_BYTES)
        except CommandFailed as error:
            _log.warning("event=not_all_accounting_read cell=%s why=%r", cell.cell, str(error))
    return call(cell, client_commands.accounted(cell, accounts), most_bytes=LIST_BYTES)
