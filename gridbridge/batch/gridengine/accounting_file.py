"""Queries a cell's accounting: of one job by qacct, of arrays by a search of the file."""

import logging
import re
from collections.abc import Sequence
from datetime import UTC

from gridbridge.batch.gridengine import client_commands
from gridbridge.batch.gridengine.job_end import settle_job_end as settle_job_end
from gridbridge.batch.gridengine.qacct import parse_accounting, read_task_records
from gridbridge.batch.gridengine.qacct import read_accounting_lines as read_accounting_lines
from gridbridge.batch.gridengine.submit import run_client
from gridbridge.errors import CommandFailed
from gridbridge.model.accounting import AccountingRecord
from gridbridge.model.job import ArrayEndQuery
from gridbridge.model.route import GridEngineCell
from gridbridge.shell.runner import LIST_BYTES, CompletedProgram

NO_LINE, NOT_READ = 1, 2  # exit statuses of grep(1)
UNREADABLE = re.compile(rb"unable to open|accounting: (?!No such file)")  # qacct, on standard error

_log = logging.getLogger(__name__)


def query_accounting_records(cell: GridEngineCell, job_id: int) -> tuple[AccountingRecord, ...]:
    """Return a job's accounting records, of all its tasks and runs.

    qacct runs in UTC, because it prints local times without a zone. An unreadable file is an error,
    although qacct then prints the same as for an empty file.
    """
    argv = client_commands.qacct_command(cell, str(job_id))
    answer = run_client(cell, argv, zone="UTC", most_bytes=LIST_BYTES)
    is_empty = b"no jobs running since startup" in answer.stdout
    if b"not found" in answer.stderr or (is_empty and not UNREADABLE.search(answer.stderr)):
        return ()
    return parse_accounting(answer.checked().stdout, zone=UTC)


def search_accounting_records(
    cell: GridEngineCell, arrays: Sequence[ArrayEndQuery]
) -> tuple[tuple[AccountingRecord, ...], bool]:
    """Return the accounting records of array tasks, and whether the file could be read.

    If the file is missing, as after a rotation, the rotated files are read. An incomplete last line
    is read the next time.
    """
    answer = _searched(cell, arrays)
    if answer.status not in (NO_LINE, NOT_READ):
        answer.checked()
    return tuple(read_task_records(answer.stdout, arrays)), answer.status != NOT_READ


def _searched(cell: GridEngineCell, arrays: Sequence[ArrayEndQuery]) -> CompletedProgram:
    """Search for them; in all that is kept where that is wished for and can be done in time."""
    accounts = [array.account for array in arrays]
    if since := min((array.looks_since for array in arrays if array.looks_since), default=None):
        try:
            argv = client_commands.search_old_accounting_command(
                cell, accounts, int(since.timestamp())
            )
            return run_client(cell, argv, most_bytes=LIST_BYTES)
        except CommandFailed as error:
            _log.warning("event=not_all_accounting_read cell=%s why=%r", cell.cell, str(error))
    return run_client(
        cell, client_commands.search_accounting_command(cell, accounts), most_bytes=LIST_BYTES
    )
