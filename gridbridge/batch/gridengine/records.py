"""What a cell has accounted for: of one job when it is asked, of all jobs in its file."""

from collections.abc import Sequence
from datetime import UTC

from gridbridge.batch.gridengine import commands
from gridbridge.batch.gridengine.accounting import parse_accounting, read_tasks
from gridbridge.batch.gridengine.accounting import read_lines as read_lines
from gridbridge.batch.gridengine.ends import settled as settled
from gridbridge.batch.gridengine.submit import call
from gridbridge.model.accounting import AccountingRecord
from gridbridge.model.job import AskedArray
from gridbridge.model.route import Cell

NO_LINE, NOT_READ = 1, 2  # exit statuses of grep(1)


def records(cell: Cell, job_id: int) -> tuple[AccountingRecord, ...]:
    """Return what the cell has accounted for a job, of all its tasks and runs.

    It is asked in UTC: qacct prints local times without their zone.
    """
    done = call(cell, commands.accounting(cell, str(job_id)), zone="UTC")
    if b"not found" in done.stderr or b"no jobs running since startup" in done.stdout:
        return ()
    return parse_accounting(done.checked().stdout, zone=UTC)


def records_of(cell: Cell, arrays: Sequence[AskedArray]) -> tuple[AccountingRecord, ...] | None:
    """Return what it has accounted for tasks of some arrays; None where that file is not to read.

    A line that is being written is not whole, and is there the next time.
    """
    done = call(cell, commands.accounted(cell, [one.account for one in arrays]))
    if done.status == NO_LINE:
        return ()
    if done.status == NOT_READ:
        return None
    return tuple(read_tasks(done.checked().stdout, arrays))
